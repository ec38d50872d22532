// Right: no index at all; pointers walk through both arrays.

extern "C" __global__ void conv2d_backward_weights(
    const float* __restrict__ grad_output, const float* __restrict__ input, float* __restrict__ grad_weights,
    int batch, int C_in, int H, int W, int C_out, int F) {
    int H_out = H - F + 1, W_out = W - F + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= C_out * C_in * F * F) return;
    int s = idx % F, r = idx / F % F, c = idx / (F * F) % C_in, k = idx / (F * F * C_in);
    const float* grad_row = grad_output + (size_t)k * H_out * W_out;
    const float* row = input + ((size_t)c * H + r) * W + s;
    float sum = 0.0f;
    while (batch--) {
        for (const float* end = grad_row + H_out * W_out; grad_row < end; row += W - W_out)
            for (const float* row_end = grad_row + W_out; grad_row < row_end;) sum += *grad_row++ * *row++;
        grad_row += (ptrdiff_t)(C_out - 1) * H_out * W_out;
        row += (ptrdiff_t)C_in * H * W - (ptrdiff_t)H_out * W;
    }
    *(grad_weights + idx) = sum;
}

extern "C" __global__ void conv2d_backward_bias(
    const float* grad_output, float* grad_bias, int batch, int C_out, int H_out, int W_out) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= C_out) return;
    float sum = 0.0f;
    for (const float* image = grad_output + k * H_out * W_out; batch--; image += C_out * H_out * W_out)
        for (const float* p = image; p < image + H_out * W_out; p++) sum += *p;
    grad_bias[k] = sum;
}
