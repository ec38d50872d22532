// Puzzle 27: gemm_registers, a matrix product with 64 sums per thread.
//
// What to do: puzzle 26 with a larger square of C per block, BM x BN, and TM x TN
// of it per thread. Per step along K a thread takes TM numbers of one tile and
// TN of the other, and forms all TM * TN products. Floats travel in fours.
// No size need be a multiple of anything. You will write about 60 lines.
//
// Check: backwarp grade 27    Stuck: backwarp hint 27    Start again: backwarp reset 27

constexpr int BM = 64;  // a block computes BM x BN elements of C, in steps of BK along K
constexpr int BN = 64;
constexpr int BK = 8;
constexpr int TM = 8;  // a thread computes TM x TN of them
constexpr int TN = 8;

// Four neighbours in a row of a matrix, from a column that is a multiple of 4; 0 where there is no element.
__device__ float4 load4(const float* matrix, int rows, int columns, int row, int column) {
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    // TODO(1): fill v: with one read if every row begins at a multiple of 16 bytes, else one by one.
    // BEGIN SOLUTION
    if (row < rows && column < columns) {
        const float* p = matrix + row * columns + column;
        if (columns % 4 == 0) {
            v = *reinterpret_cast<const float4*>(p);
        } else {
            v.x = p[0];
            if (column + 1 < columns) v.y = p[1];
            if (column + 2 < columns) v.z = p[2];
            if (column + 3 < columns) v.w = p[3];
        }
    }
    // END SOLUTION
    return v;
}

// The opposite: store those of the four that the matrix has a place for.
__device__ void store4(float* matrix, int rows, int columns, int row, int column, float4 v) {
    // TODO(2): with one write or one by one, as above.
    // BEGIN SOLUTION
    if (row >= rows || column >= columns) return;
    float* p = matrix + row * columns + column;
    if (columns % 4 == 0) {
        *reinterpret_cast<float4*>(p) = v;
    } else {
        p[0] = v.x;
        if (column + 1 < columns) p[1] = v.y;
        if (column + 2 < columns) p[2] = v.z;
        if (column + 3 < columns) p[3] = v.w;
    }
    // END SOLUTION
}

extern "C" __global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    // TODO(3): declare the tiles, that of A transposed, and TM x TN sums. Compute where the block's square
    //          of C begins and this thread's number in the block, t; there are BN / TN threads in x.
    // BEGIN SOLUTION
    constexpr int THREADS = (BM / TM) * (BN / TN);
    // padded: the writes below meet no conflict, and rows stay aligned
    __shared__ __align__(16) float a[BK][BM + 4], b[BK][BN];
    int top = blockIdx.y * BM, left = blockIdx.x * BN;
    int x = threadIdx.x, y = threadIdx.y, t = y * (BN / TN) + x;
    float sum[TM][TN] = {};
    // END SOLUTION

    // TODO(4): as in puzzle 26, with load4; in every step of a stretch first copy the thread's numbers
    //          of both tiles into variables of its own, then use each of them many times.
    // BEGIN SOLUTION
    for (int start = 0; start < K; start += BK) {
        for (int i = t; i < BM * BK / 4; i += THREADS) {
            int m = i / (BK / 4), k = i % (BK / 4) * 4;
            float4 v = load4(A, M, K, top + m, start + k);
            a[k][m] = v.x, a[k + 1][m] = v.y, a[k + 2][m] = v.z, a[k + 3][m] = v.w;
        }
        for (int i = t; i < BK * BN / 4; i += THREADS) {
            int k = i / (BN / 4), n = i % (BN / 4) * 4;
            *reinterpret_cast<float4*>(&b[k][n]) = load4(B, K, N, start + k, left + n);
        }
        __syncthreads();  // both tiles are full
        for (int k = 0; k < BK; k++) {
            __align__(16) float p[TM], q[TN];
            for (int i = 0; i < TM; i += 4) {
                *reinterpret_cast<float4*>(&p[i]) = *reinterpret_cast<float4*>(&a[k][i * BM / TM + 4 * y]);
            }
            for (int j = 0; j < TN; j += 4) {
                *reinterpret_cast<float4*>(&q[j]) = *reinterpret_cast<float4*>(&b[k][j * BN / TN + 4 * x]);
            }
            for (int i = 0; i < TM; i++) {
                for (int j = 0; j < TN; j++) sum[i][j] += p[i] * q[j];
            }
        }
        __syncthreads();  // nobody needs them any more
    }
    // END SOLUTION

    // TODO(5): store the sums with store4.
    // BEGIN SOLUTION
    for (int i = 0; i < TM; i++) {
        int row = top + i / 4 * 4 * BM / TM + 4 * y + i % 4;
        for (int j = 0; j < TN; j += 4) {
            float4 v = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store4(C, M, N, row, left + j * BN / TN + 4 * x, v);
        }
    }
    // END SOLUTION
}
