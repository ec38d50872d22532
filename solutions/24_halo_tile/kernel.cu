// Puzzle 24: halo_tile, a convolution whose blocks share what they read.
//
// What to do: puzzle 07 again, one thread per output. The threads of a block have
// HEIGHT x WIDTH neighbouring outputs of one channel. Channel by channel they copy
// the part of the input that all of them need into shared memory, wait, use it,
// and wait again. The weights are in constant memory. You will write about 22 lines.
//
// Check: backwarp grade 24    Stuck: backwarp hint 24    Start again: backwarp reset 24

constexpr int WIDTH = 32;  // of a block: outputs in a row, neighbours in a warp
constexpr int HEIGHT = 8;

__constant__ float weights[4096];  // [C_out, C_in, F, F]; the grader copies them here before a launch

extern "C" __global__ void conv2d_forward(
    const float* input,  // [batch, C_in, H, W]
    const float* bias,   // [C_out]
    float* output,       // [batch, C_out, H_out, W_out], yours to fill
    int batch, int C_in, int H, int W, int C_out, int F) {
    extern __shared__ float tile[];  // down x across, as many elements as the launch asks for
    int down = HEIGHT + F - 1, across = WIDTH + F - 1;
    int H_out = H - F + 1;
    int W_out = W - F + 1;
    int x = threadIdx.x, y = threadIdx.y;
    // TODO(1): compute this thread's column q and row p; its channel k and image b, from the
    //          block's z, in which k changes fastest.
    // BEGIN SOLUTION
    int left = blockIdx.x * WIDTH, top = blockIdx.y * HEIGHT;
    int q = left + x, p = top + y;
    int k = blockIdx.z % C_out, b = blockIdx.z / C_out;
    bool has_output = p < H_out && q < W_out;
    // END SOLUTION

    // TODO(2): for every channel c: fill the tile, as far as the input goes, and add up
    //          weight * tile over r and s. Start from the bias.
    // BEGIN SOLUTION
    float sum = bias[k];
    for (int c = 0; c < C_in; c++) {
        for (int i = y; i < down && top + i < H; i += HEIGHT) {
            for (int j = x; j < across && left + j < W; j += WIDTH) {
                tile[i * across + j] = input[((b * C_in + c) * H + top + i) * W + left + j];
            }
        }
        __syncthreads();  // the tile is full
        for (int r = 0; r < F && has_output; r++) {
            for (int s = 0; s < F; s++) {
                sum += weights[((k * C_in + c) * F + r) * F + s] * tile[(y + r) * across + x + s];
            }
        }
        __syncthreads();  // nobody needs it any more
    }
    // END SOLUTION

    // TODO(3): store the sum, if there is such an output.
    // BEGIN SOLUTION
    if (has_output) output[((b * C_out + k) * H_out + p) * W_out + q] = sum;
    // END SOLUTION
}
