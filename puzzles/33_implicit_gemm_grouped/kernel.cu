// Puzzle 33: the gradient of grouped weights, all groups in one launch, and the depthwise case in one pass.
//
// What to do: the first kernel is that of puzzle 32 without splits; blockIdx.y is the group. The second is
// for groups of one channel. A block walks over all images of its channel, ROWS rows of grad_output at a
// time. The input's rows go into a ring in shared memory and stay there while they are needed, so each
// element is read once. You will write about 62 lines.
//
// Check: backwarp grade 33    Stuck: backwarp hint 33    Start again: backwarp reset 33

constexpr int TILE = 16;      // grouped: a block has TILE x TILE threads and computes TILE x TILE sums
constexpr int THREADS = 128;  // depthwise: threads of a block, a multiple of 32
constexpr int ROWS = 8;       // depthwise: rows of grad_output from one barrier to the next

extern "C" __global__ void conv2d_backward_weights_grouped(
    const float* grad_output, const float* input,
    float* grad_weights,  // [C_out, C_in / groups, R, S], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int x = threadIdx.x, y = threadIdx.y, group = blockIdx.y;
    // TODO(1): compute tile blockIdx.x of the group's own product.
}

extern "C" __global__ void conv2d_backward_weights_depthwise(
    const float* grad_output, const float* input,
    float* grad_weights,  // [C_out, 1, R, S], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int thread = threadIdx.x, c = blockIdx.x;
    int filters = C_out / C_in, weights = filters * R * S;        // of channel c
    int keep = (ROWS - 1) * stride_h + (R - 1) * dilation_h + 1;  // rows of the input that ROWS rows meet
    extern __shared__ float pixels[];                             // [keep][W], row h at h % keep
    float* sums = pixels + keep * W;                              // [weights][THREADS]
    // TODO(2): set this thread's sums to 0. For every image and every ROWS rows of grad_output: fetch the
    //          rows of the input that are new; wait; let each element add its products; wait.

    // TODO(3): let each warp add up the sums of its weights, and store them.
}
