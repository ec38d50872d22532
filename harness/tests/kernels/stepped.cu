// For an editor: see tests/dap/.
#include <stdio.h>

__device__ float squared(float v) {
    float w = v * v;
    return w;
}

__global__ void sums(const float* x, float* y, int n) {
    __shared__ float tile[2][16];
    int i = threadIdx.x;
    tile[0][i] = x[i];
    tile[1][i] = squared(tile[0][i]);
    __syncthreads();

    // of the squares up to its own
    float sum = 0;
    for (int k = 0; k <= i; k++)
        sum += tile[1][k];
    if (i == 3)
        printf("the sum is %g\n", sum);
    y[i] = sum;
}

__global__ void other(float* y) {
    y[0] = 1;
}
