// Right: one product of matrices with strides, used three times.

__device__ float product(const float* a, int step_a, const float* b, int step_b, int count) {
    float sum = 0.0f;
    for (; count > 0; count--, a += step_a, b += step_b) sum += *a * *b;
    return sum;
}

__global__ void fc_backward_weights(
    const float* grad_output, const float* input, float* grad_weights, int batch, int n_in, int n_out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, o = blockIdx.y * blockDim.y + threadIdx.y;
    if (o < n_out && i < n_in)
        grad_weights[o * n_in + i] = product(grad_output + o, n_out, input + i, n_in, batch);
}

__global__ void fc_backward_input(
    const float* grad_output, const float* weights, float* grad_input, int batch, int n_in, int n_out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y * blockDim.y + threadIdx.y;
    if (b < batch && i < n_in)
        grad_input[b * n_in + i] = product(grad_output + b * n_out, 1, weights + i, n_in, n_out);
}

__global__ void fc_backward_bias(const float* grad_output, float* grad_bias, int batch, int n_out) {
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    const float one = 1.0f;
    if (o < n_out) grad_bias[o] = product(grad_output + o, n_out, &one, 0, batch);
}
