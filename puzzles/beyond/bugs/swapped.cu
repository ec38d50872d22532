// A wrong kernel for puzzle 02, to be stepped through: see ../stepping.md.
extern "C" __global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    int n = threadIdx.x + blockDim.x * blockIdx.x;
    int m = threadIdx.y + blockDim.y * blockIdx.y;
    if (m < M && n < N) {
        float total = 0;
        for (int k = 0; k < K; ++k) {
            float left = A[m * K + k];
            float right = B[n * K + k];
            total += left * right;
        }
        C[m * N + n] = total;
    }
}
