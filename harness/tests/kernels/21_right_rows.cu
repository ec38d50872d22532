// A warp goes along rows: no division for the position; the last step by one thread, with butterfly shuffles before.
extern "C" __global__ void conv2d_backward_weights(const float* grad_output, const float* input, float* grad_weights,
                                                   int batch, int C_in, int H, int W, int C_out, int F) {
    __shared__ float slot[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const int P = H - F + 1, Q = W - F + 1, taps = F * F;
    const int k = blockIdx.x / taps / C_in, c = blockIdx.x / taps % C_in, r = blockIdx.x % taps / F, s = blockIdx.x % F;
    float sum = 0;
    for (int row = warp; row < batch * P; row += warps) {
        const int b = row / P, p = row % P;
        const float* grad = grad_output + ((b * C_out + k) * P + p) * Q;
        const float* x = input + ((b * C_in + c) * H + p + r) * W + s;
        for (int q = lane; q < Q; q += 32) sum = fmaf(grad[q], x[q], sum);
    }
    for (int mask = 16; mask; mask >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    slot[warp] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (int w = 1; w < warps; w++) sum += slot[w];
    grad_weights[blockIdx.x] = sum;
}
