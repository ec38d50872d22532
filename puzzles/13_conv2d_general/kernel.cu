// Puzzle 13: the convolution with stride, padding and dilation, and its three gradients.
//
// What to do: start from your kernels of puzzles 07, 10 and 09. A thread still has
// one element to compute; its number is already split. What changes is which input
// element lies under a tap: the filter steps by the stride, starts outside of the
// image by the padding, and its taps are a dilation apart. Rows (_h) and columns
// (_w) have their own numbers. You will write about 50 lines.
//
// Check: backwarp grade 13    Stuck: backwarp hint 13    Start again: backwarp reset 13

extern "C" __global__ void conv2d_forward(
    const float* input,    // [batch, C_in, H, W]
    const float* weights,  // [C_out, C_in, R, S]
    const float* bias,     // [C_out]
    float* output,         // [batch, C_out, H_out, W_out], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C_out * H_out * W_out) return;
    int q = idx % W_out, p = idx / W_out % H_out;
    int k = idx / (W_out * H_out) % C_out, b = idx / (W_out * H_out * C_out);

    // TODO(1): start from the bias of channel k; add weight * input over all c, r, s for which
    //          there is an input element; store the sum as output element idx.
}

extern "C" __global__ void conv2d_backward_input(
    const float* grad_output, const float* weights,
    float* grad_input,  // [batch, C_in, H, W], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C_in * H * W) return;
    int w = idx % W, h = idx / W % H;
    int c = idx / (W * H) % C_in, b = idx / (W * H * C_in);

    // TODO(2): add up grad_output * weight over all k, r, s whose position exists; store the
    //          sum as input element idx.
}

extern "C" __global__ void conv2d_backward_weights(
    const float* grad_output, const float* input,
    float* grad_weights,  // [C_out, C_in, R, S], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= C_out * C_in * R * S) return;
    int s = idx % S, r = idx / S % R;
    int c = idx / (S * R) % C_in, k = idx / (S * R * C_in);

    // TODO(3): add up grad_output * input over all b, p, q for which there is an input element;
    //          store the sum as weight idx.
}

extern "C" __global__ void conv2d_backward_bias(
    const float* grad_output, float* grad_bias,  // [C_out], yours to fill
    int batch, int C_out, int H_out, int W_out) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(4): leave if there is no channel k; add up its grad_output; store the sum as bias k.
}
