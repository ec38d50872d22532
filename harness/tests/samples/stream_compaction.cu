// Keeps the elements above a limit, in order within a block: ballots within a warp, one atomic per block.

extern "C" __global__ void stream_compaction(const float* x, float* kept, int* block_starts, int* total, int n, float limit) {
    __shared__ int counts[32], start;
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float value = i < n ? x[i] : 0.0f;
    bool keep = i < n && value > limit;
    unsigned mask = __ballot_sync(0xffffffff, keep);
    int before = __popc(mask & ((1u << lane) - 1));
    if (lane == 0) counts[warp] = __popc(mask);
    __syncthreads();
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int w = 0; w < blockDim.x / 32; w++) {
            int c = counts[w];
            counts[w] = sum;
            sum += c;
        }
        start = atomicAdd(total, sum);
        block_starts[blockIdx.x] = start;
    }
    __syncthreads();
    if (keep) kept[start + counts[warp] + before] = value;
}
