// Sums with cooperative groups: tiles of 16 lanes, then the block; and an aggregated atomic of whoever is there.

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

template <typename Group>
__device__ float sum_of(Group group, float value) {
    for (int step = group.size() / 2; step > 0; step /= 2) value += group.shfl_down(value, step);
    return value;
}

extern "C" __global__ void tiled_reduction(const float* x, float* tile_sums, float* total, int n) {
    __shared__ float partial[64];
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    int i = block.group_index().x * block.size() + block.thread_rank(), tiles = block.size() / 16;
    float value = i < n ? x[i] : 0.0f;
    float mine = sum_of(tile, value);
    if (tile.thread_rank() == 0) {
        partial[tile.meta_group_rank()] = mine;
        tile_sums[block.group_index().x * tiles + tile.meta_group_rank()] = mine;
    }
    block.sync();
    if (tile.meta_group_rank() == 0) {
        float sum = 0.0f;
        for (int t = tile.thread_rank(); t < tiles; t += tile.size()) sum += partial[t];
        sum = cg::reduce(tile, sum, cg::plus<float>());
        if (tile.thread_rank() == 0) atomicAdd(total, sum);
    }
}

extern "C" __global__ void count_positive(const float* x, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        if (active.thread_rank() == 0) atomicAdd(count, (int)active.size());
    }
}
