// Puzzle 31: the gradient of the input as dense matrix products, none of them stored.
//
// What to do: rows of the image that leave the same remainder when divided by the stride meet the
// same taps. So the image splits into stride_h * stride_w classes, and each is a dense product of its
// own. A block takes a tile of one class: TILE channels of TILE elements, walking over the channels k
// and the taps of the class, as in puzzle 26. Then the same for sound, images and videos, with one mapping for all
// of them. You will write about 73 lines.
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

// One direction of a class: the number of its elements, its first tap and the number of its taps, and the position of
// element 0 under the first tap.
struct Axis { int count, first, taps, ahead; };

// at: the remainder that the class has in this direction. size: of the image; filter: taps of the whole filter.
__device__ Axis axis(int at, int size, int filter, int stride, int pad) {
    // TODO(4): the same in each direction.
    return {};
}

extern "C" __global__ void conv_nd_backward_input(
    const float* grad_output,  // [batch, C_out, D_out, H_out, W_out]
    const float* weights,      // [C_out, C_in, T, R, S]
    float* grad_input,         // [batch, C_in, D, H, W], yours to fill
    int batch, int C_in, int D, int H, int W, int C_out, int T, int R, int S,
    int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w) {
    int D_out = (D + 2 * pad_d - T) / stride_d + 1;
    int H_out = (H + 2 * pad_h - R) / stride_h + 1;
    int W_out = (W + 2 * pad_w - S) / stride_w + 1;
    int x = threadIdx.x, y = threadIdx.y, down = (C_in + TILE - 1) / TILE;
    int n = blockIdx.x / down * TILE + x, c = blockIdx.x % down * TILE + y;  // this thread's element and channel
    // TODO(5): blockIdx.y counts the classes of d, h and w, those of w fastest. Find its three directions, and let the
    //          block leave if its class has no such tile. Find n's image, and its place within the class.

    // TODO(6): the walk of TODO(3), with a third direction.
}
