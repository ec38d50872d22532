// Wrong: every entry of the matrix is added by an atomicCAS that is tried only once.
// expect: schedule

extern "C" __global__ void col2im(
    const float* grad_columns, float* grad_input, int batch, int C_in, int H, int W, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int width = batch * H_out * W_out;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < C_in * R * S * width; i += gridDim.x * blockDim.x) {
        int column = i % width, q = column % W_out, p = column / W_out % H_out, b = column / (W_out * H_out);
        int row = i / width, s = row % S, r = row / S % R, c = row / (S * R);
        int h = p * stride_h - pad_h + r * dilation_h, w = q * stride_w - pad_w + s * dilation_w;
        if (h < 0 || h >= H || w < 0 || w >= W) continue;
        float* to = grad_input + ((b * C_in + c) * H + h) * W + w;
        float seen = *to;
        atomicCAS((int*)to, __float_as_int(seen), __float_as_int(seen + grad_columns[i]));
    }
}
