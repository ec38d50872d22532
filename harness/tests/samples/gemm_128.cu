// C = alpha A B + beta C: 128 x 128 per block, 8 x 8 per thread in registers, any size.

constexpr int TILE = 128, DEPTH = 8, PER = 8, SIDE = TILE / PER;

extern "C" __global__ void __launch_bounds__(SIDE * SIDE) gemm_128(const float* __restrict__ a, const float* __restrict__ b,
                                                                   float* c, int m, int n, int k, float alpha, float beta) {
    __shared__ float tile_a[DEPTH][TILE + 4], tile_b[DEPTH][TILE];
    const int t = threadIdx.x, tx = t % SIDE, ty = t / SIDE;
    const int m0 = blockIdx.y * TILE, n0 = blockIdx.x * TILE;
    float sum[PER][PER] = {}, left[PER], top[PER];
    for (int k0 = 0; k0 < k; k0 += DEPTH) {
        for (int i = t; i < TILE * DEPTH; i += SIDE * SIDE) {
            int r = i / DEPTH, s = i % DEPTH;
            tile_a[s][r] = m0 + r < m && k0 + s < k ? a[(m0 + r) * k + k0 + s] : 0.0f;
        }
        for (int i = t; i < TILE * DEPTH; i += SIDE * SIDE) {
            int r = i / TILE, s = i % TILE;
            tile_b[r][s] = k0 + r < k && n0 + s < n ? b[(k0 + r) * n + n0 + s] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
#pragma unroll
            for (int i = 0; i < PER; i++) left[i] = tile_a[d][ty * PER + i], top[i] = tile_b[d][tx + i * SIDE];
#pragma unroll
            for (int i = 0; i < PER; i++)
#pragma unroll
                for (int j = 0; j < PER; j++) sum[i][j] = fmaf(left[i], top[j], sum[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < PER; i++)
        for (int j = 0; j < PER; j++) {
            int row = m0 + ty * PER + i, column = n0 + tx + j * SIDE;
            if (row < m && column < n) c[row * n + column] = alpha * sum[i][j] + (beta == 0 ? 0 : beta * c[row * n + column]);
        }
}
