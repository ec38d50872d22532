// Right kernels of clusters of CLUSTER blocks in a row. Marked lines are those that tests change, or expect a fault at.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
typedef unsigned u32;
typedef unsigned long long u64;

__device__ u32 in_shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ u32 rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ u32 mapped(const void* p, u32 r) {
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(in_shared(p)), "r"(r));
    return there;
}
__device__ void arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ void wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ void meet() { arrive(); wait(); }
__device__ void make(u64* b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(in_shared(b)), "r"(n) : "memory"); }
__device__ void show() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void expect(u64* b, u32 n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(in_shared(b)), "r"(n) : "memory"); }
__device__ void arrive_at(u64* b, u32 r) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(mapped(b, r)) : "memory");  // arrived
}
__device__ void await(u64* b, u32 parity) {
    asm volatile("{\n.reg .pred p;\nL:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra L;\nD:\n}" :: "r"(in_shared(b)), "r"(parity) : "memory");  // awaited
}
__device__ void multicast(void* to, const void* from, u32 n, u64* b, u32 mask) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"  // copied
                 :: "r"(in_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(n), "r"(in_shared(b)), "h"((unsigned short)mask) : "memory");
}
__device__ int read(const int* p, u32 r) {
    int value;
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(value) : "r"(mapped(p, r)) : "memory");  // fetched
    return value;
}
constexpr int STAGES = 3, N = 64;  // numbers of a stage

// y[cluster] = the sum of its blocks' numbers.
extern "C" __global__ void __cluster_dims__(CLUSTER) sum(const int* x, int* y) {
    __shared__ int part;
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) part = 0;
    __syncthreads();
    atomicAdd(&part, x[blockIdx.x * blockDim.x + threadIdx.x]);
    cluster.sync();  // summed
    if (cluster.block_rank() == 0 && threadIdx.x == 0) {
        int all = 0;
        for (u32 r = 0; r < cluster.num_blocks(); r++) all += *cluster.map_shared_rank(&part, r);  // read
        y[blockIdx.x / CLUSTER] = all;
    }
    cluster.sync();  // ended
}

// y[cluster, value] = how often its blocks have a value: each block has 32 of the counts.
extern "C" __global__ void __cluster_dims__(CLUSTER) histogram(const int* x, int* y) {
    __shared__ u32 bins[32];
    if (threadIdx.x < 32) bins[threadIdx.x] = 0;
    meet();  // cleared
    u32 value = x[blockIdx.x * blockDim.x + threadIdx.x];
    asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], 1;" :: "r"(mapped(&bins[value % 32], value / 32)) : "memory");  // counted
    meet();  // counted by all
    if (threadIdx.x < 32) y[blockIdx.x * 32 + threadIdx.x] = bins[threadIdx.x];  // stored
}

// y[block, i] = sum over steps of x[cluster, step, i] (rank + 1): the blocks take turns to copy for all.
extern "C" __global__ void __cluster_dims__(CLUSTER) ring(const int* x, int* y, int steps) {
    __shared__ alignas(128) int tile[STAGES][N];
    __shared__ u64 full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) make(&full[i], 1), make(&empty[i], CLUSTER * N);
        show();
    }
    meet();  // made
    auto copy = [&](int step) {
        int i = step % STAGES;
        if (threadIdx.x == 0 && step < steps) expect(&full[i], sizeof(tile[i]));
        if (threadIdx.x == 0 && step < steps && step % CLUSTER == rank()) {
            await(&empty[i], (step / STAGES + 1) % 2);
            multicast(tile[i], x + (blockIdx.x / CLUSTER * steps + step) * N, sizeof(tile[i]), &full[i], (1 << CLUSTER) - 1);  // begun
        }
    };
    for (int step = 0; step < STAGES - 1; step++) copy(step);
    int sum = 0;
    for (int step = 0; step < steps; step++) {
        int i = step % STAGES;
        await(&full[i], step / STAGES % 2);
        sum += tile[i][threadIdx.x] * (rank() + 1);  // used
        for (int r = 0; r < CLUSTER; r++) arrive_at(&empty[i], r);  // released
        copy(step + STAGES - 1);
    }
    y[blockIdx.x * N + threadIdx.x] = sum;
    meet();  // finished
}

// y = x of the next block of the cluster, by st.async, and four times that by a copy between blocks.
extern "C" __global__ void __cluster_dims__(CLUSTER) sent(const float* x, float* y) {
    __shared__ alignas(128) float mine[N], got[N], four[N];
    __shared__ u64 bar;
    u32 t = threadIdx.x, to = (rank() + CLUSTER - 1) % CLUSTER;
    if (t == 0) {
        make(&bar, 1);
        expect(&bar, sizeof(got) + sizeof(four));
    }
    float value = x[blockIdx.x * N + t];
    mine[t] = 4 * value;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    meet();  // expected
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];"  // sent
                 :: "r"(mapped(&got[t], to)), "f"(value), "r"(mapped(&bar, to)) : "memory");
    if (t == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"  // passed
                     :: "r"(mapped(four, to)), "r"(in_shared(mine)), "r"((u32)sizeof(mine)), "r"(mapped(&bar, to)) : "memory");
    await(&bar, 0);  // received
    y[blockIdx.x * 2 * N + t] = got[t];  // got
    y[(blockIdx.x * 2 + 1) * N + t] = four[t];
    meet();
}

