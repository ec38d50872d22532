// Counts of 256 values: a histogram per warp in shared memory, four bytes at a time, merged with atomics.

constexpr int BINS = 256, WARPS = 4;

__device__ void count_word(unsigned* counts, unsigned word) {
    for (int i = 0; i < 4; i++) atomicAdd(&counts[word >> 8 * i & 0xff], 1u);
}

extern "C" __global__ void histogram(const unsigned char* data, unsigned* counts, int n) {
    __shared__ unsigned local[WARPS][BINS];
    for (int i = threadIdx.x; i < WARPS * BINS; i += blockDim.x) (&local[0][0])[i] = 0;
    __syncthreads();
    unsigned* mine = local[threadIdx.x / 32];
    int first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
    for (int i = first; i < n / 4; i += stride) count_word(mine, ((const unsigned*)data)[i]);
    for (int i = n / 4 * 4 + first; i < n; i += stride) atomicAdd(&mine[data[i]], 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        unsigned sum = 0;
        for (int w = 0; w < WARPS; w++) sum += local[w][bin];
        if (sum) atomicAdd(&counts[bin], sum);
    }
}
