// C = A B, tiles of 64 x 64 x 8 loaded as float4 into two buffers in turn; a warp makes 32 x 16, a thread 4 x 4.
// Dimensions are multiples of 4; what no tile divides is filled with zeros.

constexpr int BM = 64, BN = 64, BK = 8, THREADS = 256;

__device__ float4 load4(const float* a, int row, int column, int rows, int columns) {
    if (row < rows && column < columns) return *reinterpret_cast<const float4*>(a + row * columns + column);
    return make_float4(0, 0, 0, 0);
}

extern "C" __global__ void __launch_bounds__(THREADS) gemm_warp_tiled(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ __align__(16) float tile_a[2][BK][BM], tile_b[2][BK][BN];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    int row = warp / 4 * 32 + lane / 4 * 4, column = warp % 4 * 16 + lane % 4 * 4;
    int from_m = blockIdx.y * BM, from_n = blockIdx.x * BN;
    bool loads_a = t < BM * BK / 4;
    int a_row = t / 2, a_column = t % 2 * 4, b_row = (t - 128) / 16, b_column = t % 16 * 4;

    float sum[4][4] = {};
    float4 next = loads_a ? load4(a, from_m + a_row, a_column, m, k) : load4(b, b_row, from_n + b_column, k, n);
    int steps = (k + BK - 1) / BK;
    for (int step = 0; step <= steps; step++) {
        if (step < steps) {
            int buffer = step % 2;
            if (loads_a) {
                tile_a[buffer][a_column][a_row] = next.x;
                tile_a[buffer][a_column + 1][a_row] = next.y;
                tile_a[buffer][a_column + 2][a_row] = next.z;
                tile_a[buffer][a_column + 3][a_row] = next.w;
            } else {
                *reinterpret_cast<float4*>(&tile_b[buffer][b_row][b_column]) = next;
            }
            int at = (step + 1) * BK;
            if (step + 1 < steps)
                next = loads_a ? load4(a, from_m + a_row, at + a_column, m, k) : load4(b, at + b_row, from_n + b_column, k, n);
        }
        if (step > 0) {
            int buffer = (step - 1) % 2;
#pragma unroll
            for (int i = 0; i < BK; i++) {
                float4 x = *reinterpret_cast<float4*>(&tile_a[buffer][i][row]);
                float4 y = *reinterpret_cast<float4*>(&tile_b[buffer][i][column]);
                const float xs[] = {x.x, x.y, x.z, x.w}, ys[] = {y.x, y.y, y.z, y.w};
                for (int r = 0; r < 4; r++)
                    for (int s = 0; s < 4; s++) sum[r][s] += xs[r] * ys[s];
            }
        }
        __syncthreads();
    }
    for (int r = 0; r < 4; r++)
        if (from_m + row + r < m && from_n + column < n)
            *reinterpret_cast<float4*>(c + (from_m + row + r) * n + from_n + column) =
                make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
}
