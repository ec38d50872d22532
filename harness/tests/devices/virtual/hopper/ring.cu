// A ring of tiles that producers fill by TMA and consumers read, made of numbers that a launch gives: and one of its steps
// may be left out, or be wrong.
#include "hopper.cuh"

enum { RIGHT, NO_FULL_WAIT, NO_EMPTY_WAIT, NO_EXPECT, FEW_BYTES, MANY_BYTES, FULL_PARITY, EMPTY_PARITY, NO_RELEASE, NO_COPY,
       NO_SYNC, EARLY_RELEASE, NO_WARP_SYNC, NO_PRODUCT_WAIT };

// rank: axes of a box. apart: whether producers consume nothing; else they are among the consumers. by_warps: a lane
// releases for its warp. elements: floats of a tile. wrong, at, who: what is wrong, in which step, for which thread.
struct Ring { int rank, stages, steps, producers, apart, consumers, by_warps, elements, first, wrong, at, who; };

__device__ bool is(const Ring& r, int wrong, int step, int who) { return r.wrong == wrong && r.at == step && r.who == who; }

__device__ void copy(const Ring& r, void* to, const CUtensorMap* map, int x, Barrier* b) {
#define COPY(n, at) "cp.async.bulk.tensor." n "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, " at "], [%2];" \
    :: "r"(in_shared(to)), "l"(map), "r"(in_shared(b)), "r"(x), "r"(0) : "memory"
    if (r.rank == 1) asm volatile(COPY("1", "{%3}"));
    if (r.rank == 2) asm volatile(COPY("2", "{%4, %3}"));
    if (r.rank == 3) asm volatile(COPY("3", "{%4, %4, %3}"));
    if (r.rank == 4) asm volatile(COPY("4", "{%4, %4, %4, %3}"));
    if (r.rank == 5) asm volatile(COPY("5", "{%4, %4, %4, %4, %3}"));
}

extern __shared__ __align__(1024) char shared[];
__shared__ Barrier full[5], empty[5];

template <bool PRODUCTS>
__device__ void run(float* y, const Ring& r, int box, const CUtensorMap* a, const CUtensorMap* b) {
    int t = threadIdx.x, bytes = r.elements * 4, pitch = (bytes + 1023) / 1024 * 1024;
    int first = r.apart ? r.first : 0, own = t - first;  // of the consumers
    auto tile = [&](int step, int p) { return shared + (step % r.stages * r.producers + p) * pitch; };
    if (t == 0) {
        for (int i = 0; i < r.stages; i++) {
            make_barrier(&full[i], PRODUCTS ? 1 : r.producers);
            make_barrier(&empty[i], r.by_warps ? r.consumers / 32 : r.consumers);
        }
        show_barriers();
    }
    if (r.wrong != NO_SYNC) __syncthreads();
    auto produce = [&](int step) {
        int p = t / 32, i = step % r.stages;
        if (t % 32 || p >= (PRODUCTS ? 1 : r.producers) || step >= r.steps) return;
        int parity = (step / r.stages + 1) % 2 ^ is(r, EMPTY_PARITY, step, p);
        if (!is(r, NO_EMPTY_WAIT, step, p)) wait_for_phase(&empty[i], parity);
        int expected = bytes * (PRODUCTS ? 2 : 1);
        if (is(r, FEW_BYTES, step, p)) expected /= 2;
        if (is(r, MANY_BYTES, step, p)) expected *= 2;
        if (!is(r, NO_EXPECT, step, p)) arrive_and_expect(&full[i], expected);
        if (is(r, NO_COPY, step, p)) return;
        copy(r, tile(step, p), p ? b : a, step * box, &full[i]);
        if (PRODUCTS) copy(r, tile(step, 1), b, step * box, &full[i]);
    };
    auto release = [&](int step) {
        if (r.by_warps && !is(r, NO_WARP_SYNC, step, own / 32)) __syncwarp();
        if (r.by_warps && own % 32) return;
        if (!is(r, NO_RELEASE, step, r.by_warps ? own / 32 : own)) arrive(&empty[step % r.stages]);
    };
    float d[32] = {};
    auto consume = [&](int step) {
        int who = PRODUCTS ? own / 32 : own;  // one lane that waits is enough for its warp's part of a product
        int i = step % r.stages, parity = step / r.stages % 2 ^ is(r, FULL_PARITY, step, who);
        if (!is(r, NO_FULL_WAIT, step, who)) wait_for_phase(&full[i], parity);
        bool early = r.wrong == EARLY_RELEASE && r.at == step;
        if (early) release(step);
        if (PRODUCTS) {
            const __half* x = (const __half*)tile(step, 0);
            const __half* w = (const __half*)tile(step, 1);
            fence_sums();
            wgmma_m64n64k16(d, tile_at(x, 1024), tile_at(w, 1024));
            commit_products();
            if (!(r.wrong == NO_PRODUCT_WAIT && r.at == step)) wait_products<0>();
        } else {
            for (int p = 0; p < r.producers; p++)
                for (int e = own; e < r.elements; e += r.consumers) d[0] += ((const float*)tile(step, p))[e] * (step + 1 + p);
        }
        if (!early) release(step);
    };
    if (r.apart && own < 0) {
        for (int step = 0; step < r.steps; step++) produce(step);
        return;
    }
    for (int step = r.apart ? 0 : 1 - r.stages; step < r.steps; step++) {
        if (step >= 0) consume(step);
        if (!r.apart) produce(step + r.stages - 1);
    }
    if (PRODUCTS) wait_products<0>();
    for (int i = 0; i < (PRODUCTS ? 32 : 1); i++) y[i * r.consumers + own] = d[i];
}

extern "C" __global__ void sums(float* y, const Ring* r, int box, const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b) {
    Ring own = *r;
    run<false>(y, own, box, &a, &b);
}

extern "C" __global__ void products(float* y, const Ring* r, int box, const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b) {
    Ring own = *r;
    run<true>(y, own, box, &a, &b);
}
