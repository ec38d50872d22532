// Softmax of every row in one pass over it: a running maximum and a running sum, merged across the block.

struct Running {
    float most, sum;
};

__device__ Running merge(Running a, Running b) {
    Running larger = a.most > b.most ? a : b, smaller = a.most > b.most ? b : a;
    larger.sum += smaller.sum * __expf(smaller.most - larger.most);
    return larger;
}

__device__ Running reduce_warp(Running r) {
    for (int step = 16; step; step >>= 1) {
        Running other = {__shfl_xor_sync(~0u, r.most, step), __shfl_xor_sync(~0u, r.sum, step)};
        r = merge(r, other);
    }
    return r;
}

extern "C" __global__ void online_softmax(const float* x, float* out, int columns) {
    __shared__ Running warps[32];
    const float* row = x + (size_t)blockIdx.x * columns;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, count = blockDim.x / 32;
    Running mine = {-FLT_MAX, 0.0f};
    for (int i = threadIdx.x; i < columns; i += blockDim.x) mine = merge(mine, Running{row[i], 1.0f});
    mine = reduce_warp(mine);
    if (lane == 0) warps[warp] = mine;
    __syncthreads();
    mine = lane < count ? warps[lane] : Running{-FLT_MAX, 0.0f};
    mine = reduce_warp(mine);
    float scale = __fdividef(1.0f, mine.sum);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out[(size_t)blockIdx.x * columns + i] = expf(row[i] - mine.most) * scale;
}
