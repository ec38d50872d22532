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
    // BEGIN SOLUTION
    __shared__ float grads[TILE][TILE], windows[TILE][TILE + 1];
    int filters = C_out / groups, channels = C_in / groups;
    int columns = channels * R * S;
    int across = (columns + TILE - 1) / TILE;
    int k = blockIdx.x / across * TILE + y;
    int j = blockIdx.x % across * TILE + y;
    int s = j % S, r = j / S % R, c = j / (S * R);
    int positions = batch * H_out * W_out;
    float sum = 0.0f;
    for (int start = 0; start < positions; start += TILE) {
        int i = start + x;
        int q = i % W_out, p = i / W_out % H_out, b = i / (W_out * H_out);
        int h = p * stride_h - pad_h + r * dilation_h;
        int w = q * stride_w - pad_w + s * dilation_w;
        bool inside = j < columns && h >= 0 && h < H && w >= 0 && w < W;
        int filter = b * C_out + group * filters + k, channel = b * C_in + group * channels + c;
        grads[y][x] = i < positions && k < filters ? grad_output[(filter * H_out + p) * W_out + q] : 0.0f;
        windows[y][x] = i < positions && inside ? input[(channel * H + h) * W + w] : 0.0f;
        __syncthreads();  // both tiles are full
        for (int n = 0; n < TILE; n++) {
            sum += grads[y][n] * windows[x][n];
        }
        __syncthreads();  // nobody needs them any more
    }
    int column = j - y + x;
    if (k < filters && column < columns) grad_weights[(group * filters + k) * columns + column] = sum;
    // END SOLUTION
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
    // BEGIN SOLUTION
    for (int i = 0; i < weights; i++) sums[i * THREADS + thread] = 0.0f;
    for (int b = 0; b < batch; b++) {
        int next = 0;  // the first row that is not in the ring
        for (int start = 0; start < H_out; start += ROWS) {
            int top = start * stride_h - pad_h, end = min(top + keep, H);
            for (int i = max(next, top) * W + thread; i < end * W; i += THREADS) {
                pixels[i % (keep * W)] = input[(b * C_in + c) * H * W + i];
            }
            next = max(end, 0);
            __syncthreads();  // the new rows are there
            for (int n = thread; n < min(ROWS, H_out - start) * W_out; n += THREADS) {
                int p = start + n / W_out, q = n % W_out;
                for (int f = 0; f < filters; f++) {
                    float grad = grad_output[((b * C_out + c * filters + f) * H_out + p) * W_out + q];
                    for (int r = 0; r < R; r++) {
                        int h = p * stride_h - pad_h + r * dilation_h;
                        if (h < 0 || h >= H) continue;
                        const float* row = pixels + h % keep * W;
                        float* own = sums + (f * R + r) * S * THREADS + thread;
#pragma unroll 1  // S is small: of a loop unrolled by 4 mostly the rest would run
                        for (int s = 0; s < S; s++) {
                            int w = q * stride_w - pad_w + s * dilation_w;
                            if (w >= 0 && w < W) own[s * THREADS] += grad * row[w];
                        }
                    }
                }
            }
            __syncthreads();  // nobody needs the oldest rows any more
        }
    }
    // END SOLUTION

    // TODO(3): let each warp add up the sums of its weights, and store them.
    // BEGIN SOLUTION
    for (int i = thread / 32; i < weights; i += THREADS / 32) {
        float sum = 0.0f;
        for (int n = thread % 32; n < THREADS; n += 32) {
            sum += sums[i * THREADS + n];
        }
        for (int offset = 16; offset > 0; offset /= 2) {
            sum += __shfl_down_sync(0xffffffff, sum, offset);
        }
        if (thread % 32 == 0) grad_weights[c * weights + i] = sum;
    }
    // END SOLUTION
}
