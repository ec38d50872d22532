// Puzzle 39: against_cudnn, the forward convolution as libraries compute it, in float and on tensor cores.
//
// What to do: the implicit product of puzzle 30, with the 64 sums per thread of puzzle 27 and the copies of
// puzzle 34; then the same layer in the layout that tensor cores like, with the fragments of puzzle 35; then, in the
// first kernel's tiles, the gradient of the input in one to three dimensions, by puzzle 31's classes.
// Sizes need not be multiples of anything. You will write about 210 lines.
//
// Check: backwarp grade 39    Stuck: backwarp hint 39    Start again: backwarp reset 39

#include "async.cuh"
#include "mma.cuh"

// A block computes BM filters at BN positions, with STAGES pairs of tiles in shared memory.
constexpr int BM = 128, BN = 128, STAGES = 3;
constexpr int NOWHERE = -(1 << 30);  // a row that is in no image
// First kernel: a step has BK rows of the matrix; a thread has 8 x 8 sums.
constexpr int BK = 8, THREADS = BM / 8 * (BN / 8);
// Second kernel: a step has PIECES of 4 channels; a warp has WM filters at WN positions.
constexpr int PIECES = 4, WM = 64, WN = 64, WARPS = BM / WM * (BN / WN);

extern "C" __global__ void __launch_bounds__(THREADS, 2) conv2d_forward_float(
    const float* input,    // [batch, C_in, H, W]
    const float* weights,  // [C_out, C_in, R, S]
    const float* bias,     // [C_out]
    float* output,         // [batch, C_out, H_out, W_out], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int rows = C_in * R * S, plane = H_out * W_out, width = batch * plane;
    int t = threadIdx.x, top = blockIdx.y * BM, left = blockIdx.x * BN;

    // TODO(1): declare the tiles, rows of the matrix by filters and by positions, and the sums. A warp copies the
    //          pixels of one row, a lane those of every 32nd position: find their patches, and (c, r, s) of the
    //          row. A thread copies the weights of every 32nd filter, in row t % BK.

    // TODO(2): the pipeline of puzzle 34: wait, meet, start the copies of the step STAGES - 1 later, multiply.

    // TODO(3): store the sums and the bias: four neighbours with one write where every plane of the output
    //          begins at a multiple of 16 bytes, else one by one.
}

// Where a piece, 4 floats, begins in a tile whose rows have PIECES of them.
__device__ int place(int row, int piece) {
    // TODO(4): move the pieces within their row, so that the same piece of 8 rows lies in all the banks.
    return (row * PIECES + piece) * 4;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 2) conv2d_forward_tf32(
    const float* input,    // [batch, H, W, C_in]
    const float* weights,  // [C_out, R, S, C_in]
    const float* bias,     // [C_out]
    float* output,         // [batch, H_out, W_out, C_out], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int width = batch * H_out * W_out, fours = (C_in + 3) / 4, pieces = R * S * fours;  // in a row
    int t = threadIdx.x, lane = t % 32, warp = t / 32, top = blockIdx.y * BM, left = blockIdx.x * BN;

    // TODO(5): declare the tiles, in pieces, and the sums of the warp: WM / 16 times WN / 8 products of 16 x 8.
    //          A thread copies piece t % PIECES of every 32nd row of both tiles: find (r, s, four) of its
    //          first piece, and the patches of its positions.

    // TODO(6): the pipeline again, with copy4_async; for every two pieces, load the warp's fragments with
    //          ldmatrix_x4, round them, and multiply each of A with each of B.

    // TODO(7): store the sums that have a place, with the bias.
}

// One direction of a class, as in puzzle 31.
struct Axis { int count, first, taps, ahead; };

__device__ Axis axis(int at, int size, int filter, int stride, int pad) {
    // TODO(8): yours of puzzle 31.
    return {};
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) conv_nd_backward_input(
    const float* grad_output,  // [batch, C_out, D_out, H_out, W_out]
    const float* weights,      // [C_out, T, R, S, C_in]
    float* grad_input,         // [batch, C_in, D, H, W], yours to fill
    int batch, int C_in, int D, int H, int W, int C_out, int T, int R, int S,
    int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w) {
    int D_out = (D + 2 * pad_d - T) / stride_d + 1;
    int H_out = (H + 2 * pad_h - R) / stride_h + 1;
    int W_out = (W + 2 * pad_w - S) / stride_w + 1;
    int thread = threadIdx.x, lane = thread % 32, down = (C_in + BM - 1) / BM;
    int top = blockIdx.x % down * BM, left = blockIdx.x / down * BN;

    // TODO(9): blockIdx.y counts the classes, those of w fastest: find its directions, and let the block leave if the
    //          class has no such tile. Declare tiles and sums. A warp copies one row of both tiles, all taps of a
    //          filter before the next filter: find (k, t, r, s) of its first one, and where its lanes' elements are.

    // TODO(10): the pipeline of the first kernel. A lane copies four weights at a time, neighbours in memory.

    // TODO(11): store the sums that have a place: thread x has every (BN / 8)th element from x on.
}
