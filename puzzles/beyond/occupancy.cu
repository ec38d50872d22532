// How many blocks of each kernel a multiprocessor holds, as CUDA's runtime says.
//
//     nvcc -arch=native -Xptxas -v -o occupancy occupancy.cu && ./occupancy
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

// One sum per thread: few registers.
__global__ void one_sum(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = i; k < n; k += gridDim.x * blockDim.x) sum += x[k];
    if (i < n) y[i] = sum;
}

// 8 x 8 sums per thread, as in puzzle 27: many registers.
__global__ void many_sums(const float* x, float* y, int n) {
    float sums[8][8] = {};
    for (int k = threadIdx.x; k < n; k += blockDim.x)
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 8; j++) sums[i][j] += x[k * 16 + i] * x[k * 16 + 8 + j];
    for (int i = 0; i < 64; i++) y[(blockIdx.x * blockDim.x + threadIdx.x) * 64 + i] = sums[i / 8][i % 8];
}

// A tile of 32 KB: few blocks, whatever the registers.
__global__ void large_tile(const float* x, float* y, int n) {
    __shared__ float tile[8192];
    for (int i = threadIdx.x; i < 8192; i += blockDim.x) tile[i] = i < n ? x[i] : 0;
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = tile[8191 - threadIdx.x];
}

static void check(cudaError_t error) {
    if (error == cudaSuccess) return;
    fprintf(stderr, "%s\n", cudaGetErrorString(error));
    exit(1);
}

static void tell(const char* name, void (*kernel)(const float*, float*, int), int threads) {
    cudaFuncAttributes needs;
    int blocks = 0;
    check(cudaFuncGetAttributes(&needs, (const void*)kernel));
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void*)kernel, threads, 0));
    printf("%-10s %4d threads: %3d registers, %5zu bytes shared, %2d blocks, %2d warps\n", name, threads, needs.numRegs,
           needs.sharedSizeBytes, blocks, blocks * threads / 32);
}

int main() {
    for (int threads = 64; threads <= 1024; threads *= 4) {
        tell("one_sum", one_sum, threads);
        tell("many_sums", many_sums, threads);
        tell("large_tile", large_tile, threads);
    }
    return 0;
}
