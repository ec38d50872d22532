// Puzzle 33: the gradient of grouped weights, all groups in one launch, and the depthwise case in one pass.
//
// What to do: the first kernel is that of puzzle 32 without splits: blockIdx.y is the group. The second
// is for one channel in a group. A block walks over all images of its channel, ROWS rows of grad_output
// at a time; the input's rows go into a ring in shared memory, where they stay as long as they are
// needed. So it reads each element once. You will write about 48 lines.
//
// Check: backwarp grade 33    Stuck: backwarp hint 33    Start again: backwarp reset 33

constexpr int TILE = 16;   // grouped: a block has TILE x TILE threads and computes TILE x TILE sums
constexpr int LANES = 16;  // depthwise: threads that share a weight
constexpr int ROWS = 4;    // depthwise: rows of grad_output in shared memory

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
    int x = threadIdx.x, y = threadIdx.y, c = blockIdx.x;
    int thread = y * LANES + x, threads = blockDim.y * LANES;
    int filters = C_out / C_in, weights = filters * R * S;        // of this channel
    int keep = (ROWS - 1) * stride_h + (R - 1) * dilation_h + 1;  // rows of the input under ROWS rows
    extern __shared__ float pixels[];                             // [keep][W], row h at h % keep
    float* grads = pixels + keep * W;                             // [filters][ROWS][W_out]
    float* sums = grads + filters * ROWS * W_out;                 // [weights][LANES + 1]
    // TODO(2): set this thread's sums to 0. For every image and every ROWS rows: fetch the rows of the
    //          input that are new and the rows of grad_output; wait; add to the sums; wait.
    // BEGIN SOLUTION
    for (int i = y; i < weights; i += blockDim.y) sums[i * (LANES + 1) + x] = 0.0f;
    for (int b = 0; b < batch; b++) {
        int next = 0;  // the first row that was not fetched yet
        for (int start = 0; start < H_out; start += ROWS) {
            int rows = min(ROWS, H_out - start);
            int top = start * stride_h - pad_h, end = min(top + keep, H);
            for (int i = max(next, top) * W + thread; i < end * W; i += threads) {
                pixels[i % (keep * W)] = input[(b * C_in + c) * H * W + i];
            }
            next = max(end, 0);
            for (int f = 0; f < filters; f++) {
                int first = ((b * C_out + c * filters + f) * H_out + start) * W_out;
                for (int i = thread; i < rows * W_out; i += threads) {
                    grads[f * ROWS * W_out + i] = grad_output[first + i];
                }
            }
            __syncthreads();  // all rows are there
            for (int i = y; i < weights; i += blockDim.y) {
                int s = i % S, r = i / S % R, f = i / (S * R);
                float sum = 0.0f;
                for (int p = 0; p < rows; p++) {
                    int h = top + p * stride_h + r * dilation_h;
                    if (h < 0 || h >= H) continue;
                    for (int q = x; q < W_out; q += LANES) {
                        int w = q * stride_w - pad_w + s * dilation_w;
                        if (w >= 0 && w < W) sum += grads[(f * ROWS + p) * W_out + q] * pixels[h % keep * W + w];
                    }
                }
                sums[i * (LANES + 1) + x] += sum;
            }
            __syncthreads();  // nobody needs the oldest any more
        }
    }
    // END SOLUTION

    // TODO(3): add up the LANES sums of each weight.
    // BEGIN SOLUTION
    for (int i = thread; i < weights; i += threads) {
        float sum = 0.0f;
        for (int lane = 0; lane < LANES; lane++) {
            sum += sums[i * (LANES + 1) + lane];
        }
        grad_weights[c * weights + i] = sum;
    }
    // END SOLUTION
}
