// Puzzle 42: half2, a convolution's weight gradient from halves, two at a time.
//
// What to do: write the loss's gradients as halves, multiplied by `scale` so that the small ones do not become 0.
// Then the gradient of the weights from halves: two products with one instruction, sums in half for RUN steps
// at most, in float from then on, and the scale divided out again. You will write about 51 lines.
//
// Check: backwarp grade 42    Stuck: backwarp hint 42    Start again: backwarp reset 42

#include <cuda_fp16.h>

constexpr int F = 5;          // a filter has F x F weights
constexpr int THREADS = 128;  // of a block
constexpr int RUN = 64;       // steps that are added up in half

extern "C" __global__ void scale_to_half(
    const float* grad,  // [n]
    __half* scaled,     // [n], yours to fill: grad * scale
    int* overflow,      // [1], 0 before the launch; 1 after it if a half of `scaled` is not finite
    float scale, int n) {
    // TODO(1): two elements for each thread, with one load, one conversion and one store; n may be odd.
    // BEGIN SOLUTION
    int i = 2 * (blockIdx.x * THREADS + threadIdx.x);
    if (i >= n) return;
    float2 two = i + 1 < n ? *reinterpret_cast<const float2*>(grad + i) : make_float2(grad[i], 0.0f);
    __half2 both = __floats2half2_rn(scale * two.x, scale * two.y);
    if (i + 1 < n) {
        *reinterpret_cast<__half2*>(scaled + i) = both;
    } else {
        scaled[i] = __low2half(both);
    }
    if (!isfinite(__low2float(both)) || !isfinite(__high2float(both))) atomicExch(overflow, 1);
    // END SOLUTION
}

// Elements i to i + 2 N - 1 of x, in pairs; 0 for the very last where `whole` is false: it is not there.
template <int N>
__device__ void load_pairs(const __half* x, int i, bool whole, __half2* pairs) {
    // TODO(2): a load for each pair where a __half2 may begin at i; where it may not, half by half.
    // BEGIN STUB
    // for (int j = 0; j < N; j++) pairs[j] = __float2half2_rn(0.0f);
    // END STUB
    // BEGIN SOLUTION
    if (whole && i % 2 == 0) {
        for (int j = 0; j < N; j++) pairs[j] = reinterpret_cast<const __half2*>(x + i)[j];
        return;
    }
    for (int j = 0; j < N; j++) {
        bool both = whole || j < N - 1;
        pairs[j] = __halves2half2(x[i + 2 * j], both ? x[i + 2 * j + 1] : __float2half(0.0f));
    }
    // END SOLUTION
}

extern "C" __global__ void conv2d_backward_weights_half2(
    const __half* __restrict__ grad_output,  // [batch, C_out, H_out, W_out], times scale
    const __half* __restrict__ input,        // [batch, C_in, H, W]
    float* __restrict__ grad_weights,        // [C_out, C_in, F, F], yours to fill, without the scale
    float scale, int batch, int C_in, int H, int W, int C_out) {
    __shared__ float shares[THREADS / 32][F * F];
    int H_out = H - F + 1, W_out = W - F + 1, across = (W_out + 1) / 2;  // across: pairs of a row of grad_output
    int t = threadIdx.x, c = blockIdx.x % C_in, k = blockIdx.x / C_in;
    // TODO(3): F * F sums of two halves each, over this thread's share of all pairs. For odd s the two inputs
    //          of a product are halves of two pairs. After RUN steps, and at the end, the sums go on in float.
    // BEGIN SOLUTION
    float sum[F * F] = {};
    __half2 run[F * F];
    int last = batch * H_out * across, steps = 0;
    for (int i = t; i < last; i += THREADS) {
        int q = i % across * 2, p = i / across % H_out, b = i / (across * H_out);
        bool whole = q + 1 < W_out;
        if (steps == 0) {
            for (int j = 0; j < F * F; j++) run[j] = __float2half2_rn(0.0f);
        }
        __half2 grad, own[F / 2 + 1];
        load_pairs<1>(grad_output, ((b * C_out + k) * H_out + p) * W_out + q, whole, &grad);
        for (int r = 0; r < F; r++) {
            load_pairs<F / 2 + 1>(input, ((b * C_in + c) * H + p + r) * W + q, whole, own);
            for (int s = 0; s < F; s++) {
                __half2 x = own[s / 2];
                if (s % 2) x = __halves2half2(__high2half(x), __low2half(own[s / 2 + 1]));
                run[r * F + s] = __hfma2(grad, x, run[r * F + s]);
            }
        }
        if (++steps == RUN || i + THREADS >= last) {
            for (int j = 0; j < F * F; j++) sum[j] += __low2float(run[j]) + __high2float(run[j]);
            steps = 0;
        }
    }
    // END SOLUTION

    // TODO(4): add up the sums of the block, as in puzzle 41, and divide by the scale.
    // BEGIN SOLUTION
    for (int j = 0; j < F * F; j++) {
        for (int apart = 16; apart > 0; apart /= 2) sum[j] += __shfl_down_sync(0xffffffff, sum[j], apart);
        if (t % 32 == 0) shares[t / 32][j] = sum[j];
    }
    __syncthreads();
    if (t >= F * F) return;
    float all = 0.0f;
    for (int warp = 0; warp < THREADS / 32; warp++) all += shares[warp][t];
    grad_weights[(k * C_in + c) * F * F + t] = all / scale;
    // END SOLUTION
}
