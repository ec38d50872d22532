// Right: no extern "C", parameters under other names, the kernels are templates' callers.

template <int STEP>
__device__ float row(const float* a, const float* b, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; i += STEP) sum += a[i] * b[i];
    return sum;
}

__global__ void conv2d_backward_weights(
    const float* dy, const float* x, float* dw, int N, int C, int H, int W, int K, int F) {
    int P = H - F + 1, Q = W - F + 1;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= unsigned(K * C * F * F)) return;
    int s = i % F, r = i / F % F, c = i / (F * F) % C, k = i / (F * F * C);
    float sum = 0.0f;
    for (int n = 0; n < N; n++)
        for (int p = 0; p < P; p++)
            sum += row<1>(&dy[((n * K + k) * P + p) * Q], &x[((n * C + c) * H + p + r) * W + s], Q);
    dw[i] = sum;
}

__global__ void conv2d_backward_bias(const float* dy, float* db, int N, int K, int P, int Q) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= K) return;
    float sum = 0.0f;
    for (int n = 0; n < N; n++)
        for (int i = 0; i < P * Q; i++) sum += dy[(n * K + k) * P * Q + i];
    db[k] = sum;
}
