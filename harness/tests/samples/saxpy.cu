// y = a x + y for any arithmetic type, with a loop over the grid.

template <typename T, int UNROLL = 1>
__global__ void axpy(T a, const T* __restrict__ x, T* __restrict__ y, int n) {
    int stride = gridDim.x * blockDim.x;
#pragma unroll UNROLL
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) y[i] = a * x[i] + y[i];
}