// y[cluster] = the largest of x, which all blocks report to rank 0, and how many reported.
extern "C" __global__ void __cluster_dims__(CLUSTER) reported(const int* x, int* y) {
    __shared__ int most, count;
    __shared__ u64 bar;
    if (threadIdx.x == 0) {
        most = -1; count = 0;
        make(&bar, 1);
        if (rank() == 0) expect(&bar, 8 * CLUSTER * blockDim.x);
    }
    meet();
    int value = x[blockIdx.x * blockDim.x + threadIdx.x];
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.max.s32 [%0], %1, [%2];" :: "r"(mapped(&most, 0)), "r"(value), "r"(mapped(&bar, 0)) : "memory");
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], 1, [%1];" :: "r"(mapped(&count, 0)), "r"(mapped(&bar, 0)) : "memory");
    if (rank() == 0) {
        await(&bar, 0);
        if (threadIdx.x == 0) y[blockIdx.x / CLUSTER * 2] = most, y[blockIdx.x / CLUSTER * 2 + 1] = count;
    }
    meet();
}

// y = x squared, and x of the neighbours in the cluster, added up: work goes on between arriving and waiting.
extern "C" __global__ void __cluster_dims__(CLUSTER) halo(const int* x, int* y) {
    __shared__ int edge[2];
    int value = x[blockIdx.x * blockDim.x + threadIdx.x], last = blockDim.x - 1;
    if (threadIdx.x == 0) edge[0] = value;
    if (threadIdx.x == last) edge[1] = value;
    arrive();  // edges
    int sum = value * value;  // meanwhile
    wait();
    if (threadIdx.x == 0 && rank() > 0) sum += read(&edge[1], rank() - 1);
    if (threadIdx.x == last && rank() + 1 < CLUSTER) sum += read(&edge[0], rank() + 1);
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    arrive();
    wait();  // halo ended
}

// y[block] = a number that goes round the cluster, by a flag in shared memory: each adds its x.
extern "C" __global__ void __cluster_dims__(CLUSTER) flags(const int* x, int* y) {
    __shared__ int flag, number;
    if (threadIdx.x == 0) flag = number = 0;
    meet();
    if (threadIdx.x == 0) {
        int seen = rank() == 0, given = 0;
        while (!seen) asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];" : "=r"(seen) : "r"(in_shared(&flag)) : "memory");  // acquired
        given = number + x[blockIdx.x];  // given
        y[blockIdx.x] = given;
        if (rank() + 1 < CLUSTER) {
            asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(mapped(&number, rank() + 1)), "r"(given) : "memory");  // handed
            asm volatile("st.release.cluster.shared::cluster.u32 [%0], 1;" :: "r"(mapped(&flag, rank() + 1)) : "memory");  // flagged
        }
    }
    meet();
}

// y = x, and behind that what the neighbour in the cluster has stored there.
extern "C" __global__ void __cluster_dims__(CLUSTER) handed(const int* x, int* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    y[i] = x[i];  // kept
    meet();  // between
    y[n + i] = y[i % blockDim.x + (blockIdx.x ^ 1) * blockDim.x];
}

// y = x of the thread 32 further on in the block 7 before, in the cluster: in 7 rounds.
extern "C" __global__ void __cluster_dims__(CLUSTER) rounds(const int* x, int* y) {
    __shared__ int box[2][64];
    int value = x[blockIdx.x * 64 + threadIdx.x];
    meet();
    for (int i = 0; i < 7; i++) {
        asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(mapped(&box[i % 2][threadIdx.x], (rank() + 1) % CLUSTER)), "r"(value) : "memory");  // put
        meet();
        value = box[i % 2][threadIdx.x ^ 32];  // taken
    }
    y[blockIdx.x * 64 + threadIdx.x] = value;
}

// y[block] = where it is.
extern "C" __global__ void __cluster_dims__(2, 2) where(int* y) {
    cg::cluster_group c = cg::this_cluster();
    __shared__ int own;
    u32 id[3], n[3], explicit_, other = c.block_rank() ^ 3;
    asm volatile("mov.u32 %0, %%clusterid.x; mov.u32 %1, %%clusterid.y; mov.u32 %2, %%clusterid.z;" : "=r"(id[0]), "=r"(id[1]), "=r"(id[2]));
    asm volatile("mov.u32 %0, %%nclusterid.x; mov.u32 %1, %%nclusterid.y; mov.u32 %2, %%nclusterid.z;" : "=r"(n[0]), "=r"(n[1]), "=r"(n[2]));
    asm volatile("{.reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p;}" : "=r"(explicit_));
    int* there = c.map_shared_rank(&own, other);
    int found[16] = {(int)c.block_rank(), (int)c.num_blocks(), (int)c.block_index().x, (int)c.block_index().y, (int)c.dim_blocks().x,
                     (int)c.dim_blocks().y, (int)id[0], (int)id[1], (int)id[2], (int)n[0], (int)n[1], (int)n[2], (int)explicit_,
                     (int)c.query_shared_rank(there), (int)c.thread_rank(), (int)c.num_threads()};
    if (threadIdx.x == 1)
        for (int i = 0; i < 16; i++) y[(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)) * 16 + i] = found[i];
}
