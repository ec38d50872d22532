// Puzzle 35: tensor_cores, two products on the units that multiply whole matrices.
//
// What to do: the tiles are filled for you. Take each lane's fragments from them, multiply with mma.sync,
// and store each lane's part of the result. The instructions are functions in puzzles/include/mma.cuh,
// with a drawing each of which lane holds what. You will write about 29 lines.
//
// Check: backwarp grade 35    Stuck: backwarp hint 35    Start again: backwarp reset 35

#include "mma.cuh"

// TODO(1): rows of the float tiles are 32 + PAD words long. How many more, for fragments without conflicts?
constexpr int PAD = 0;

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
        __syncthreads();  // nobody needs them any more
    }
    // TODO(3): store the sums that belong to weights; grad_weights is a matrix of C_out rows.
}

// Where piece number `piece`, 8 halves, of a row begins in a tile whose rows are 8 pieces long.
__device__ int place(int row, int piece) {
    // TODO(4): move the pieces within their row, so that the same piece of 8 rows lies in all the banks.
    return row * 64 + piece * 8;
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
        __syncthreads();  // nobody needs them any more
    }
    // TODO(6): store the sums that C has a place for.
}
