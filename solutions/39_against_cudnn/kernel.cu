// Puzzle 39: against_cudnn, the forward convolution as libraries compute it, in float and on tensor cores.
//
// What to do: the implicit product of puzzle 30, with the 64 sums per thread of puzzle 27 and the copies of
// puzzle 34; then the same layer in the layout that tensor cores like, with the fragments of puzzle 35.
// Sizes need not be multiples of anything. You will write about 145 lines.
//
// Check: backwarp grade 39    Stuck: backwarp hint 39    Start again: backwarp reset 39

#include "async.cuh"
#include "mma.cuh"

// A block computes BM filters at BN positions, with STAGES pairs of tiles in shared memory.
constexpr int BM = 128, BN = 128, STAGES = 3;
constexpr int NOWHERE = -(1 << 30);  // a row that is in no image
// First kernel: a step has BK rows of the matrix; a thread has 8 x 8 sums.
constexpr int BK = 8, THREADS = BM / 8 * (BN / 8);
// Second kernel: a step has PIECES of 4 channels; a warp has WM filters at WN positions.
constexpr int PIECES = 4, WM = 64, WN = 64, WARPS = BM / WM * (BN / WN);

extern "C" __global__ void __launch_bounds__(THREADS, 2) conv2d_forward_float(
    const float* input,    // [batch, C_in, H, W]
    const float* weights,  // [C_out, C_in, R, S]
    const float* bias,     // [C_out]
    float* output,         // [batch, C_out, H_out, W_out], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int rows = C_in * R * S, plane = H_out * W_out, width = batch * plane;
    int t = threadIdx.x, top = blockIdx.y * BM, left = blockIdx.x * BN;

    // TODO(1): declare the tiles, rows of the matrix by filters and by positions, and the sums. A warp copies the
    //          pixels of one row, a lane those of every 32nd position: find their patches, and (c, r, s) of the
    //          row. A thread copies the weights of every 32nd filter, in row t % BK.
    // BEGIN SOLUTION
    __shared__ __align__(16) float filters[STAGES][BK][BM + 4], patches[STAGES][BK][BN];
    float sum[8][8] = {};
    int lane = t % 32, first = t / 32, h[BN / 32], w[BN / 32], image[BN / 32];
    for (int i = 0; i < BN / 32; i++) {
        int n = left + lane + 32 * i;
        h[i] = n % plane / W_out * stride_h - pad_h;
        w[i] = n % W_out * stride_w - pad_w;
        image[i] = (n / plane * C_in * H + h[i]) * W + w[i];
        if (n >= width) h[i] = NOWHERE;
    }
    constexpr int APART = THREADS / 32, FILTERS_APART = THREADS / BK;  // rows, filters from copy to copy
    int s = first % S, r = first / S % R, c = first / (S * R);
    int add_s = APART % S, add_r = APART / S % R, add_c = APART / (S * R);
    int row = t % BK, filter = top + t / BK;
    int tap = filter * rows + row;
    // END SOLUTION

    // TODO(2): the pipeline of puzzle 34: wait, meet, start the copies of the step STAGES - 1 later, multiply.
    // BEGIN SOLUTION
    int steps = (rows + BK - 1) / BK, x = t % (BN / 8), y = t / (BN / 8);
    for (int step = 1 - STAGES; step < steps; step++) {
        if (step >= 0) {
            wait_copies<STAGES - 2>();
            __syncthreads();
        }
        int next = step + STAGES - 1, to = next % STAGES;
        if (next < steps) {
            for (int i = 0; i < BM / FILTERS_APART; i++) {
                bool exists = row < rows && filter + i * FILTERS_APART < C_out;
                float* slot = &filters[to][row % BK][t / BK + i * FILTERS_APART];
                copy_async(slot, weights + tap + i * FILTERS_APART * rows, exists);
            }
            row += BK, tap += BK;
            for (int y = 0; y < BK; y += APART) {
                int down = c < C_in ? r * dilation_h : NOWHERE, right = s * dilation_w;
                const float* from = input + (c * H + down) * W + right;
                for (int i = 0; i < BN / 32; i++) {  // unsigned, an index below 0 is large
                    bool inside = (unsigned)(h[i] + down) < H && (unsigned)(w[i] + right) < W;
                    copy_async(&patches[to][first + y][lane + 32 * i], from + image[i], inside);
                }
                s += add_s, r += add_r, c += add_c;
                if (s >= S) s -= S, r++;
                if (r >= R) r -= R, c++;
            }
        }
        commit_copies();
        if (step < 0) continue;
#pragma unroll
        for (int k = 0; k < BK; k++) {
            const float* a = &filters[step % STAGES][k][4 * y];
            const float* b = &patches[step % STAGES][k][4 * x];
            __align__(16) float p[8], q[8];
            for (int i = 0; i < 8; i += 4) {
                *reinterpret_cast<float4*>(&p[i]) = *reinterpret_cast<const float4*>(&a[i / 4 * BM / 2]);
                *reinterpret_cast<float4*>(&q[i]) = *reinterpret_cast<const float4*>(&b[i / 4 * BN / 2]);
            }
            for (int i = 0; i < 8; i++) {
                for (int j = 0; j < 8; j++) sum[i][j] += p[i] * q[j];
            }
        }
    }
    // END SOLUTION

    // TODO(3): store the sums and the bias: four neighbours with one write where every plane of the output
    //          begins at a multiple of 16 bytes, else one by one.
    // BEGIN SOLUTION
    for (int j = 0; j < 8; j += 4) {
        int n = left + j / 4 * BN / 2 + 4 * x;
        float* four = output + n / plane * C_out * plane + n % plane;
        for (int i = 0; i < 8; i++) {
            int k = top + i / 4 * BM / 2 + 4 * y + i % 4;
            if (k >= C_out || n >= width) break;
            float start = bias[k], v[4];
            for (int e = 0; e < 4; e++) v[e] = start + sum[i][j + e];
            if (plane % 4 == 0) {
                *reinterpret_cast<float4*>(&four[k * plane]) = make_float4(v[0], v[1], v[2], v[3]);
                continue;
            }
            for (int e = 0; e < 4; e++) {
                if (n + e < width) output[((n + e) / plane * C_out + k) * plane + (n + e) % plane] = v[e];
            }
        }
    }
    // END SOLUTION
}

