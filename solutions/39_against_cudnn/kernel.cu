// Puzzle 39: against_cudnn, the forward convolution as libraries compute it, in float and on tensor cores.
//
// What to do: the implicit product of puzzle 30, with the 64 sums per thread of puzzle 27 and the copies of
// puzzle 34; then the same layer in the layout that tensor cores like, with the fragments of puzzle 35; then, in the
// first kernel's tiles, the gradient of the input in one to three dimensions, by puzzle 31's classes.
// Sizes need not be multiples of anything. You will write about 210 lines.
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

// One direction of a class, as in puzzle 31.
struct Axis { int count, first, taps, ahead; };

__device__ Axis axis(int at, int size, int filter, int stride, int pad) {
    // TODO(8): yours of puzzle 31.
    // BEGIN STUB
    // return {};
    // END STUB
    // BEGIN SOLUTION
    int first = (at + pad) % stride;
    return {(size - at + stride - 1) / stride, first, (filter - first + stride - 1) / stride, (at + pad) / stride};
    // END SOLUTION
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) conv_nd_backward_input(
    const float* grad_output,  // [batch, C_out, D_out, H_out, W_out]
    const float* weights,      // [C_out, T, R, S, C_in]
    float* grad_input,         // [batch, C_in, D, H, W], yours to fill
    int batch, int C_in, int D, int H, int W, int C_out, int T, int R, int S,
    int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w) {
    int D_out = (D + 2 * pad_d - T) / stride_d + 1;
    int H_out = (H + 2 * pad_h - R) / stride_h + 1;
    int W_out = (W + 2 * pad_w - S) / stride_w + 1;
    int thread = threadIdx.x, lane = thread % 32, down = (C_in + BM - 1) / BM;
    int top = blockIdx.x % down * BM, left = blockIdx.x / down * BN;

    // TODO(9): blockIdx.y counts the classes, those of w fastest: find its directions, and let the block leave if the
    //          class has no such tile. Declare tiles and sums. A warp copies one row of both tiles, all taps of a
    //          filter before the next filter: find (k, t, r, s) of its first one, and where its lanes' elements are.
    // BEGIN SOLUTION
    int class_d = blockIdx.y / (stride_w * stride_h), class_h = blockIdx.y / stride_w % stride_h;
    int class_w = blockIdx.y % stride_w;
    Axis of_d = axis(class_d, D, T, stride_d, pad_d);
    Axis of_h = axis(class_h, H, R, stride_h, pad_h), of_w = axis(class_w, W, S, stride_w, pad_w);
    int plane = of_h.count * of_w.count, width = batch * of_d.count * plane;
    if (left >= width) return;
    __shared__ __align__(16) float filters[STAGES][BK][BM], grads[STAGES][BK][BN];
    float sum[8][8] = {};
    int o[BN / 32], p[BN / 32], q[BN / 32], image[BN / 32];
    for (int i = 0; i < BN / 32; i++) {
        int n = left + lane + 32 * i;
        o[i] = n < width ? n / plane % of_d.count + of_d.ahead : NOWHERE;
        p[i] = n / of_w.count % of_h.count + of_h.ahead;
        q[i] = n % of_w.count + of_w.ahead;
        image[i] = ((n / (plane * of_d.count) * C_out * D_out + o[i]) * H_out + p[i]) * W_out + q[i];
    }
    constexpr int APART = THREADS / 32;  // rows from copy to copy
    int taps_s = max(of_w.taps, 1), taps_r = max(of_h.taps, 1), taps_t = max(of_d.taps, 1), first = thread / 32;
    int s = first % taps_s, r = first / taps_s % taps_r;
    int t = first / (taps_s * taps_r) % taps_t, k = first / (taps_s * taps_r * taps_t);
    int add_s = APART % taps_s, add_r = APART / taps_s % taps_r;
    int add_t = APART / (taps_s * taps_r) % taps_t, add_k = APART / (taps_s * taps_r * taps_t);
    // END SOLUTION

    // TODO(10): the pipeline of the first kernel. A lane copies four weights at a time, neighbours in memory.
    // BEGIN SOLUTION
    int depth = C_out * of_d.taps * of_h.taps * of_w.taps, steps = (depth + BK - 1) / BK;
    int x = thread % (BN / 8), y = thread / (BN / 8);
    for (int step = 1 - STAGES; step < steps; step++) {
        if (step >= 0) {
            wait_copies<STAGES - 2>();
            __syncthreads();
        }
        int next = step + STAGES - 1, to = next % STAGES;
        if (next < steps) {
            for (int row = first; row < BK; row += APART) {
                bool exists = k < C_out;
                int tap = (k * T + of_d.first + t * stride_d) * R + of_h.first + r * stride_h;
                tap = tap * S + of_w.first + s * stride_w;
                for (int c = 4 * lane; c < BM; c += 128) {
                    int there = exists ? min(max(C_in - top - c, 0), 4) : 0;
                    copy4_async(&filters[to][row][c], weights + tap * C_in + top + c, there, C_in % 4 == 0);
                }
                const float* from = grad_output + ((k * D_out - t) * H_out - r) * W_out - s;
                for (int i = 0; i < BN / 32; i++) {  // unsigned, an index below 0 is large
                    bool inside = (unsigned)(o[i] - t) < D_out && (unsigned)(p[i] - r) < H_out;
                    inside = inside && (unsigned)(q[i] - s) < W_out && exists;
                    copy_async(&grads[to][row][lane + 32 * i], from + image[i], inside);
                }
                s += add_s, r += add_r, t += add_t, k += add_k;
                if (s >= taps_s) s -= taps_s, r++;
                if (r >= taps_r) r -= taps_r, t++;
                if (t >= taps_t) t -= taps_t, k++;
            }
        }
        commit_copies();
        if (step < 0) continue;
#pragma unroll
        for (int j = 0; j < BK; j++) {
            const float* f = &filters[step % STAGES][j][4 * y];
            __align__(16) float a[8];
            for (int i = 0; i < 8; i += 4) {
                *reinterpret_cast<float4*>(&a[i]) = *reinterpret_cast<const float4*>(&f[i / 4 * BM / 2]);
            }
            for (int i = 0; i < 8; i++) {
                float b = grads[step % STAGES][j][x + BN / 8 * i];
                for (int m = 0; m < 8; m++) sum[m][i] += a[m] * b;
            }
        }
    }
    // END SOLUTION

    // TODO(11): store the sums that have a place: thread x has every (BN / 8)th element from x on.
    // BEGIN SOLUTION
    for (int i = 0; i < 8; i++) {
        int n = left + x + BN / 8 * i;
        if (n >= width) break;
        int w = class_w + n % of_w.count * stride_w, h = class_h + n / of_w.count % of_h.count * stride_h;
        int d = class_d + n / plane % of_d.count * stride_d, b = n / (plane * of_d.count);
        for (int m = 0; m < 8; m++) {
            int c = top + m / 4 * BM / 2 + 4 * y + m % 4;
            if (c < C_in) grad_input[(((b * C_in + c) * D + d) * H + h) * W + w] = sum[m][i];
        }
    }
    // END SOLUTION
}
