// Wrong: one thread per sample (or input) adds its share to results that others add to as well.
// expect: uninitialised-read, race, wrong, unwritten, schedule

extern "C" __global__ void fc_backward_weights(
    const float* grad_output, const float* input, float* grad_weights, int batch, int n_in, int n_out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y * blockDim.y + threadIdx.y;
    if (b >= batch || i >= n_in) return;
    for (int o = 0; o < n_out; o++) {
        if (b == 0) grad_weights[o * n_in + i] = 0.0f;
        grad_weights[o * n_in + i] += grad_output[b * n_out + o] * input[b * n_in + i];
    }
}

extern "C" __global__ void fc_backward_input(
    const float* grad_output, const float* weights, float* grad_input, int batch, int n_in, int n_out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y * blockDim.y + threadIdx.y;
    if (b >= batch || i >= n_in) return;
    float sum = 0.0f;
    for (int o = 0; o < n_out; o++) sum += grad_output[b * n_out + o] * weights[o * n_in + i];
    grad_input[b * n_in + i] = sum;
}

extern "C" __global__ void fc_backward_bias(const float* grad_output, float* grad_bias, int batch, int n_out) {
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= n_out) return;
    float sum = 0.0f;
    for (int b = 0; b < batch; b++) sum += grad_output[b * n_out + o];
    grad_bias[o] = sum;
}
