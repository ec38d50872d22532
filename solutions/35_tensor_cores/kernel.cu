// Puzzle 35: tensor_cores, two products on the units that multiply whole matrices.
//
// What to do: the tiles are filled for you. Take each lane's fragments from them, multiply with mma.sync,
// and store each lane's part of the result. The instructions are functions in puzzles/include/mma.cuh,
// with a drawing each of which lane holds what. You will write about 29 lines.
//
// Check: backwarp grade 35    Stuck: backwarp hint 35    Start again: backwarp reset 35

#include "mma.cuh"

// TODO(1): rows of the float tiles are 32 + PAD words long. How many more, for fragments without conflicts?
// BEGIN STUB
// constexpr int PAD = 0;
// END STUB
// BEGIN SOLUTION
constexpr int PAD = 4;  // 8 rows then begin in banks 0, 4, ... 28, and a fragment takes 4 neighbours of each
// END SOLUTION

extern "C" __global__ void conv2d_backward_weights_tf32(
    const float* grad_output, const float* input, float* grad_weights,
    int batch, int C_in, int H, int W, int C_out, int F) {
    __shared__ float grads[16][32 + PAD], windows[32][32 + PAD];  // 16 channels, 32 weights; 32 positions
    int H_out = H - F + 1, W_out = W - F + 1, positions = batch * H_out * W_out, weights = C_in * F * F;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, top = blockIdx.y * 16, left = blockIdx.x * 32;
    float sum[4] = {};  // of the warp's 16 channels and 8 weights
    for (int start = 0; start < positions; start += 32) {
        int i = start + lane, q = i % W_out, p = i / W_out % H_out, b = i / (W_out * H_out);
        for (int m = warp; m < 16; m += 4) {
            bool inside = i < positions && top + m < C_out;
            grads[m][lane] = inside ? grad_output[((b * C_out + top + m) * H_out + p) * W_out + q] : 0.0f;
        }
        for (int n = warp; n < 32; n += 4) {
            int j = left + n, s = j % F, r = j / F % F, c = j / (F * F);
            bool inside = i < positions && j < weights;
            windows[n][lane] = inside ? input[((b * C_in + c) * H + p + r) * W + q + s] : 0.0f;
        }
        __syncthreads();  // both tiles are full
        // TODO(2): for every 8 positions, round this lane's elements of A, which is grads, and of B, which is
        //          the warp's 8 rows of windows, each row a column of B, into registers; multiply.
        // BEGIN SOLUTION
        int g = lane / 4, t = lane % 4;
        for (int k = 0; k < 32; k += 8) {
            unsigned x[4], y[2];
            for (int e = 0; e < 4; e++) {
                x[e] = to_tf32(grads[g + e % 2 * 8][k + t + e / 2 * 4]);
            }
            for (int e = 0; e < 2; e++) {
                y[e] = to_tf32(windows[8 * warp + g][k + t + e * 4]);
            }
            mma_m16n8k8_tf32(sum, x, y);
        }
        // END SOLUTION
        __syncthreads();  // nobody needs them any more
    }
    // TODO(3): store the sums that belong to weights; grad_weights is a matrix of C_out rows.
    // BEGIN SOLUTION
    for (int e = 0; e < 4; e++) {
        int k = top + lane / 4 + e / 2 * 8, j = left + 8 * warp + lane % 4 * 2 + e % 2;
        if (k < C_out && j < weights) grad_weights[k * weights + j] = sum[e];
    }
    // END SOLUTION
}

// Where piece number `piece`, 8 halves, of a row begins in a tile whose rows are 8 pieces long.
__device__ int place(int row, int piece) {
    // TODO(4): move the pieces within their row, so that the same piece of 8 rows lies in all the banks.
    // BEGIN STUB
    // return row * 64 + piece * 8;
    // END STUB
    // BEGIN SOLUTION
    return row * 64 + (piece ^ row % 8) * 8;
    // END SOLUTION
}

extern "C" __global__ void matmul_half(const __half* A, const __half* B, float* C, int M, int N, int K) {
    __shared__ __align__(16) __half a[64 * 64], b[64 * 64];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, top = blockIdx.y * 64, left = blockIdx.x * 64;
    float sum[8][4] = {};  // of the warp's 16 rows and 8 times 8 columns
    for (int start = 0; start < K; start += 64) {
        for (int i = threadIdx.x; i < 64 * 8; i += 128) {
            int row = i / 8, piece = i % 8, at = place(row, piece);
            *reinterpret_cast<uint4*>(&a[at]) = load8(A, M, K, top + row, start + 8 * piece);
            *reinterpret_cast<uint4*>(&b[at]) = load8(B, K, N, start + row, left + 8 * piece);
        }
        __syncthreads();  // both tiles are full
        // TODO(5): for every 16 steps along K, one ldmatrix_x4 loads the fragment of A; another one, transposed,
        //          those of B for two times 8 columns; two multiplications use them.
        // BEGIN SOLUTION
        for (int k = 0; k < 64; k += 16) {
            unsigned x[4], y[4];
            ldmatrix_x4(x, &a[place(16 * warp + lane % 16, k / 8 + lane / 16)]);
            for (int n = 0; n < 8; n += 2) {
                ldmatrix_x4_trans(y, &b[place(k + lane % 16, n + lane / 16)]);
                mma_m16n8k16_f16(sum[n], x, y);
                mma_m16n8k16_f16(sum[n + 1], x, y + 2);
            }
        }
        // END SOLUTION
        __syncthreads();  // nobody needs them any more
    }
    // TODO(6): store the sums that C has a place for.
    // BEGIN SOLUTION
    for (int n = 0; n < 8; n++) {
        for (int e = 0; e < 4; e++) {
            int row = top + 16 * warp + lane / 4 + e / 2 * 8, column = left + 8 * n + lane % 4 * 2 + e % 2;
            if (row < M && column < N) C[row * N + column] = sum[n][e];
        }
    }
    // END SOLUTION
}
