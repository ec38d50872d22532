// Inclusive sums in one block: shuffles within a warp, then over the sums of the warps. Tail lanes take part.

__device__ float scan_warp(float value) {
    int lane = threadIdx.x & 31;
    for (int step = 1; step < 32; step <<= 1) {
        float other = __shfl_up_sync(0xffffffffu, value, step);
        if (lane >= step) value += other;
    }
    return value;
}

extern "C" __global__ void warp_scan(const float* x, float* out, int n) {
    __shared__ float sums[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    float carry = 0.0f;
    for (int start = 0; start < n; start += blockDim.x) {
        int i = start + threadIdx.x;
        float value = scan_warp(i < n ? x[i] : 0.0f);
        if (lane == 31) sums[warp] = value;
        __syncthreads();
        if (warp == 0) {
            float total = scan_warp(lane < warps ? sums[lane] : 0.0f);
            if (lane < warps) sums[lane] = total;
        }
        __syncthreads();
        if (warp > 0) value += sums[warp - 1];
        if (i < n) out[i] = carry + value;
        carry += sums[warps - 1];
        __syncthreads();
    }
}
