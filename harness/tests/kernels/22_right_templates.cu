// The size of the filter as a template parameter; taps without a test, one warp adds up all slots.
template <int F>
__device__ void row_sums(const float* grad_output, const float* input, float* partial, int batch, int C_in, int H, int W,
                         int C_out, int parts) {
    __shared__ float slot[F][33];
    const int P = H - F + 1, Q = W - F + 1, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int r = blockIdx.x % F, c = blockIdx.x / F % C_in, k = blockIdx.x / F / C_in;
    const int share = (batch - 1) / parts + 1;
    float sum[F];
    for (float& s : sum) s = 0;
    for (int b = blockIdx.y * share; b < batch && b < (blockIdx.y + 1) * share; b++) {
        const float* grad = grad_output + (b * C_out + k) * P * Q;
        const float* plane = input + ((b * C_in + c) * H + r) * W;
        for (int i = threadIdx.x; i < P * Q; i += blockDim.x) {
            const float g = grad[i];
            const float* x = plane + i / Q * W + i % Q;
#pragma unroll
            for (int s = 0; s < F; s++) sum[s] = fmaf(g, x[s], sum[s]);
        }
    }
#pragma unroll
    for (int s = 0; s < F; s++) {
#pragma unroll 1
        for (int mask = 16; mask; mask /= 2) sum[s] += __shfl_xor_sync(~0u, sum[s], mask);
        if (lane == s) slot[s][warp] = sum[s];
    }
    __syncthreads();
    if (threadIdx.x >= F) return;
    float total = 0;
    for (int w = 0; w < blockDim.x / 32; w++) total += slot[threadIdx.x][w];
    partial[(blockIdx.y * gridDim.x + blockIdx.x) * F + threadIdx.x] = total;
}

extern "C" __global__ void conv2d_backward_weights_partial(const float* grad_output, const float* input,
                                                           float* partial, int batch, int C_in, int H, int W,
                                                           int C_out, int F, int parts) {
    switch (F) {
        case 1: return row_sums<1>(grad_output, input, partial, batch, C_in, H, W, C_out, parts);
        case 2: return row_sums<2>(grad_output, input, partial, batch, C_in, H, W, C_out, parts);
        case 3: return row_sums<3>(grad_output, input, partial, batch, C_in, H, W, C_out, parts);
        case 5: return row_sums<5>(grad_output, input, partial, batch, C_in, H, W, C_out, parts);
    }
}

extern "C" __global__ void add_parts(const float* partial, float* grad_weights, int parts, int weights) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < weights; i += gridDim.x * blockDim.x) {
        double sum = 0;
        for (const float* p = partial + i; p < partial + parts * weights; p += weights) sum += *p;
        grad_weights[i] = sum;
    }
}
