// Puzzle 01: vector_add, your first CUDA kernel.
//
// What to do: every thread adds one pair of numbers, c[i] = a[i] + b[i].
// All threads run this same function at the same time; each one finds out
// its own i. There are a few more threads than elements, so the last ones
// must do nothing. You will write about 3 lines.
//
// Check: backwarp grade 01    Stuck: backwarp hint 01    Start again: backwarp reset 01

extern "C" __global__ void vector_add(const float* a,  // [n]
                                      const float* b,  // [n]
                                      float* c,        // [n], yours to fill
                                      int n) {
    // TODO(1): compute i, the number of this thread counted over all blocks,
    //          from blockIdx.x, blockDim.x and threadIdx.x.

    // TODO(2): leave the kernel if the arrays have no element i.

    // TODO(3): add one pair and store the sum.
}
