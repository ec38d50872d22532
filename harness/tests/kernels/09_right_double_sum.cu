// Right: adds up in double and rounds once.

extern "C" __global__ void conv2d_backward_weights(
    const float* grad_output, const float* input, float* grad_weights,
    int batch, int C_in, int H, int W, int C_out, int F) {
    const int P = H - F + 1, Q = W - F + 1;
    const int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= C_out * C_in * F * F) return;
    const int s = idx % F, r = idx / F % F, c = idx / F / F % C_in, k = idx / F / F / C_in;
    double sum = 0.0;
    for (int n = 0; n < batch; ++n)
        for (int p = 0; p < P; ++p)
            for (int q = 0; q < Q; ++q)
                sum += (double)grad_output[n * C_out * P * Q + k * P * Q + p * Q + q] *
                       (double)input[n * C_in * H * W + c * H * W + (p + r) * W + (q + s)];
    grad_weights[idx] = (float)sum;
}

extern "C" __global__ void conv2d_backward_bias(
    const float* grad_output, float* grad_bias, int batch, int C_out, int H_out, int W_out) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= C_out) return;
    double sum = 0.0;
    for (int n = 0; n < batch; ++n)
        for (int p = 0; p < H_out; ++p)
            for (int q = 0; q < W_out; ++q) sum += grad_output[((n * C_out + k) * H_out + p) * W_out + q];
    grad_bias[k] = (float)sum;
}
