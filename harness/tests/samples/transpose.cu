// One matrix, transposed three ways: straight, through a tile, through a padded tile with several rows per thread.

constexpr int TILE = 32, ROWS = 8;

extern "C" __global__ void transpose_naive(const float* a, float* out, int height, int width) {
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x < width && y < height) out[x * height + y] = a[y * width + x];
}

template <int PAD>
__device__ void transpose_tile(const float* a, float* out, int height, int width, int rows) {
    __shared__ float tile[TILE][TILE + PAD];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int r = 0; r < TILE; r += rows)
        if (x < width && y + r < height) tile[threadIdx.y + r][threadIdx.x] = a[(y + r) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int r = 0; r < TILE; r += rows)
        if (x < height && y + r < width) out[(y + r) * height + x] = tile[threadIdx.x][threadIdx.y + r];
}

extern "C" __global__ void transpose_tiled(const float* a, float* out, int height, int width) {
    transpose_tile<0>(a, out, height, width, TILE);
}

extern "C" __global__ void __launch_bounds__(TILE * ROWS) transpose_padded(const float* __restrict__ a, float* __restrict__ out, int height, int width) {
    transpose_tile<1>(a, out, height, width, ROWS);
}
