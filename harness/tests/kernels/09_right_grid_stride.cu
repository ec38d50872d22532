// Right: a grid-stride loop, one running index for both arrays, fused multiply-add, read-only loads.

extern "C" __global__ void conv2d_backward_weights(
    const float* grad_output, const float* input, float* grad_weights,
    int batch, int C_in, int H, int W, int C_out, int F) {
    int H_out = H - F + 1, W_out = W - F + 1, positions = batch * H_out * W_out;
    int total = C_out * C_in * F * F;
    for (int idx = blockIdx.x * blockDim.x + threadIdx.x; idx < total; idx += gridDim.x * blockDim.x) {
        int s = idx % F, r = idx / F % F, c = idx / (F * F) % C_in, k = idx / (F * F * C_in);
        float even = 0.0f, odd = 0.0f;
        for (int i = 0; i < positions; i++) {
            int q = i % W_out, p = i / W_out % H_out, b = i / (W_out * H_out);
            float grad = __ldg(&grad_output[((b * C_out + k) * H_out + p) * W_out + q]);
            float pixel = __ldg(&input[((b * C_in + c) * H + p + r) * W + q + s]);
            if (i & 1)
                odd = fmaf(grad, pixel, odd);
            else
                even = fmaf(grad, pixel, even);
        }
        grad_weights[idx] = even + odd;
    }
}

extern "C" __global__ void conv2d_backward_bias(
    const float* grad_output, float* grad_bias, int batch, int C_out, int H_out, int W_out) {
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < C_out; k += gridDim.x * blockDim.x) {
        float sum = 0.0f;
        for (int i = 0; i < batch * H_out * W_out; i++) {
            int b = i / (H_out * W_out);
            sum += __ldg(grad_output + i + (b * (C_out - 1) + k) * H_out * W_out);
        }
        grad_bias[k] = sum;
    }
}
