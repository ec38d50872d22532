// Wrong: idx is taken to be an output position; its thread adds to all the weights, as other threads do.
// The outputs past the number of weights are left out, and grad_weights was never set to zero.
// expect: uninitialised-read, race, wrong, unwritten, schedule

extern "C" __global__ void conv2d_backward_weights(
    const float* grad_output, const float* input, float* grad_weights,
    int batch, int C_in, int H, int W, int C_out, int F) {
    int H_out = H - F + 1, W_out = W - F + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C_out * H_out * W_out) return;
    int q = idx % W_out, p = idx / W_out % H_out;
    int k = idx / (W_out * H_out) % C_out, b = idx / (W_out * H_out * C_out);
    for (int c = 0; c < C_in; c++)
        for (int r = 0; r < F; r++)
            for (int s = 0; s < F; s++)
                grad_weights[((k * C_in + c) * F + r) * F + s] +=
                    grad_output[idx] * input[((b * C_in + c) * H + p + r) * W + q + s];
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
