// C = A B in half with float accumulation on tensor cores: 4 warps, 32 x 32 per block, edges through shared memory.

#include <mma.h>
#include <cuda_fp16.h>

using namespace nvcuda;

constexpr int TILE = 32, FRAGMENT = 16;

extern "C" __global__ void gemm_wmma(const half* a, const half* b, float* c, int m, int n, int k) {
    __shared__ __align__(32) half tile_a[TILE][FRAGMENT + 8], tile_b[FRAGMENT][TILE + 8];
    __shared__ __align__(32) float tile_c[TILE][TILE + 4];
    int warp = threadIdx.x / 32, row = warp / 2 * FRAGMENT, column = warp % 2 * FRAGMENT;
    int m0 = blockIdx.y * TILE, n0 = blockIdx.x * TILE;
    wmma::fragment<wmma::accumulator, FRAGMENT, FRAGMENT, FRAGMENT, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k0 = 0; k0 < k; k0 += FRAGMENT) {
        for (int i = threadIdx.x; i < TILE * FRAGMENT; i += blockDim.x) {
            int r = i / FRAGMENT, s = i % FRAGMENT;
            tile_a[r][s] = m0 + r < m && k0 + s < k ? a[(m0 + r) * k + k0 + s] : __float2half(0.0f);
            r = i / TILE, s = i % TILE;
            tile_b[r][s] = k0 + r < k && n0 + s < n ? b[(k0 + r) * n + n0 + s] : __float2half(0.0f);
        }
        __syncthreads();
        wmma::fragment<wmma::matrix_a, FRAGMENT, FRAGMENT, FRAGMENT, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, FRAGMENT, FRAGMENT, FRAGMENT, half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, &tile_a[row][0], FRAGMENT + 8);
        wmma::load_matrix_sync(fb, &tile_b[0][column], TILE + 8);
        wmma::mma_sync(sum, fa, fb, sum);
        __syncthreads();
    }
    wmma::store_matrix_sync(&tile_c[row][column], sum, TILE + 4, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < TILE * TILE; i += blockDim.x) {
        int r = i / TILE, s = i % TILE;
        if (m0 + r < m && n0 + s < n) c[(m0 + r) * n + n0 + s] = tile_c[r][s];
    }
}
