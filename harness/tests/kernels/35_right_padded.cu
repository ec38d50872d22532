// Rows padded, not swizzled; rounded where the tiles are filled; steps along k in another order.
#include "mma.cuh"

extern "C" __global__ void conv2d_backward_weights_tf32(
    const float* grad_output, const float* input, float* grad_weights,
    int batch, int C_in, int H, int W, int C_out, int F) {
    __shared__ unsigned grads[16][40], windows[32][40];
    int P = H - F + 1, Q = W - F + 1, positions = batch * P * Q, weights = C_in * F * F;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane >> 2, pair = (lane & 3) * 2;
    int top = blockIdx.y * 16, left = blockIdx.x * 32;
    float sum[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (int start = 0; start < positions; start += 32) {
        int i = start + lane, q = i % Q, p = i / Q % P, b = i / (Q * P);
#pragma unroll 1
        for (int m = warp; m < 48; m += 4) {
            int k = top + m, j = left + m - 16, c = j / (F * F), r = j / F % F, s = j % F;
            float value = 0.0f;
            if (i < positions && m < 16 && k < C_out) value = grad_output[((b * C_out + k) * P + p) * Q + q];
            bool inside = i < positions && m >= 16 && j < weights;
            if (inside) value = input[((b * C_in + c) * H + p + r) * W + q + s];
            (m < 16 ? grads[m] : windows[m - 16])[lane] = to_tf32(value);
        }
        __syncthreads();
#pragma unroll 1
        for (int k = pair; k < 32; k += 8) {  // a lane's two steps are neighbours, in A and in B
            uint2 upper = *(uint2*)&grads[group][k], lower = *(uint2*)&grads[group + 8][k];
            uint2 column = *(uint2*)&windows[8 * warp + group][k];
            unsigned a[4] = {upper.x, lower.x, upper.y, lower.y}, w[2] = {column.x, column.y};
            mma_m16n8k8_tf32(sum, a, w);
        }
        __syncthreads();
    }
    int k = top + group, j = left + 8 * warp + pair;
    if (k < C_out && j < weights) grad_weights[k * weights + j] = sum[0];
    if (k < C_out && j + 1 < weights) grad_weights[k * weights + j + 1] = sum[1];
    if (k + 8 < C_out && j < weights) grad_weights[(k + 8) * weights + j] = sum[2];
    if (k + 8 < C_out && j + 1 < weights) grad_weights[(k + 8) * weights + j + 1] = sum[3];
}

extern "C" __global__ void matmul_half(const __half* A, const __half* B, float* C, int M, int N, int K) {
    __shared__ __align__(16) __half a[64][72], b[64][72];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, top = blockIdx.y * 64, left = blockIdx.x * 64;
    float sum[8][4] = {};
#pragma unroll 1
    for (int start = 0; start < K; start += 64) {
#pragma unroll 1
        for (int i = threadIdx.x; i < 512; i += 128) {
            *(uint4*)&a[i / 8][i % 8 * 8] = load8(A, M, K, top + i / 8, start + i % 8 * 8);
            *(uint4*)&b[i / 8][i % 8 * 8] = load8(B, K, N, start + i / 8, left + i % 8 * 8);
        }
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < 64; k += 16) {
            unsigned x[4], y[2];
            ldmatrix_x4(x, &a[16 * warp + lane % 16][k + lane / 16 * 8]);
#pragma unroll
            for (int n = 0; n < 8; n++) {
                ldmatrix_x2_trans(y, &b[k + lane % 16][8 * n]);
                mma_m16n8k16_f16(sum[n], x, y);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 32; i++) {
        int row = top + 16 * warp + lane / 4 + i % 4 / 2 * 8;
        int column = left + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (row < M && column < N) C[row * N + column] = sum[i / 4][i % 4];
    }
}
