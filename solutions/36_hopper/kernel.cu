// Puzzle 36: hopper, a convolution as puzzle 30 has it, whose tiles the hardware copies and multiplies.
//
// What to do: images are NHWC, in half, and the sums are float. Rows are pixels of the output, columns are filters; a
// step is 64 channels at one tap of the filter. One thread starts the copies, 128 multiply together. The
// instructions are functions in puzzles/include/hopper.cuh. You will write about 137 lines.
//
// Check: backwarp grade 36    Stuck: backwarp hint 36    Start again: backwarp reset 36

#include "hopper.cuh"

constexpr int STAGES = 3;                         // pairs of tiles, in all kernels but the first
struct Pair { __half x[64 * 64], w[64 * 64]; };   // 64 channels of 64 pixels and of 64 filters
struct Wide { __half x[128 * 64], w[64 * 64]; };  // of 128 pixels

// d += x w^T, begun but not waited for: 64 channels, in steps of 16.
__device__ void multiply(float (&d)[32], const __half* x, const __half* w) {
    // TODO(1): fence, four products, and a group of them.
    // BEGIN SOLUTION
    fence_sums();
    for (int c = 0; c < 64; c += 16) {
        wgmma_m64n64k16(d, tile_at(x + c, 1024), tile_at(w + c, 1024));
    }
    commit_products();
    // END SOLUTION
}

// Stores a warp group's sums, of rows from m and columns from k on, as far as y, with M rows of K, has a place.
__device__ void store(const float (&d)[32], float* y, int m, int M, int k, int K) {
    // TODO(2): see wgmma_m64n64k16 for who has which.
    // BEGIN SOLUTION
    int lane = threadIdx.x % 32;
    for (int i = 0; i < 32; i++) {
        int row = m + threadIdx.x / 32 % 4 * 16 + lane / 4 + i / 2 % 2 * 8;
        int column = k + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (row < M && column < K) y[row * K + column] = d[i];
    }
    // END SOLUTION
}

extern "C" __global__ void __launch_bounds__(128) one_tile(
    float* y, int batch, int C, int P, int Q, int K, int R, int S, int stride, int pad,
    const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w) {
    __shared__ alignas(1024) Pair pair;
    __shared__ Barrier full;
    int m = blockIdx.x * 64, k = blockIdx.y * 64, n = m / (P * Q), p = m / Q % P, q = m % Q;
    // TODO(3): one thread makes the barrier. In each step it starts the copies of both tiles, and all wait, multiply, and
    //          wait for the products.
    // BEGIN SOLUTION
    if (threadIdx.x == 0) {
        make_barrier(&full, 1);
        show_barriers();
    }
    __syncthreads();  // from here on there is a barrier
    float d[32] = {};
    int step = 0;
    for (int r = 0; r < R; r++) {
        for (int s = 0; s < S; s++) {
            for (int c = 0; c < C; c += 64, step++) {
                if (threadIdx.x == 0) {
                    arrive_and_expect(&full, sizeof(pair));
                    copy_pixels(pair.x, &x, c, q * stride - pad, p * stride - pad, n, s, r, &full);
                    copy_box(pair.w, &w, (r * S + s) * C + c, k, &full);
                }
                wait_for_phase(&full, step % 2);
                multiply(d, pair.x, pair.w);
                wait_products<0>();
                __syncthreads();  // nobody reads the tiles any more
            }
        }
    }
    store(d, y, m, batch * P * Q, k, K);
    // END SOLUTION
}

extern __shared__ __align__(1024) char shared[];  // STAGES pairs

extern "C" __global__ void __launch_bounds__(128) ring(
    float* y, int batch, int C, int P, int Q, int K, int R, int S, int stride, int pad,
    const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w) {
    Pair* pair = reinterpret_cast<Pair*>(shared);
    __shared__ Barrier full[STAGES], empty[STAGES];
    int m = blockIdx.x * 64, k = blockIdx.y * 64, n = m / (P * Q), p = m / Q % P, q = m % Q;
    int slices = C / 64, total = R * S * slices;
    // TODO(4): copies run STAGES - 1 steps ahead; no __syncthreads in the loop.
    // BEGIN SOLUTION
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            make_barrier(&full[i], 1);
            make_barrier(&empty[i], 128);
        }
        show_barriers();
    }
    __syncthreads();
    auto copy = [&](int step) {
        if (threadIdx.x != 0 || step >= total) return;
        int i = step % STAGES, c = step % slices * 64, s = step / slices % S, r = step / slices / S;
        wait_for_phase(&empty[i], (step / STAGES + 1) % 2);  // at first it is over
        arrive_and_expect(&full[i], sizeof(Pair));
        copy_pixels(pair[i].x, &x, c, q * stride - pad, p * stride - pad, n, s, r, &full[i]);
        copy_box(pair[i].w, &w, (r * S + s) * C + c, k, &full[i]);
    };
    for (int step = 0; step < STAGES - 1; step++) copy(step);
    float d[32] = {};
    for (int step = 0; step < total; step++) {
        wait_for_phase(&full[step % STAGES], step / STAGES % 2);
        multiply(d, pair[step % STAGES].x, pair[step % STAGES].w);
        if (step > 0) {
            wait_products<1>();  // all but those just begun
            arrive(&empty[(step - 1) % STAGES]);
        }
        copy(step + STAGES - 1);
    }
    wait_products<0>();
    store(d, y, m, batch * P * Q, k, K);
    // END SOLUTION
}

