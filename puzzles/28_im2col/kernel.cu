// Puzzle 28: im2col, the image as a matrix whose columns are patches.
//
// What to do: write what lies under every tap of the filter, at every position,
// into a matrix: one row for each tap (c, r, s), one column for each position
// (b, p, q). One thread copies one patch: the R x S elements under the filter in
// one channel at one position, with 0 for the padding. Which thread takes which
// patch is up to you. You will write about 17 lines.
//
// Check: backwarp grade 28    Stuck: backwarp hint 28    Start again: backwarp reset 28

extern "C" __global__ void im2col(
    const float* input,  // [batch, C_in, H, W]
    float* columns,      // [C_in * R * S, batch * H_out * W_out], yours to fill
    int batch, int C_in, int H, int W, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int width = batch * H_out * W_out;  // of the matrix
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= C_in * width) return;

    // TODO(1): split idx into the channel c and the position (b, p, q) of this thread's patch, so
    //          that threads next to each other write elements next to each other.

    // TODO(2): for every tap, write the element under it, or 0, into the tap's row.
}
