// Right: every thread may take more than one row and column; k runs backwards.

__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < M; row += gridDim.y * blockDim.y)
        for (int col = blockIdx.x * blockDim.x + threadIdx.x; col < N; col += gridDim.x * blockDim.x) {
            double sum = 0;
            for (int k = K - 1; k >= 0; --k) sum += (double)A[row * K + k] * B[k * N + col];
            C[row * N + col] = sum;
        }
}
