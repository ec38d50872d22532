// Puzzle 02: matmul, the product of two matrices.
//
// What to do: every thread computes one element of C = A * B. It walks along
// row `row` of A and down column `col` of B at the same time, multiplies what
// it meets and adds the products up. Threads and blocks now have two numbers
// each, x and y. You will write about 8 lines.
//
// Check: backwarp grade 02    Stuck: backwarp hint 02    Start again: backwarp reset 02

extern "C" __global__ void matmul(const float* A,  // [M, K]
                                  const float* B,  // [K, N]
                                  float* C,        // [M, N], yours to fill
                                  int M, int N, int K) {
    // TODO(1): compute col, this thread's number in x over all blocks, and row, in y.

    // TODO(2): leave the kernel if C has no such row or no such column.

    // TODO(3): add up the K products; store the sum in this row and column of C.
}
