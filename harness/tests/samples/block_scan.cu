// Exclusive sums of any length: Blelloch's tree in each block, the sums of the blocks, and their addition.

constexpr int THREADS = 128, ITEMS = 2 * THREADS;

extern "C" __global__ void scan_blocks(const int* x, int* out, int* sums, int n) {
    extern __shared__ int tree[];
    int t = threadIdx.x, base = blockIdx.x * ITEMS;
    for (int i = t; i < ITEMS; i += THREADS) tree[i] = base + i < n ? x[base + i] : 0;
    int offset = 1;
    for (int d = ITEMS >> 1; d > 0; d >>= 1, offset *= 2) {
        __syncthreads();
        if (t < d) tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
    }
    if (t == 0) {
        sums[blockIdx.x] = tree[ITEMS - 1];
        tree[ITEMS - 1] = 0;
    }
    for (int d = 1; d < ITEMS; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
            int kept = tree[left];
            tree[left] = tree[right];
            tree[right] += kept;
        }
    }
    __syncthreads();
    for (int i = t; i < ITEMS; i += THREADS)
        if (base + i < n) out[base + i] = tree[i];
}

extern "C" __global__ void add_sums(int* out, const int* starts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += starts[i / ITEMS];
}
