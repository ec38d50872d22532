// Wrong: every thread adds to the bias in two steps, a volatile read and a store; volatile makes no one step of them.
// expect: schedule

extern "C" __global__ void conv2d_backward_bias(
    const float* grad_output, float* grad_bias, int batch, int C_out, int H_out, int W_out) {
    int k = blockIdx.x, tid = threadIdx.x, plane = H_out * W_out;
    volatile float* bias = grad_bias + k;
    if (tid == 0) *bias = 0.0f;
    __syncthreads();
    float sum = 0.0f;
    for (int i = tid; i < batch * plane; i += blockDim.x)
        sum += grad_output[(i / plane * C_out + k) * plane + i % plane];
    *bias = *bias + sum;
}
