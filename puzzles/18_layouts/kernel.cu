// Puzzle 18: the same numbers in another order: images and filters change their layout.
//
// What to do: every thread of the first four kernels writes one element of the output;
// it splits its number by the output's axes and reads the element from its old place.
// A thread of the last kernel moves a block of 4 x 4 elements, four at a time.
// You will write about 52 lines.
//
// Check: backwarp grade 18    Stuck: backwarp hint 18    Start again: backwarp reset 18

extern "C" __global__ void nchw_to_nhwc(
    const float* input, float* output,  // [batch, C, H, W] -> [batch, H, W, C]
    int batch, int C, int H, int W) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(1): split idx by the axes of output, and read the element that belongs there.
}

extern "C" __global__ void nhwc_to_nchw(
    const float* input, float* output,  // [batch, H, W, C] -> [batch, C, H, W]
    int batch, int C, int H, int W) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(2): the other direction.
}

extern "C" __global__ void kcrs_to_rsck(
    const float* weights, float* output,  // [K, C, R, S] -> [R, S, C, K]
    int K, int C, int R, int S) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(3): the same for filters.
}

extern "C" __global__ void rsck_to_kcrs(
    const float* weights, float* output,  // [R, S, C, K] -> [K, C, R, S]
    int K, int C, int R, int S) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(4): the other direction.
}

extern "C" __global__ void transpose_float4(
    const float* input, float* output,  // [batch, rows, columns] -> [batch, columns, rows]
    int batch, int rows, int columns) {
    int across = (columns + 3) / 4, down = (rows + 3) / 4;  // blocks of 4 x 4
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(5): find the block: its image n, first row, first column; columns change fastest.

    // TODO(6): where rows or columns is not a multiple of 4, move the block element by element.

    // TODO(7): otherwise load four float4, one per row; store four float4, one per column.
}
