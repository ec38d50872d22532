// Puzzle 09: the gradients of a convolution's weights and of its bias.
//
// What to do: every thread of the first kernel computes one weight's gradient. It
// adds grad_output * input over all images and all output positions (p, q) where
// that weight was used. A thread of the second kernel does it for one bias.
// You will write about 25 lines.
//
// Check: backwarp grade 09    Stuck: backwarp hint 09    Start again: backwarp reset 09

extern "C" __global__ void conv2d_backward_weights(
    const float* grad_output,  // [batch, C_out, H_out, W_out]
    const float* input,        // [batch, C_in, H, W]
    float* grad_weights,       // [C_out, C_in, F, F], yours to fill
    int batch, int C_in, int H, int W, int C_out, int F) {
    int H_out = H - F + 1;
    int W_out = W - F + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(1): leave the kernel if there is no weight idx.

    // TODO(2): split idx into column s (changes fastest), row r, channel c, channel k.

    // TODO(3): add up grad_output * input over all b, p, q; store the sum as weight idx.
}

extern "C" __global__ void conv2d_backward_bias(
    const float* grad_output,  // [batch, C_out, H_out, W_out]
    float* grad_bias,          // [C_out], yours to fill
    int batch, int C_out, int H_out, int W_out) {
    // TODO(4): compute k as in the first kernel; leave if there is no channel k; add up
    //          grad_output over all b, p, q; store it as bias k.
}
