// Puzzle 41: fused_layer, a whole layer of LeNet in one kernel, and the way back to its weights.
//
// What to do: forward, convolution, bias, ReLU and 2 x 2 max pooling in one launch: a thread computes the
// four sums of one window of the pooling in registers, for FILTERS filters at once, and stores what is left of
// them. Backward, the gradient of the weights straight from the pooled gradient. You will write about 60 lines.
//
// Check: backwarp grade 41    Stuck: backwarp hint 41    Start again: backwarp reset 41

constexpr int F = 5;         // a filter has F x F weights
constexpr int WIDTH = 16;    // a block computes WIDTH x HEIGHT pooled outputs, one per thread,
constexpr int HEIGHT = 8;    // of FILTERS filters
constexpr int FILTERS = 3;
constexpr int THREADS = 128;  // of a block on the way back

__constant__ float weights[4096];  // [C_out, C_in, F, F]; the grader copies them here before a launch

extern "C" __global__ void fused_layer(
    const float* __restrict__ input,  // [batch, C_in, H, W]
    const float* __restrict__ bias,   // [C_out]
    float* __restrict__ output,       // [batch, C_out, H_pool, W_pool], yours to fill
    int* __restrict__ places,         // as output: where each maximum is, or -1
    int batch, int C_in, int H, int W, int C_out) {
    constexpr int DOWN = 2 * HEIGHT + F - 1, ACROSS = 2 * WIDTH + F - 1;
    __shared__ __align__(8) float tile[DOWN][ACROSS];
    int H_out = H - F + 1, W_out = W - F + 1;     // of the convolution
    int H_pool = H_out / 2, W_pool = W_out / 2;
    int x = threadIdx.x, y = threadIdx.y;
    // TODO(1): compute this thread's pooled output (p, q), the block's first filter and image from its z, in
    //          which the filters change fastest, and where the block's tile of the input begins.

    // TODO(2): the sums, four for each filter, begin with the bias. For every channel: fill the tile, copy this
    //          thread's 6 x 6 inputs into variables of its own, two at a time, and add to all sums.

    // TODO(3): store the largest of the four sums of every filter and its place h * W_out + w in the plane of the
    //          convolution; where it is not above 0, store 0 and -1.
}

extern "C" __global__ void fused_backward_weights(
    const float* __restrict__ grad_output,  // [batch, C_out, H_pool, W_pool]
    const int* __restrict__ places,         // as grad_output, from the forward pass
    const float* __restrict__ input,        // [batch, C_in, H, W]
    float* __restrict__ grad_weights,       // [C_out, C_in, F, F], yours to fill
    int batch, int C_in, int H, int W, int C_out) {
    __shared__ float shares[THREADS / 32][F * F];
    int W_out = W - F + 1, outputs = (H - F + 1) / 2 * (W_out / 2);  // outputs: of a plane after the pooling
    int t = threadIdx.x, c = blockIdx.x % C_in, k = blockIdx.x / C_in;
    // TODO(4): F * F sums in registers, over this thread's share of all pooled outputs of channel k; those
    //          with place -1 add nothing.

    // TODO(5): add up the sums of the block: in each warp with shuffles, then over the warps.
}
