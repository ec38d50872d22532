#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;

//# Cooperative groups

//: this_thread_block: ranks, sizes and sync = 31 - t
TEST(int, group_block) {
    cg::thread_block block = cg::this_thread_block();
    __shared__ int s[32];
    s[block.thread_rank()] = t;
    block.sync();
    out[t] = s[block.num_threads() - 1 - t] + (block.group_index().x == 0 ? 0 : 1);
}

//: tiled_partition: a tile's shuffles = t // 8 * 8 + 7
TEST(int, group_tile) { auto tile = cg::tiled_partition<8>(cg::this_thread_block()); out[t] = tile.shfl(t, 7); }

//: a tile's votes and matches = 0xf + 0 * t
TEST(unsigned, group_votes) {
    auto tile = cg::tiled_partition<4>(cg::this_thread_block());
    out[t] = tile.all(1) && tile.any(t % 4 == 0) ? tile.match_any(5) & tile.ballot(1) : 0;
}

//: meta_group_rank and meta_group_size = t // 16 + 2
TEST(int, group_meta) { auto tile = cg::tiled_partition<16>(cg::this_thread_block()); out[t] = tile.meta_group_rank() + tile.meta_group_size(); }

//: reduce over a tile = 28 + 64 * (t // 8)
TEST(int, group_reduce) { auto tile = cg::tiled_partition<8>(cg::this_thread_block()); out[t] = cg::reduce(tile, t, cg::plus<int>()); }

//: inclusive_scan and exclusive_scan = t * t
TEST(int, group_scan) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    out[t] = cg::inclusive_scan(tile, t, cg::plus<int>()) + cg::exclusive_scan(tile, t, cg::plus<int>());
}

//: coalesced_threads: a number for each that takes part = np.where(t % 2, 16, 0)
TEST(int, group_coalesced) {
    __shared__ int n;
    if (t == 0) n = 0;
    __syncthreads();
    if (t % 2) { auto active = cg::coalesced_threads(); if (active.thread_rank() == 0) atomicAdd(&n, active.size()); }
    __syncthreads();
    out[t] = t % 2 ? n : 0;
}

//: labeled_partition and binary_partition = 8 + 16 + 0 * t
TEST(int, group_partitions) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    out[t] = cg::labeled_partition(tile, t % 4).size() + cg::binary_partition(tile, t < 16).size();
}

//: invoke_one_broadcast = 42 + 0 * t
TEST(int, group_invoke_one) { auto tile = cg::tiled_partition<32>(cg::this_thread_block()); out[t] = cg::invoke_one_broadcast(tile, [] { return 42; }); }

//: memcpy_async and wait = 3 * t
__device__ const int source[32] = {0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 48, 51, 54, 57, 60, 63, 66, 69, 72, 75, 78, 81, 84, 87, 90, 93};
TEST(int, group_copy) {
    __shared__ int s[32];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, source, sizeof(int) * 32);
    cg::wait(block);
    out[t] = s[t];
}

//: this_grid().sync @ 2, 16, 0 = 31 - t
__device__ int passed[32];
TEST(int, group_grid) {
    auto grid = cg::this_grid();
    passed[grid.thread_rank()] = grid.thread_rank();
    grid.sync();
    out[grid.thread_rank()] = passed[grid.num_threads() - 1 - grid.thread_rank()];
}

//: barrier_arrive and barrier_wait of a block = 31 - t
TEST(int, group_split) {
    auto block = cg::this_thread_block();
    __shared__ int s[32];
    s[t] = t;
    auto token = block.barrier_arrive();
    block.barrier_wait(std::move(token));
    out[t] = s[31 - t];
}

//# Thread block clusters

//: a block of a launch without clusters is a cluster of its own = t * 10 + 1
TEST(int, group_cluster) {
    auto cluster = cg::this_cluster();
    __shared__ int mine[32];
    mine[t] = t * 10;
    cluster.sync();
    out[t] = *cluster.map_shared_rank(&mine[t], cluster.block_rank()) + cluster.num_blocks();
    cluster.barrier_wait(cluster.barrier_arrive());
}
