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
    // BEGIN SOLUTION
    int groups = (C_out + FILTERS - 1) / FILTERS;
    int first = blockIdx.z % groups * FILTERS, b = blockIdx.z / groups;
    int q = blockIdx.x * WIDTH + x, p = blockIdx.y * HEIGHT + y;
    int top = 2 * blockIdx.y * HEIGHT, left = 2 * blockIdx.x * WIDTH;
    bool has_output = p < H_pool && q < W_pool;
    // END SOLUTION

    // TODO(2): the sums, four for each filter, begin with the bias. For every channel: fill the tile, copy this
    //          thread's 6 x 6 inputs into variables of its own, two at a time, and add to all sums.
    // BEGIN SOLUTION
    float sum[FILTERS][2][2];
    for (int f = 0; f < FILTERS; f++) {
        float start = first + f < C_out ? bias[first + f] : 0.0f;
        sum[f][0][0] = sum[f][0][1] = sum[f][1][0] = sum[f][1][1] = start;
    }
    for (int c = 0; c < C_in; c++) {
        for (int i = y; i < DOWN && top + i < H; i += HEIGHT) {
            for (int j = x; j < ACROSS && left + j < W; j += WIDTH) {
                tile[i][j] = input[((b * C_in + c) * H + top + i) * W + left + j];
            }
        }
        __syncthreads();  // the tile is full
        if (has_output) {
            float own[F + 1][F + 1];
            for (int i = 0; i <= F; i++) {
                for (int j = 0; j <= F; j += 2) {
                    float2 two = *reinterpret_cast<const float2*>(&tile[2 * y + i][2 * x + j]);
                    own[i][j] = two.x, own[i][j + 1] = two.y;
                }
            }
            for (int f = 0; f < FILTERS; f++) {
                if (first + f >= C_out) break;
                const float* filter = weights + ((first + f) * C_in + c) * F * F;
                for (int r = 0; r < F; r++) {
                    for (int s = 0; s < F; s++) {
                        float w = filter[r * F + s];
                        sum[f][0][0] += w * own[r][s];
                        sum[f][0][1] += w * own[r][s + 1];
                        sum[f][1][0] += w * own[r + 1][s];
                        sum[f][1][1] += w * own[r + 1][s + 1];
                    }
                }
            }
        }
        __syncthreads();  // nobody needs it any more
    }
    // END SOLUTION

    // TODO(3): store the largest of the four sums of every filter and its place h * W_out + w in the plane of the
    //          convolution; where it is not above 0, store 0 and -1.
    // BEGIN SOLUTION
    if (!has_output) return;
    for (int f = 0; f < FILTERS; f++) {
        if (first + f >= C_out) break;
        float best = 0.0f;
        int at = -1;
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < 2; j++) {
                if (sum[f][i][j] > best) best = sum[f][i][j], at = (2 * p + i) * W_out + 2 * q + j;
            }
        }
        int idx = ((b * C_out + first + f) * H_pool + p) * W_pool + q;
        output[idx] = best;
        places[idx] = at;
    }
    // END SOLUTION
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
    // BEGIN SOLUTION
    float sum[F * F] = {};
    for (int i = t; i < batch * outputs; i += THREADS) {
        int b = i / outputs, idx = (b * C_out + k) * outputs + i % outputs;
        int at = places[idx];
        if (at < 0) continue;
        float grad = grad_output[idx];
        const float* window = input + ((b * C_in + c) * H + at / W_out) * W + at % W_out;
        for (int r = 0; r < F; r++) {
            for (int s = 0; s < F; s++) sum[r * F + s] += grad * window[r * W + s];
        }
    }
    // END SOLUTION

    // TODO(5): add up the sums of the block: in each warp with shuffles, then over the warps.
    // BEGIN SOLUTION
    for (int j = 0; j < F * F; j++) {
        for (int apart = 16; apart > 0; apart /= 2) sum[j] += __shfl_down_sync(0xffffffff, sum[j], apart);
        if (t % 32 == 0) shares[t / 32][j] = sum[j];
    }
    __syncthreads();
    if (t >= F * F) return;
    float all = 0.0f;
    for (int warp = 0; warp < THREADS / 32; warp++) all += shares[warp][t];
    grad_weights[(k * C_in + c) * F * F + t] = all;
    // END SOLUTION
}
