// Wrong: the sum is kept in half precision, which has 11 bits.
// expect: wrong, half
#include <cuda_fp16.h>

extern "C" __global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    __half sum = __float2half(0.0f);
    for (int k = 0; k < K; k++) sum = __hadd(sum, __float2half(A[row * K + k] * B[k * N + col]));
    C[row * N + col] = __half2float(sum);
}