extern "C" __global__ void __launch_bounds__(384, 1) specialised(
    float* y, int batch, int C, int P, int Q, int K, int R, int S, int stride, int pad,
    const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w) {
    Wide* pair = reinterpret_cast<Wide*>(shared);
    __shared__ Barrier full[STAGES], empty[STAGES];
    int m = blockIdx.x * 128, k = blockIdx.y * 64, n = m / (P * Q), p = m / Q % P, q = m % Q;
    // TODO(5): threads 0 to 127 give up registers, all but 40, and one of them copies. The others have 232 each; 128
    //          to 255 multiply the first 64 pixels, 256 to 383 the rest.
    // BEGIN SOLUTION
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            make_barrier(&full[i], 1);
            make_barrier(&empty[i], 256);
        }
        show_barriers();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        give_up_registers<40>();
        int step = 0;
        for (int r = 0; r < R && threadIdx.x == 0; r++) {
            for (int s = 0; s < S; s++) {
                for (int c = 0; c < C; c += 64, step++) {
                    int i = step % STAGES;
                    wait_for_phase(&empty[i], (step / STAGES + 1) % 2);
                    arrive_and_expect(&full[i], sizeof(Wide));
                    copy_pixels(pair[i].x, &x, c, q * stride - pad, p * stride - pad, n, s, r, &full[i]);
                    copy_box(pair[i].w, &w, (r * S + s) * C + c, k, &full[i]);
                }
            }
        }
        return;
    }
    take_registers<232>();
    int first = threadIdx.x / 256 * 64;
    float d[32] = {};
    for (int step = 0; step < R * S * C / 64; step++) {
        int i = step % STAGES;
        wait_for_phase(&full[i], step / STAGES % 2);
        multiply(d, pair[i].x + first * 64, pair[i].w);
        wait_products<0>();
        arrive(&empty[i]);
    }
    store(d, y, m + first, batch * P * Q, k, K);
    // END SOLUTION
}

extern "C" __global__ void __cluster_dims__(1, 2) __launch_bounds__(384, 1) clustered(
    float* y, int batch, int C, int P, int Q, int K, int R, int S, int stride, int pad,
    const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w) {
    Wide* pair = reinterpret_cast<Wide*>(shared);
    __shared__ Barrier full[STAGES], empty[STAGES];
    int own = rank_in_cluster(), first = own * 64;  // it copies these 64 of the 128 pixels, for both blocks
    int m = blockIdx.x * 128 + first, k = blockIdx.y * 64, n = m / (P * Q), p = m / Q % P, q = m % Q;
    // TODO(6): as in `specialised`, but both blocks of a cluster get the pixels that each of them copies: a pair is empty when
    //          512 threads have released it, in two blocks.
    // BEGIN SOLUTION
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            make_barrier(&full[i], 1);
            make_barrier(&empty[i], 512);
        }
        show_barriers();
    }
    meet_cluster();  // from here on there are barriers in both blocks
    if (threadIdx.x < 128) {
        give_up_registers<40>();
        int step = 0;
        for (int r = 0; r < R && threadIdx.x == 0; r++) {
            for (int s = 0; s < S; s++) {
                for (int c = 0; c < C; c += 64, step++) {
                    int i = step % STAGES;
                    wait_for_phase(&empty[i], (step / STAGES + 1) % 2);
                    arrive_and_expect(&full[i], sizeof(Wide));
                    copy_pixels_to(3, pair[i].x + first * 64, &x, c, q * stride - pad, p * stride - pad, n, s, r, &full[i]);
                    copy_box(pair[i].w, &w, (r * S + s) * C + c, k, &full[i]);
                }
            }
        }
    } else {
        take_registers<232>();
        int row = threadIdx.x / 256 * 64;
        float d[32] = {};
        for (int step = 0; step < R * S * C / 64; step++) {
            int i = step % STAGES;
            wait_for_phase(&full[i], step / STAGES % 2);
            multiply(d, pair[i].x + row * 64, pair[i].w);
            wait_products<0>();
            arrive_in(0, &empty[i]);
            arrive_in(1, &empty[i]);
        }
        store(d, y, m - first + row, batch * P * Q, k, K);
    }
    meet_cluster();  // nothing arrives any more in a block that ends
    // END SOLUTION
}
