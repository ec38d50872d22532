// A blur of an image in two passes, with the filter in constant memory and a halo in shared memory.

constexpr int RADIUS = 3, BLOCK_X = 16, BLOCK_Y = 8;

__constant__ float filter[2 * RADIUS + 1] = {0.03f, 0.11f, 0.22f, 0.28f, 0.22f, 0.11f, 0.03f};

extern "C" __global__ void convolve_rows(const float* image, float* out, int height, int width) {
    __shared__ float tile[BLOCK_Y][BLOCK_X + 2 * RADIUS];
    int y = blockIdx.y * BLOCK_Y + threadIdx.y, x0 = blockIdx.x * BLOCK_X - RADIUS;
    for (int i = threadIdx.x; i < BLOCK_X + 2 * RADIUS; i += BLOCK_X) {
        int x = x0 + i;
        tile[threadIdx.y][i] = y < height && x >= 0 && x < width ? image[y * width + x] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k <= 2 * RADIUS; k++) sum += filter[k] * tile[threadIdx.y][threadIdx.x + k];
    int x = x0 + RADIUS + threadIdx.x;
    if (y < height && x < width) out[y * width + x] = sum;
}

extern "C" __global__ void convolve_columns(const float* image, float* out, int height, int width) {
    __shared__ float tile[BLOCK_Y + 2 * RADIUS][BLOCK_X];
    int x = blockIdx.x * BLOCK_X + threadIdx.x, y0 = blockIdx.y * BLOCK_Y - RADIUS;
    for (int i = threadIdx.y; i < BLOCK_Y + 2 * RADIUS; i += BLOCK_Y) {
        int y = y0 + i;
        tile[i][threadIdx.x] = x < width && y >= 0 && y < height ? image[y * width + x] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k <= 2 * RADIUS; k++) sum += filter[k] * tile[threadIdx.y + k][threadIdx.x];
    int y = y0 + RADIUS + threadIdx.y;
    if (y < height && x < width) out[y * width + x] = sum;
}
