// Right: a struct for the shape, device functions for index and dot product, a lambda in between.

struct Shape {
    int channels, rows, columns;
    __device__ int at(int n, int channel, int row, int column) const {
        return ((n * channels + channel) * rows + row) * columns + column;
    }
};

template <typename Term>
__device__ float sum_over(int count, Term term) {
    float sum = 0.0f;
    for (int i = 0; i < count; i++) sum += term(i);
    return sum;
}

__device__ __noinline__ float window(const float* grad, const float* image, int rows, int columns, int width) {
    return sum_over(rows, [=](int p) {
        return sum_over(columns, [=](int q) { return grad[p * columns + q] * image[p * width + q]; });
    });
}

extern "C" __global__ void conv2d_backward_weights(
    const float* grad_output, const float* input, float* grad_weights,
    int batch, int C_in, int H, int W, int C_out, int F) {
    Shape out{C_out, H - F + 1, W - F + 1}, in{C_in, H, W}, filter{C_in, F, F};
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= C_out * C_in * F * F) return;
    int s = idx % F, r = idx / F % F, c = idx / (F * F) % C_in, k = idx / (F * F * C_in);
    grad_weights[filter.at(k, c, r, s)] = sum_over(batch, [=](int b) {
        return window(grad_output + out.at(b, k, 0, 0), input + in.at(b, c, r, s), out.rows, out.columns, W);
    });
}

extern "C" __global__ void conv2d_backward_bias(
    const float* grad_output, float* grad_bias, int batch, int C_out, int H_out, int W_out) {
    Shape out{C_out, H_out, W_out};
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= C_out) return;
    grad_bias[k] = sum_over(batch, [=](int b) {
        return sum_over(H_out * W_out, [=](int i) { return grad_output[out.at(b, k, 0, 0) + i]; });
    });
}
