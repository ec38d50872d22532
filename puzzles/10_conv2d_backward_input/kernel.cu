// Puzzle 10: the gradient of a convolution's input.
//
// What to do: every thread computes the gradient of one input element. It collects
// grad_output * weight from all filters k and all taps (r, s): with tap (r, s) on
// top of it, the filter stood at position (h - r, w - s), if that exists.
// You will write about 20 lines.
//
// Check: backwarp grade 10    Stuck: backwarp hint 10    Start again: backwarp reset 10

extern "C" __global__ void conv2d_backward_input(
    const float* grad_output,  // [batch, C_out, H_out, W_out]
    const float* weights,      // [C_out, C_in, F, F]
    float* grad_input,         // [batch, C_in, H, W], yours to fill
    int batch, int C_in, int H, int W, int C_out, int F) {
    int H_out = H - F + 1;
    int W_out = W - F + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;

    // TODO(1): leave the kernel if there is no input element idx.

    // TODO(2): split idx into column w (changes fastest), row h, channel c, image b.

    // TODO(3): add up grad_output * weight over all k, r, s whose position exists; store the
    //          sum as input element idx.
}