// Where a piece, 4 floats, begins in a tile whose rows have PIECES of them.
__device__ int place(int row, int piece) {
    // TODO(4): move the pieces within their row, so that the same piece of 8 rows lies in all the banks.
    // BEGIN STUB
    // return (row * PIECES + piece) * 4;
    // END STUB
    // BEGIN SOLUTION
    return (row * PIECES + (piece ^ row / 2 % PIECES)) * 4;
    // END SOLUTION
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 2) conv2d_forward_tf32(
    const float* input,    // [batch, H, W, C_in]
    const float* weights,  // [C_out, R, S, C_in]
    const float* bias,     // [C_out]
    float* output,         // [batch, H_out, W_out, C_out], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int width = batch * H_out * W_out, fours = (C_in + 3) / 4, pieces = R * S * fours;  // in a row
    int t = threadIdx.x, lane = t % 32, warp = t / 32, top = blockIdx.y * BM, left = blockIdx.x * BN;

    // TODO(5): declare the tiles, in pieces, and the sums of the warp: WM / 16 times WN / 8 products of 16 x 8.
    //          A thread copies piece t % PIECES of every 32nd row of both tiles: find (r, s, four) of its
    //          first piece, and the patches of its positions.
    // BEGIN SOLUTION
    __shared__ __align__(16) float filters[STAGES][BM * PIECES * 4], patches[STAGES][BN * PIECES * 4];
    constexpr int APART = 32 * WARPS / PIECES, WORDS = 4 * PIECES;  // of a thread's rows; length of a row
    float sum[WM / 16][WN / 8][4] = {};
    int piece = t % PIECES, first = t / PIECES, put = place(first, piece);
    int four = piece % fours, s = piece / fours % S, r = piece / (fours * S);
    int add_four = PIECES % fours, add_s = PIECES / fours % S, add_r = PIECES / (fours * S);
    int h[BN / APART], w[BN / APART], image[BN / APART];
    for (int i = 0; i < BN / APART; i++) {
        int n = left + first + i * APART;
        h[i] = n < width ? n / W_out % H_out * stride_h - pad_h : NOWHERE;
        w[i] = n % W_out * stride_w - pad_w;
        image[i] = n / (W_out * H_out) * H * W * C_in;
    }
    // END SOLUTION

    // TODO(6): the pipeline again, with copy4_async; for every two pieces, load the warp's fragments with
    //          ldmatrix_x4, round them, and multiply each of A with each of B.
    // BEGIN SOLUTION
    int steps = (pieces + PIECES - 1) / PIECES, m0 = warp % (BM / WM) * WM, n0 = warp / (BM / WM) * WN;
    for (int step = 1 - STAGES; step < steps; step++) {
        if (step >= 0) {
            wait_copies<STAGES - 2>();
            __syncthreads();
        }
        int next = step + STAGES - 1, to = next % STAGES;
        if (next < steps) {
            bool whole = C_in % 4 == 0;
            int exist = r < R ? min(C_in - 4 * four, 4) : 0;
            const float* taps = weights + ((top + first) * R * S + r * S + s) * C_in + 4 * four;
            for (int i = 0; i < BM / APART; i++) {
                int there = top + first + i * APART < C_out ? exist : 0;
                float* slot = &filters[to][put + i * APART * WORDS];
                copy4_async(slot, taps + i * APART * R * S * C_in, there, whole);
            }
            for (int i = 0; i < BN / APART; i++) {
                unsigned down = h[i] + r * dilation_h, right = w[i] + s * dilation_w;
                int there = down < H && right < W ? exist : 0;
                int from = image[i] + (down * W + right) * C_in + 4 * four;
                copy4_async(&patches[to][put + i * APART * WORDS], input + from, there, whole);
            }
            four += add_four, s += add_s, r += add_r;
            if (four >= fours) four -= fours, s++;
            if (s >= S) s -= S, r++;
        }
        commit_copies();
        if (step < 0) continue;
        for (int k = 0; k < PIECES; k += 2) {
            unsigned a[WM / 16][4], b[WN / 8][2];
            int in_a = place(m0 + lane % 16, k + lane / 16);
            int in_b = place(n0 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2);
            for (int m = 0; m < WM / 16; m++) {
                ldmatrix_x4(a[m], &filters[step % STAGES][in_a + 16 * m * WORDS]);
                for (int e = 0; e < 4; e++) a[m][e] = to_tf32(__uint_as_float(a[m][e]));
            }
            for (int n = 0; n < WN / 8; n += 2) {
                ldmatrix_x4(b[n], &patches[step % STAGES][in_b + 8 * n * WORDS]);
                for (int e = 0; e < 4; e++) b[n + e / 2][e % 2] = to_tf32(__uint_as_float(b[n + e / 2][e % 2]));
            }
            for (int m = 0; m < WM / 16; m++) {
                for (int n = 0; n < WN / 8; n++) mma_m16n8k8_tf32(sum[m][n], a[m], b[n]);
            }
        }
    }
    // END SOLUTION

    // TODO(7): store the sums that have a place, with the bias.
    // BEGIN SOLUTION
#pragma unroll
    for (int m = 0; m < WM / 16; m++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int k = top + m0 + 16 * m + lane / 4 + e / 2 * 8, column = left + n0 + lane % 4 * 2 + e % 2;
            float start = k < C_out ? bias[k] : 0.0f;
            for (int n = 0; n < WN / 8; n++) {
                bool there = k < C_out && column + 8 * n < width;
                if (there) output[(column + 8 * n) * C_out + k] = start + sum[m][n][e];
            }
        }
    }
    // END SOLUTION
}
