// Wrong: stores the gradient as [F, F, C_in, C_out], as libraries with channels last do.
// expect: wrong

extern "C" __global__ void conv2d_backward_weights(
    const float* grad_output, const float* input, float* grad_weights,
    int batch, int C_in, int H, int W, int C_out, int F) {
    int H_out = H - F + 1, W_out = W - F + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= C_out * C_in * F * F) return;
    int k = idx % C_out, c = idx / C_out % C_in, s = idx / (C_out * C_in) % F, r = idx / (C_out * C_in * F);
    float sum = 0.0f;
    for (int b = 0; b < batch; b++)
        for (int p = 0; p < H_out; p++)
            for (int q = 0; q < W_out; q++)
                sum += grad_output[((b * C_out + k) * H_out + p) * W_out + q] *
                       input[((b * C_in + c) * H + p + r) * W + q + s];
    grad_weights[idx] = sum;
}

extern "C" __global__ void conv2d_backward_bias(
    const float* grad_output, float* grad_bias, int batch, int C_out, int H_out, int W_out) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= C_out) return;
    float sum = 0.0f;
    for (int b = 0; b < batch; b++)
        for (int i = 0; i < H_out * W_out; i++) sum += grad_output[(b * C_out + k) * H_out * W_out + i];
    grad_bias[k] = sum;
}
