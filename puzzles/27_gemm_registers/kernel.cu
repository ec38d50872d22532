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
    return v;
}

// The opposite: store those of the four that the matrix has a place for.
__device__ void store4(float* matrix, int rows, int columns, int row, int column, float4 v) {
    // TODO(2): with one write or one by one, as above.
}

extern "C" __global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    // TODO(3): declare the tiles, that of A transposed, and TM x TN sums. Compute where the block's square
    //          of C begins and this thread's number in the block, t; there are BN / TN threads in x.

    // TODO(4): as in puzzle 26, with load4; in every step of a stretch first copy the thread's numbers
    //          of both tiles into variables of its own, then use each of them many times.

    // TODO(5): store the sums with store4.
}
