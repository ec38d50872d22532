#include <cstdio>
#include <vector>
#ifdef WRONG
#define EITHER(wrong, right) wrong
#else
#define EITHER(wrong, right) right
#endif

__global__ void fill(float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = i;  // out-of-bounds
}
struct View { float* data; int n; };
template <int N> __global__ void scale(View v) {
    extern __shared__ float tile[];
    int i = threadIdx.x;
    tile[i] = v.data[i];  // uninitialised-read
    __syncthreads();
    if (i < v.n) v.data[i] = N * tile[i];
}

int main() {
    const int n = 100;
    float *a, *b, *gone, *bare;
    cudaMalloc(&a, n * sizeof(float));
    cudaMalloc(&b, 2 * n * sizeof(float));
    cudaMalloc(&gone, n * sizeof(float));
    cudaMalloc(&bare, n * sizeof(float));
    fill<<<EITHER(0, 1), n>>>(a, n);                                      // launch
    fill<<<1, EITHER(2000, n)>>>(a, n);                                   // launch
    fill<<<1, EITHER(dim3(64, 32), dim3(32, 1))>>>(a, n);                 // launch
    fill<<<1, n, EITHER(300000, 0)>>>(a, n);                              // launch
    scale<3><<<1, n, EITHER(50000, n * sizeof(float))>>>({a, n});         // launch
    cudaFuncSetAttribute(scale<2>, cudaFuncAttributeMaxDynamicSharedMemorySize, EITHER(300000, 60000));  // launch
    if (cudaGetLastError() != cudaSuccess) printf("asked\n");
    scale<2><<<1, n, n * sizeof(float)>>>({EITHER(bare, a), n});
    cudaDeviceSynchronize();
    std::vector<float> h(n);
    if (EITHER(1, 0)) cudaMemcpy(h.data(), bare, 4 * n, cudaMemcpyDeviceToHost);
    if (EITHER(1, 0)) cudaFree(gone);
    fill<<<1, n>>>(EITHER(gone, a), n);                                   // freed-pointer
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    cudaDeviceReset();
    cudaMalloc(&a, n * sizeof(float));
    fill<<<1, n>>>(EITHER(h.data(), a), n);                               // host-pointer
    cudaDeviceReset();
    cudaMalloc(&a, n * sizeof(float));
    fill<<<2, n>>>(a, EITHER(2 * n, n));
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    cudaFree(a);
    cudaDeviceReset();
    if (EITHER(1, 0)) fill<<<1, 2 * n, 200000>>>(a, n);                   // launch
}
