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
}

// Stores a warp group's sums, of rows from m and columns from k on, as far as y, with M rows of K, has a place.
__device__ void store(const float (&d)[32], float* y, int m, int M, int k, int K) {
    // TODO(2): see wgmma_m64n64k16 for who has which.
}

extern "C" __global__ void __launch_bounds__(128) one_tile(
    float* y, int batch, int C, int P, int Q, int K, int R, int S, int stride, int pad,
    const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w) {
    __shared__ alignas(1024) Pair pair;
    __shared__ Barrier full;
    int m = blockIdx.x * 64, k = blockIdx.y * 64, n = m / (P * Q), p = m / Q % P, q = m % Q;
    // TODO(3): one thread makes the barrier. In each step it starts the copies of both tiles, and all wait, multiply, and
    //          wait for the products.
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
}

extern "C" __global__ void __launch_bounds__(384, 1) specialised(
    float* y, int batch, int C, int P, int Q, int K, int R, int S, int stride, int pad,
    const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w) {
    Wide* pair = reinterpret_cast<Wide*>(shared);
    __shared__ Barrier full[STAGES], empty[STAGES];
    int m = blockIdx.x * 128, k = blockIdx.y * 64, n = m / (P * Q), p = m / Q % P, q = m % Q;
    // TODO(5): threads 0 to 127 give up registers, all but 40, and one of them copies. The others have 232 each; 128
    //          to 255 multiply the first 64 pixels, 256 to 383 the rest.
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
}
