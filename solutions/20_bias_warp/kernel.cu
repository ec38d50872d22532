// Puzzle 20: the gradient of the bias, with warps whose lanes hand numbers to each other.
//
// What to do: block k adds up channel k, as in puzzle 19. But a warp now adds up its 32
// parts with shuffles: no shared memory, no barrier. Only the warps' sums go through
// shared memory, one element each, and the first warp adds up those.
// You will write about 20 lines.
//
// Check: backwarp grade 20    Stuck: backwarp hint 20    Start again: backwarp reset 20

// Returns in lane 0 the sum of the values of all 32 lanes.
__device__ float warp_sum(float value) {
    // TODO(1): in 5 steps, add the value of the lane 16, 8, 4, 2, 1 further on.
    // BEGIN SOLUTION
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xffffffff, value, offset);
    }
    // END SOLUTION
    return value;
}

extern "C" __global__ void conv2d_backward_bias(
    const float* grad_output,  // [batch, C_out, H_out, W_out]
    float* grad_bias,          // [C_out], yours to fill
    int batch, int C_out, int H_out, int W_out) {
    __shared__ float slot[32];  // one for every warp; a block has at most 32
    int k = blockIdx.x;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // TODO(2): add up this thread's share of channel k, as in puzzle 19.
    // BEGIN SOLUTION
    int plane = H_out * W_out;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < batch * plane; i += blockDim.x) {
        int b = i / plane;
        sum += grad_output[(b * C_out + k) * plane + i % plane];
    }
    // END SOLUTION

    // TODO(3): put the sum of every warp into its slot.
    // BEGIN SOLUTION
    sum = warp_sum(sum);
    if (lane == 0) slot[warp] = sum;
    __syncthreads();
    // END SOLUTION

    // TODO(4): let the first warp add up the slots that are in use, and store bias k.
    // BEGIN SOLUTION
    if (warp == 0) {
        int warps = blockDim.x / 32;
        sum = lane < warps ? slot[lane] : 0.0f;
        sum = warp_sum(sum);
        if (lane == 0) grad_bias[k] = sum;
    }
    // END SOLUTION
}
