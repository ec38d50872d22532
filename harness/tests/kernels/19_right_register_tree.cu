// Each thread keeps its part in a register and stores it only for the step in which it is added.
__global__ void conv2d_backward_bias(const float* __restrict__ grad_output, float* __restrict__ grad_bias, int batch,
                                     int C_out, int H_out, int W_out) {
    extern __shared__ float part[];
    const unsigned plane = H_out * W_out, elements = batch * plane;
    float sum = 0;
    for (unsigned i = threadIdx.x; i < elements; i += blockDim.x)
        sum += grad_output[(i / plane * C_out + blockIdx.x) * plane + i % plane];
    for (unsigned n = blockDim.x; n > 1;) {
        const unsigned half = (n + 1) / 2;
        if (threadIdx.x >= half && threadIdx.x < n) part[threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.x + half < n) sum += part[threadIdx.x + half];
        n = half;
    }
    if (!threadIdx.x) grad_bias[blockIdx.x] = sum;
}
