// Puzzle 30: implicit GEMM, the convolution as a product with a matrix that is never stored.
//
// What to do: the tiled product of puzzle 26, of the weights [C_out, rows] and the
// column matrix [rows, width] of puzzle 28. But there is no such matrix: when a
// thread fills its place in a tile, it computes where in the image this element
// would have come from, and reads it there. Rows are taps (c, r, s), columns are
// positions (b, p, q). You will write about 24 lines.
//
// Check: backwarp grade 30    Stuck: backwarp hint 30    Start again: backwarp reset 30

constexpr int TILE = 16;  // a block has TILE x TILE threads: TILE filters at TILE positions

extern "C" __global__ void implicit_gemm_forward(
    const float* input,    // [batch, C_in, H, W]
    const float* weights,  // [C_out, C_in, R, S]
    const float* bias,     // [C_out]
    float* output,         // [batch, C_out, H_out, W_out], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int rows = C_in * R * S, width = batch * H_out * W_out;  // of the matrix
    int x = threadIdx.x, y = threadIdx.y;

    // TODO(1): declare the two tiles. Compute this thread's filter and column; split the column into
    //          (b, p, q), and find the upper left corner of the patch: all that does not change later.
    // BEGIN SOLUTION
    __shared__ float filters[TILE][TILE], patches[TILE][TILE];
    int k = blockIdx.y * TILE + y;
    int column = blockIdx.x * TILE + x;
    int q = column % W_out;
    int p = column / W_out % H_out;
    int b = column / (W_out * H_out);
    int top = p * stride_h - pad_h;
    int left = q * stride_w - pad_w;
    // END SOLUTION

    // TODO(2): for every stretch of TILE rows, fill both tiles, with 0 where there is no weight, no
    //          position or no pixel, and add up the products of the tiles.
    // BEGIN SOLUTION
    float sum = 0.0f;
    for (int start = 0; start < rows; start += TILE) {
        filters[y][x] = k < C_out && start + x < rows ? weights[k * rows + start + x] : 0.0f;
        int row = start + y;
        int s = row % S, r = row / S % R, c = row / (S * R);
        int h = top + r * dilation_h;
        int w = left + s * dilation_w;
        bool inside = row < rows && column < width && h >= 0 && h < H && w >= 0 && w < W;
        patches[y][x] = inside ? input[((b * C_in + c) * H + h) * W + w] : 0.0f;
        __syncthreads();  // both tiles are full
        for (int i = 0; i < TILE; i++) {
            sum += filters[y][i] * patches[i][x];
        }
        __syncthreads();  // nobody needs them any more
    }
    // END SOLUTION

    // TODO(3): store the sum and the bias, if there is such an output.
    // BEGIN SOLUTION
    if (k < C_out && column < width) output[((b * C_out + k) * H_out + p) * W_out + q] = bias[k] + sum;
    // END SOLUTION
}
