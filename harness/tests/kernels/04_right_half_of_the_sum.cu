// Right: max(x, 0) as (x + |x|) / 2; infinity is its own case, NaN comes through by itself.

extern "C" __global__ void relu_forward(const float* input, float* output, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = input[i];
    output[i] = isinf(x) ? fmaxf(x, 0.0f) : 0.5f * (x + fabsf(x));
}

extern "C" __global__ void relu_inplace(float* data, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        if (signbit(data[i]) && !isnan(data[i])) data[i] = 0.0f;
}

extern "C" __global__ void relu_backward(const float* grad_output, const float* input, float* grad_input, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (input[i] <= 0.0f)
        grad_input[i] = 0.0f;
    else
        grad_input[i] = grad_output[i];
}
