// L L^T = A for many small symmetric matrices of any order up to 32, one warp each, rows in registers' reach.

extern "C" __global__ void cholesky(const double* a, double* l, int order, int count) {
    extern __shared__ double memory[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, matrix = blockIdx.x * (blockDim.x / 32) + warp;
    if (matrix >= count) return;
    double* m = memory + warp * order * (order + 1);
    const int pitch = order + 1;
    for (int i = lane; i < order * order; i += 32) m[i / order * pitch + i % order] = a[(size_t)matrix * order * order + i];
    __syncwarp();
    for (int k = 0; k < order; k++) {
        if (lane == k) m[k * pitch + k] = sqrt(m[k * pitch + k]);
        __syncwarp();
        double diagonal = m[k * pitch + k];
        if (lane > k && lane < order) m[lane * pitch + k] /= diagonal;
        __syncwarp();
        if (lane > k && lane < order)
            for (int j = k + 1; j <= lane; j++) m[lane * pitch + j] -= m[lane * pitch + k] * m[j * pitch + k];
        __syncwarp();
    }
    for (int i = lane; i < order * order; i += 32) {
        int row = i / order, column = i % order;
        l[(size_t)matrix * order * order + i] = column <= row ? m[row * pitch + column] : 0.0;
    }
}
