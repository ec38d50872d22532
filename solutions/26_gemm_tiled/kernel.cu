// Puzzle 26: gemm_tiled, a matrix product whose blocks share what they read.
//
// What to do: puzzle 02 again, one thread per element of C = A * B. The threads
// of a block walk along K together, TILE steps at a time: they copy a tile of
// A and a tile of B into shared memory, one element each, wait, use both, and
// wait again. No size need be a multiple of TILE. You will write about 16 lines.
//
// Check: backwarp grade 26    Stuck: backwarp hint 26    Start again: backwarp reset 26

constexpr int TILE = 16;  // a block has TILE x TILE threads and computes TILE x TILE elements of C

extern "C" __global__ void matmul(const float* A,  // [M, K]
                                  const float* B,  // [K, N]
                                  float* C,        // [M, N], yours to fill
                                  int M, int N, int K) {
    int x = threadIdx.x, y = threadIdx.y;
    // TODO(1): declare the two tiles. Compute this thread's row and column of C.
    // BEGIN SOLUTION
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    int row = blockIdx.y * TILE + y;
    int col = blockIdx.x * TILE + x;
    // END SOLUTION

    // TODO(2): for every stretch of TILE steps along K, fill both tiles, with 0 where the
    //          matrix has no element, and add up the products of the tiles.
    // BEGIN SOLUTION
    float sum = 0.0f;
    for (int start = 0; start < K; start += TILE) {
        a[y][x] = row < M && start + x < K ? A[row * K + start + x] : 0.0f;
        b[y][x] = start + y < K && col < N ? B[(start + y) * N + col] : 0.0f;
        __syncthreads();  // both tiles are full
        for (int k = 0; k < TILE; k++) {
            sum += a[y][k] * b[k][x];
        }
        __syncthreads();  // nobody needs them any more
    }
    // END SOLUTION

    // TODO(3): store the sum, if C has such an element.
    // BEGIN SOLUTION
    if (row < M && col < N) C[row * N + col] = sum;
    // END SOLUTION
}
