#define BLOCK 64

// y[i] is the mean of x[i - 1], x[i] and x[i + 1]; outside of x are zeros
extern "C" __global__ void blur(const float* x, float* y, int n) {
    __shared__ float tile[BLOCK + 2];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    tile[threadIdx.x + 1] = i < n ? x[i] : 0.0f;
    if (threadIdx.x == 0) {
        tile[0] = i > 0 ? x[i - 1] : 0.0f;
        tile[BLOCK + 1] = i + BLOCK < n ? x[i + BLOCK] : 0.0f;
    }
    __syncthreads();
    if (i < n) y[i] = (tile[threadIdx.x] + tile[threadIdx.x + 1] + tile[threadIdx.x + 2]) / 3.0f;
}
