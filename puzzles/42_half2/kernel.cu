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
}

// Elements i to i + 2 N - 1 of x, in pairs; 0 for the very last where `whole` is false: it is not there.
template <int N>
__device__ void load_pairs(const __half* x, int i, bool whole, __half2* pairs) {
    // TODO(2): a load for each pair where a __half2 may begin at i; where it may not, half by half.
    for (int j = 0; j < N; j++) pairs[j] = __float2half2_rn(0.0f);
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

    // TODO(4): add up the sums of the block, as in puzzle 41, and divide by the scale.
}
