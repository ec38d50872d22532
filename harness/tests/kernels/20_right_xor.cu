// Butterfly shuffles: every lane has the sum, and every warp adds up the slots.
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int mask = 1; mask < 32; mask <<= 1) v += __shfl_xor_sync(~0u, v, mask);
    return v;
}

extern "C" __global__ void conv2d_backward_bias(const float* grad_output, float* grad_bias, int batch, int C_out,
                                                int H_out, int W_out) {
    __shared__ float slot[32];
    const int lane = threadIdx.x & 31, plane = H_out * W_out;
    if (threadIdx.x < 32) slot[lane] = 0;
    float sum = 0;
    for (int b = 0; b < batch; ++b) {
        const float* row = grad_output + (b * C_out + blockIdx.x) * plane;
        for (int i = threadIdx.x; i < plane; i += blockDim.x) sum += row[i];
    }
    sum = warp_sum(sum);
    __syncthreads();
    if (lane == 31) slot[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum(slot[lane]);
        if (lane == 7) grad_bias[blockIdx.x] = sum;
    }
}
