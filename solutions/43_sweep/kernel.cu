// Puzzle 43: sweep, a matrix product for the shapes of one network, and the constants that suit them all.
//
// What to do: puzzle 27 for any values of the constants, then values that keep every limit in all three shapes:
// those that move few bytes, read shared memory rarely, wait rarely, waste few products on what is not there, and
// leave room for other blocks. You will write about 27 lines.
//
// Check: backwarp grade 43    Stuck: backwarp hint 43    Start again: backwarp reset 43

// TODO(1): BM x BN elements of C for a block, in steps of BK along K; TM x TN of them for a thread.
// BEGIN STUB
// constexpr int BM = 64;
// constexpr int BN = 64;
// constexpr int BK = 8;
// constexpr int TM = 8;
// constexpr int TN = 8;
// END STUB
// BEGIN SOLUTION
constexpr int BM = 16;
constexpr int BN = 128;
constexpr int BK = 16;
constexpr int TM = 4;
constexpr int TN = 4;
// END SOLUTION
constexpr int ACROSS = BN / TN;                // threads side by side,
constexpr int THREADS = (BM / TM) * ACROSS;    // and in a block

extern "C" __global__ void __launch_bounds__(THREADS) matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[BK][BM + 1], b[BK][BN];  // a: transposed, and padded as in puzzle 25
    int t = threadIdx.x, x = t % ACROSS, y = t / ACROSS, top = blockIdx.y * BM, left = blockIdx.x * BN;
    float sum[TM][TN] = {};
    for (int start = 0; start < K; start += BK) {
        // TODO(2): fill both tiles, whatever the number of threads; 0 where there is no element.
        // BEGIN SOLUTION
        for (int i = t; i < BM * BK; i += THREADS) {
            int m = i / BK, k = i % BK;
            a[k][m] = top + m < M && start + k < K ? A[(top + m) * K + start + k] : 0.0f;
        }
        for (int i = t; i < BK * BN; i += THREADS) {
            int k = i / BN, n = i % BN;
            b[k][n] = start + k < K && left + n < N ? B[(start + k) * N + left + n] : 0.0f;
        }
        // END SOLUTION
        __syncthreads();  // both tiles are full
        // TODO(3): for every step of the tiles, copy TM and TN numbers into variables, and add all products. Thread
        //          (x, y) has rows y, y + BM / TM, ... of the block's part of C and columns x, x + ACROSS, ...
        // BEGIN SOLUTION
        for (int k = 0; k < BK; k++) {
            float p[TM], q[TN];
            for (int i = 0; i < TM; i++) p[i] = a[k][y + i * (BM / TM)];
            for (int j = 0; j < TN; j++) q[j] = b[k][x + j * ACROSS];
            for (int i = 0; i < TM; i++) {
                for (int j = 0; j < TN; j++) sum[i][j] += p[i] * q[j];
            }
        }
        // END SOLUTION
        __syncthreads();  // nobody needs them any more
    }
    // TODO(4): store the sums that C has a place for.
    // BEGIN SOLUTION
    for (int i = 0; i < TM; i++) {
        for (int j = 0; j < TN; j++) {
            int row = top + y + i * (BM / TM), column = left + x + j * ACROSS;
            if (row < M && column < N) C[row * N + column] = sum[i][j];
        }
    }
    // END SOLUTION
}
