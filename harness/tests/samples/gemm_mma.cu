// C = A B^T in half: cp.async fills a ring of stages, ldmatrix feeds mma.sync. 4 warps, 64 x 32 per block.
// k is a multiple of 8 (rows are copied 16 bytes at a time); m and n are free.

#include <cuda_fp16.h>

constexpr int BM = 64, BN = 32, BK = 32, STAGES = 3, ROW = BK + 8, THREADS = 128;

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void copy16(half* to, const half* from, bool exists) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(exists ? 16 : 0) : "memory");
}

__device__ void load_fragment(unsigned (&r)[4], const half* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory");
}

__device__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(THREADS) gemm_mma(const half* a, const half* b, float* c, int m, int n, int k) {
    extern __shared__ __align__(16) half memory[];
    half* stage_a = memory;                           // [STAGES][BM][ROW]
    half* stage_b = memory + STAGES * BM * ROW;       // [STAGES][BN][ROW]
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, steps = (k + BK - 1) / BK;

    auto load_stage = [&](int step) {
        int slot = step % STAGES;
        for (int i = t; i < (BM + BN) * BK / 8; i += THREADS) {
            int row = i / (BK / 8), column = i % (BK / 8) * 8, at = step * BK + column;
            bool is_a = row < BM;
            int r = is_a ? row : row - BM, limit = is_a ? m - m0 : n - n0;
            bool exists = r < limit && at < k;
            const half* from = is_a ? a + (size_t)(m0 + r) * k + at : b + (size_t)(n0 + r) * k + at;
            half* to = (is_a ? stage_a + slot * BM * ROW : stage_b + slot * BN * ROW) + r * ROW + column;
            copy16(to, exists ? from : a, exists);
        }
    };

    float sum[4][4] = {};
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps) load_stage(s);
        asm volatile("cp.async.commit_group;");
    }
    for (int step = 0; step < steps; step++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        if (step + STAGES - 1 < steps) load_stage(step + STAGES - 1);
        asm volatile("cp.async.commit_group;");
        const half* tile_a = stage_a + step % STAGES * BM * ROW + warp * 16 * ROW;
        const half* tile_b = stage_b + step % STAGES * BN * ROW;
#pragma unroll
        for (int i = 0; i < BK; i += 16) {
            unsigned fa[4], fb[4];
            load_fragment(fa, tile_a + lane % 16 * ROW + i + lane / 16 * 8);
#pragma unroll
            for (int j = 0; j < BN / 16; j++) {  // two 8-column tiles at a time
                load_fragment(fb, tile_b + (j * 16 + lane % 8 + lane / 16 * 8) * ROW + i + lane / 8 % 2 * 8);
                multiply(sum[2 * j], fa, fb[0], fb[1]);
                multiply(sum[2 * j + 1], fa, fb[2], fb[3]);
            }
        }
    }
    asm volatile("cp.async.wait_all;");
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 4; i++) {
            int row = m0 + warp * 16 + lane / 4 + i / 2 * 8, column = n0 + j * 8 + lane % 4 * 2 + i % 2;
            if (row < m && column < n) c[row * n + column] = sum[j][i];
        }
}
