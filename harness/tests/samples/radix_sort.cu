// One pass of a radix sort by four bits, stable: digits are counted, the counts scanned, the keys scattered.

constexpr int BITS = 4, DIGITS = 1 << BITS, THREADS = 128;

extern "C" __global__ void count_digits(const unsigned* keys, int* counts, int n, int shift) {
    __shared__ int local[DIGITS];
    if (threadIdx.x < DIGITS) local[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) atomicAdd(&local[keys[i] >> shift & DIGITS - 1], 1);
    __syncthreads();
    if (threadIdx.x < DIGITS) counts[threadIdx.x * gridDim.x + blockIdx.x] = local[threadIdx.x];
}

extern "C" __global__ void scan_counts(int* counts, int n) {
    __shared__ int carry;
    if (threadIdx.x == 0) carry = 0;
    __syncthreads();
    for (int start = 0; start < n; start += 32) {
        int i = start + threadIdx.x, value = i < n ? counts[i] : 0, sum = value;
        for (int step = 1; step < 32; step *= 2) {
            int other = __shfl_up_sync(~0u, sum, step);
            if (threadIdx.x >= step) sum += other;
        }
        if (i < n) counts[i] = carry + sum - value;
        __syncwarp();
        if (threadIdx.x == 31) carry += sum;
        __syncwarp();
    }
}

extern "C" __global__ void scatter(const unsigned* keys, unsigned* out, const int* starts, int n, int shift) {
    __shared__ int base[DIGITS], in_warp[THREADS / 32][DIGITS];
    int i = blockIdx.x * THREADS + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x < DIGITS) {
        base[threadIdx.x] = starts[threadIdx.x * gridDim.x + blockIdx.x];
        for (int w = 0; w < THREADS / 32; w++) in_warp[w][threadIdx.x] = 0;
    }
    __syncthreads();
    unsigned key = i < n ? keys[i] : 0;
    int digit = i < n ? key >> shift & DIGITS - 1 : DIGITS;
    unsigned same = __match_any_sync(0xffffffff, digit);
    int rank = __popc(same & ((1u << lane) - 1));
    if (i < n && rank == 0) in_warp[warp][digit] = __popc(same);
    __syncthreads();
    if (i >= n) return;
    int before = 0;
    for (int w = 0; w < warp; w++) before += in_warp[w][digit];
    out[base[digit] + before + rank] = key;
}
