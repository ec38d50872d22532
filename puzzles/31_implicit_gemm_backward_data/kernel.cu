// Puzzle 31: the gradient of the input as dense matrix products, none of them stored.
//
// What to do: rows of the image that leave the same remainder when divided by the stride meet the
// same taps. So the image splits into stride_h * stride_w classes, and each is a dense product of its
// own. A block takes a tile of one class: TILE channels of TILE elements, walking over the channels k
// and the taps of the class, as in puzzle 26. You will write about 36 lines.
//
// Check: backwarp grade 31    Stuck: backwarp hint 31    Start again: backwarp reset 31

constexpr int TILE = 16;  // a block has TILE x TILE threads and computes TILE x TILE sums

extern "C" __global__ void conv2d_backward_input(
    const float* grad_output,  // [batch, C_out, H_out, W_out]
    const float* weights,      // [C_out, C_in, R, S]
    float* grad_input,         // [batch, C_in, H, W], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w) {
    int H_out = (H + 2 * pad_h - R) / stride_h + 1;
    int W_out = (W + 2 * pad_w - S) / stride_w + 1;
    int x = threadIdx.x, y = threadIdx.y;
    int class_h = blockIdx.y / stride_w, class_w = blockIdx.y % stride_w;  // remainders of h and w
    // TODO(1): find how many rows and columns of the image are in this class, and which taps meet them.

    // TODO(2): in tile blockIdx.x, find this thread's channel c and element n, and n's image, row and
    //          column within the class; let the block leave if its class has no such tile.

    // TODO(3): for every stretch of TILE products, fill a tile of weights and one of grad_output, with 0
    //          for what does not exist; wait; add up; wait. Store the sum, if there is such an element.
}
