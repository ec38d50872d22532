// Four kernels with one fault each, one for every tool of compute-sanitizer. Above each: the tool, and what it should do.
//
//     backwarp run puzzles/beyond/faults.cu shift --block 64 --arg x=ones:64 --arg y=zeros:64 --arg n=64
//     nvcc -lineinfo -o faults faults.cu && compute-sanitizer --tool memcheck ./faults shift
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

// memcheck: y[i] = x[i + 1], but there is no x[n].
__global__ void shift(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i + 1];
}

// racecheck: y is x of each block in reverse; the other half of `tile` may not be there yet.
__global__ void reverse(const float* x, float* y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    y[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];
}

// initcheck: y[i] = the mean of x[i] and x[i + n / 2]; only the first half of x has been written.
__global__ void mean(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) y[i] = x[i] > 0 ? (x[i] + x[i + n / 2]) / 2 : x[i];
}

// synccheck: the sum of x; half of the threads go past the barrier.
__global__ void total(const float* x, float* y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    for (int step = 32; step > 0; step /= 2) {
        if (threadIdx.x < step) {
            __syncthreads();
            tile[threadIdx.x] += tile[threadIdx.x + step];
        }
    }
    if (threadIdx.x == 0) *y = tile[0];
}

static void check(cudaError_t error) {
    if (error == cudaSuccess) return;
    fprintf(stderr, "%s\n", cudaGetErrorString(error));
    exit(1);
}

int main(int argc, char** argv) {
    const char* kernel = argc > 1 ? argv[1] : "shift";
    const int n = 64;
    float host[n], *x = nullptr, *y = nullptr;
    for (int i = 0; i < n; i++) host[i] = 1;
    check(cudaMalloc((void**)&x, sizeof host));
    check(cudaMalloc((void**)&y, sizeof host));
    int half = strcmp(kernel, "mean") ? 1 : 2;
    check(cudaMemcpy(x, host, sizeof host / half, cudaMemcpyHostToDevice));
    if (!strcmp(kernel, "shift")) shift<<<1, n>>>(x, y, n);
    if (!strcmp(kernel, "reverse")) reverse<<<1, n>>>(x, y);
    if (!strcmp(kernel, "mean")) mean<<<1, n>>>(x, y, n);
    if (!strcmp(kernel, "total")) total<<<1, n>>>(x, y);
    check(cudaGetLastError());
    check(cudaDeviceSynchronize());
    check(cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost));
    printf("%s: y[0] = %g\n", kernel, host[0]);
    check(cudaFree(x));
    check(cudaFree(y));
    return 0;
}
