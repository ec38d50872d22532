// The sum and the largest element of every segment of an array: one warp per segment, segments of any length.

template <typename T, typename Combine>
__device__ T reduce_warp(T value, Combine combine) {
    for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

extern "C" __global__ void segmented_reduction(const float* x, const int* starts, float* sums, float* largest, int segments) {
    int segment = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize, lane = threadIdx.x % warpSize;
    if (segment >= segments) return;
    float sum = 0.0f, most = -INFINITY;
    for (int i = starts[segment] + lane; i < starts[segment + 1]; i += warpSize) {
        sum += x[i];
        most = fmaxf(most, x[i]);
    }
    sum = reduce_warp(sum, [](float a, float b) { return a + b; });
    most = reduce_warp(most, [](float a, float b) { return a > b ? a : b; });
    if (lane == 0) {
        sums[segment] = sum;
        largest[segment] = most;
    }
}
