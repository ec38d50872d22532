// Puzzle 14: the convolution in groups, down to one channel each, and its gradients.
//
// What to do: start from your kernels of puzzle 13. The channels of the input and
// the filters are divided into `groups` equal parts, in order; the filters of a
// group see the input channels of the same group and no others, so they have only
// C_in / groups slices. One launch computes all groups: each thread works out which
// group its element belongs to. You will write about 50 lines.
//
// Check: backwarp grade 14    Stuck: backwarp hint 14    Start again: backwarp reset 14

extern "C" __global__ void conv2d_forward(
    const float* input,    // [batch, C_in, H, W]
    const float* weights,  // [C_out, C_in / groups, R, S]
    const float* bias,     // [C_out]
    float* output,         // [batch, C_out, H_out, W_out], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C_out * H_out * W_out) return;
    int q = idx % W_out, p = idx / W_out % H_out;
    int k = idx / (W_out * H_out) % C_out, b = idx / (W_out * H_out * C_out);

    // TODO(1): find the group of filter k; start from its bias; add weight * input over the
    //          channels of the group and all r, s; store the sum as output element idx.
}

extern "C" __global__ void conv2d_backward_input(
    const float* grad_output, const float* weights,
    float* grad_input,  // [batch, C_in, H, W], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C_in * H * W) return;
    int w = idx % W, h = idx / W % H;
    int channel = idx / (W * H) % C_in, b = idx / (W * H * C_in);

    // TODO(2): find the group of the channel; add up grad_output * weight over the filters of
    //          the group and all r, s whose position exists; store the sum.
}

extern "C" __global__ void conv2d_backward_weights(
    const float* grad_output, const float* input,
    float* grad_weights,  // [C_out, C_in / groups, R, S], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= C_out * (C_in / groups) * R * S) return;
    int s = idx % S, r = idx / S % R;
    int c = idx / (S * R) % (C_in / groups), k = idx / (S * R * (C_in / groups));

    // TODO(3): find the channel of the input that slice c of filter k sees; add up
    //          grad_output * input over all b, p, q; store the sum as weight idx.
}
