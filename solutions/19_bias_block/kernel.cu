// Puzzle 19: the gradient of the bias, one block per output channel.
//
// What to do: block k adds up grad_output over all images and positions of channel k.
// Every thread takes a share of the elements and puts its sum into shared memory; then
// the threads add these sums up in pairs, in a tree, with a barrier after every step.
// You will write about 15 lines.
//
// Check: backwarp grade 19    Stuck: backwarp hint 19    Start again: backwarp reset 19

extern "C" __global__ void conv2d_backward_bias(
    const float* grad_output,  // [batch, C_out, H_out, W_out]
    float* grad_bias,          // [C_out], yours to fill
    int batch, int C_out, int H_out, int W_out) {
    extern __shared__ float part[];  // blockDim.x elements, shared by the block
    int k = blockIdx.x;
    int tid = threadIdx.x;
    // TODO(1): add up this thread's share of channel k: its elements tid, tid + blockDim.x,
    //          and so on, counted over all images.
    // BEGIN SOLUTION
    int plane = H_out * W_out;
    float sum = 0.0f;
    for (int i = tid; i < batch * plane; i += blockDim.x) {
        int b = i / plane;
        sum += grad_output[(b * C_out + k) * plane + i % plane];
    }
    // END SOLUTION

    // TODO(2): put the sum into part, and wait for the others.
    // BEGIN SOLUTION
    part[tid] = sum;
    __syncthreads();
    // END SOLUTION

    // TODO(3): add up part in a tree; blockDim.x need not be a power of two.
    // BEGIN SOLUTION
    for (int n = blockDim.x; n > 1; n = (n + 1) / 2) {
        int half = (n + 1) / 2;
        if (tid < n / 2) part[tid] += part[tid + half];
        __syncthreads();
    }
    // END SOLUTION

    // TODO(4): one thread stores the result as bias k.
    // BEGIN SOLUTION
    if (tid == 0) grad_bias[k] = part[0];
    // END SOLUTION
}
