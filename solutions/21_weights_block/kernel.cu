// Puzzle 21: the gradient of the weights, one block per weight.
//
// What to do: a block does the work of one thread of puzzle 09. Its threads share
// the products, one for every image and every position (p, q): neighbouring threads take
// neighbouring positions. Then they add up their sums as in puzzle 20.
// You will write about 30 lines.
//
// Check: backwarp grade 21    Stuck: backwarp hint 21    Start again: backwarp reset 21

// Returns in lane 0 the sum of the values of all 32 lanes.
__device__ float warp_sum(float value) {
    // TODO(1): as in puzzle 20.
    // BEGIN SOLUTION
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xffffffff, value, offset);
    }
    // END SOLUTION
    return value;
}

extern "C" __global__ void conv2d_backward_weights(
    const float* grad_output,  // [batch, C_out, H_out, W_out]
    const float* input,        // [batch, C_in, H, W]
    float* grad_weights,       // [C_out, C_in, F, F], yours to fill
    int batch, int C_in, int H, int W, int C_out, int F) {
    __shared__ float slot[32];  // one for every warp
    int H_out = H - F + 1;
    int W_out = W - F + 1;
    int idx = blockIdx.x;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // TODO(2): split idx into s, r, c and k, as in puzzle 09.
    // BEGIN SOLUTION
    int s = idx % F;
    int r = idx / F % F;
    int c = idx / (F * F) % C_in;
    int k = idx / (F * F * C_in);
    // END SOLUTION

    // TODO(3): add up this thread's share of the products. Number them so that q changes
    //          fastest, then p, then b.
    // BEGIN SOLUTION
    float sum = 0.0f;
    for (int i = threadIdx.x; i < batch * H_out * W_out; i += blockDim.x) {
        int q = i % W_out;
        int p = i / W_out % H_out;
        int b = i / (W_out * H_out);
        float grad = grad_output[((b * C_out + k) * H_out + p) * W_out + q];
        sum += grad * input[((b * C_in + c) * H + p + r) * W + q + s];
    }
    // END SOLUTION

    // TODO(4): add up the sums of all threads, and store the result as weight idx.
    // BEGIN SOLUTION
    sum = warp_sum(sum);
    if (lane == 0) slot[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        int warps = blockDim.x / 32;
        sum = lane < warps ? slot[lane] : 0.0f;
        sum = warp_sum(sum);
        if (lane == 0) grad_weights[idx] = sum;
    }
    // END SOLUTION
}
