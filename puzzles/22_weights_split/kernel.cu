// Puzzle 22: the gradient of the weights, the batch split over several blocks.
//
// What to do: a block of the first kernel has one row of a filter, F weights, and one part
// of the batch. It writes its F sums to a workspace. The second kernel adds up the parts
// of every weight, always in the same order. No atomics.
// You will write about 40 lines.
//
// Check: backwarp grade 22    Stuck: backwarp hint 22    Start again: backwarp reset 22

constexpr int MAX_F = 5;  // the largest F

// Returns in lane 0 the sum of the values of all 32 lanes, as in puzzle 20.
__device__ float warp_sum(float value) {
    // TODO(1): as in puzzle 20.
    return value;
}

extern "C" __global__ void conv2d_backward_weights_partial(
    const float* grad_output,  // [batch, C_out, H_out, W_out]
    const float* input,        // [batch, C_in, H, W]
    float* partial,            // [parts, C_out, C_in, F, F], yours to fill
    int batch, int C_in, int H, int W, int C_out, int F, int parts) {
    __shared__ float slot[32][MAX_F];  // for every warp, one for every weight of the row
    int row = blockIdx.x, part = blockIdx.y;
    // TODO(2): split row into r, c and k, and find the images of this part.

    // TODO(3): for every position, read grad_output once and add to F sums in registers.

    // TODO(4): add up over the block, and store F elements of partial.
}

extern "C" __global__ void add_parts(
    const float* partial,  // [parts, C_out, C_in, F, F]
    float* grad_weights,   // [C_out, C_in, F, F], yours to fill
    int parts, int weights) {
    // TODO(5): a thread adds up the parts of one weight; weights is C_out * C_in * F * F.
}
