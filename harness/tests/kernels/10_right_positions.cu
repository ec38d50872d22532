// Right: loops over the positions that reach the element, instead of over all taps.

__device__ float of_one_filter(const float* grad, const float* filter, int h, int w, int H_out, int W_out, int F) {
    double sum = 0;
    for (int p = max(0, h - F + 1); p <= min(h, H_out - 1); p++)
        for (int q = max(0, w - F + 1); q <= min(w, W_out - 1); q++)
            sum += grad[p * W_out + q] * filter[(h - p) * F + w - q];
    return sum;
}

__global__ void conv2d_backward_input(const float* grad_output, const float* weights, float* grad_input,
                                      int batch, int C_in, int H, int W, int C_out, int F) {
    int H_out = H - F + 1, W_out = W - F + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < batch * C_in * H * W) {
        int w = idx % W, h = idx / W % H, c = idx / (W * H) % C_in, b = idx / (W * H * C_in);
        float sum = 0;
        for (int k = C_out - 1; k >= 0; --k)
            sum += of_one_filter(grad_output + (b * C_out + k) * H_out * W_out, weights + (k * C_in + c) * F * F,
                                 h, w, H_out, W_out, F);
        grad_input[idx] = sum;
    }
}
