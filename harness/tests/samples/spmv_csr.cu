// y = A x with a sparse matrix by rows, one warp per row; in double, to the last bit of a small error.

extern "C" __global__ void spmv_csr(const int* __restrict__ row_starts, const int* __restrict__ columns,
                                    const double* __restrict__ values, const double* __restrict__ x, double* y, int rows) {
    for (int row = blockIdx.x * blockDim.y + threadIdx.y; row < rows; row += gridDim.x * blockDim.y) {
        double sum = 0.0;
        for (int i = row_starts[row] + threadIdx.x; i < row_starts[row + 1]; i += 32) sum += values[i] * __ldg(&x[columns[i]]);
        for (int step = 16; step > 0; step >>= 1) sum += __shfl_down_sync(0xffffffff, sum, step);
        if (threadIdx.x == 0) y[row] = sum;
    }
}
