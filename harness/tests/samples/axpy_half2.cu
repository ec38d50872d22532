// y = a x + y in half, two at a time, and a sum of squares with bfloat16 input.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void axpy_half2(half a, const half2* x, half2* y, int n) {
    half2 both = __half2half2(a);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 2; i += gridDim.x * blockDim.x) y[i] = __hfma2(both, x[i], y[i]);
    if (n % 2 && blockIdx.x * blockDim.x + threadIdx.x == 0) {
        half* last = reinterpret_cast<half*>(y) + n - 1;
        *last = __hfma(a, reinterpret_cast<const half*>(x)[n - 1], *last);
    }
}

extern "C" __global__ void squares_bf16(const __nv_bfloat16* x, float* sum, int n) {
    float mine = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float v = __bfloat162float(x[i]);
        mine += v * v;
    }
    for (int step = 16; step; step /= 2) mine += __shfl_down_sync(0xffffffff, mine, step);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}
