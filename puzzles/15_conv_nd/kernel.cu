// Puzzle 15: the convolution of sound, images and video, and its two gradients.
//
// What to do: write the kernels of puzzle 14 with a third direction, the depth, in
// front of rows and columns: D, T taps, stride_d, pad_d, dilation_d. Sound has
// D = H = 1, an image D = 1: the same kernels serve all three. There is no bias.
// You will write about 80 lines.
//
// Check: backwarp grade 15    Stuck: backwarp hint 15    Start again: backwarp reset 15

__device__ int positions(int size, int taps, int stride, int pad, int dilation) {
    return (size + 2 * pad - dilation * (taps - 1) - 1) / stride + 1;
}

extern "C" __global__ void conv_nd_forward(
    const float* input,    // [batch, C_in, D, H, W]
    const float* weights,  // [C_out, C_in / groups, T, R, S]
    float* output,         // [batch, C_out, D_out, H_out, W_out], yours to fill
    int batch, int C_in, int D, int H, int W, int C_out, int T, int R, int S,
    int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w,
    int dilation_d, int dilation_h, int dilation_w, int groups) {
    int D_out = positions(D, T, stride_d, pad_d, dilation_d);
    int H_out = positions(H, R, stride_h, pad_h, dilation_h);
    int W_out = positions(W, S, stride_w, pad_w, dilation_w);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(1): one thread per output element (b, k, o, p, q): the sum over c, t, r, s.
}

extern "C" __global__ void conv_nd_backward_input(
    const float* grad_output, const float* weights,
    float* grad_input,  // [batch, C_in, D, H, W], yours to fill
    int batch, int C_in, int D, int H, int W, int C_out, int T, int R, int S,
    int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w,
    int dilation_d, int dilation_h, int dilation_w, int groups) {
    int D_out = positions(D, T, stride_d, pad_d, dilation_d);
    int H_out = positions(H, R, stride_h, pad_h, dilation_h);
    int W_out = positions(W, S, stride_w, pad_w, dilation_w);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(2): one thread per input element (b, channel, d, h, w): the sum over k, t, r, s.
}

extern "C" __global__ void conv_nd_backward_weights(
    const float* grad_output, const float* input,
    float* grad_weights,  // [C_out, C_in / groups, T, R, S], yours to fill
    int batch, int C_in, int D, int H, int W, int C_out, int T, int R, int S,
    int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w,
    int dilation_d, int dilation_h, int dilation_w, int groups) {
    int D_out = positions(D, T, stride_d, pad_d, dilation_d);
    int H_out = positions(H, R, stride_h, pad_h, dilation_h);
    int W_out = positions(W, S, stride_w, pad_w, dilation_w);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(3): one thread per weight (k, c, t, r, s): the sum over b, o, p, q.
}
