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
    // BEGIN SOLUTION
    if (idx >= batch * C * H * W) return;
    int c = idx % C;
    int w = idx / C % W;
    int h = idx / (C * W) % H;
    int n = idx / (C * W * H);
    output[idx] = input[((n * C + c) * H + h) * W + w];
    // END SOLUTION
}

extern "C" __global__ void nhwc_to_nchw(
    const float* input, float* output,  // [batch, H, W, C] -> [batch, C, H, W]
    int batch, int C, int H, int W) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(2): the other direction.
    // BEGIN SOLUTION
    if (idx >= batch * C * H * W) return;
    int w = idx % W;
    int h = idx / W % H;
    int c = idx / (W * H) % C;
    int n = idx / (W * H * C);
    output[idx] = input[((n * H + h) * W + w) * C + c];
    // END SOLUTION
}

extern "C" __global__ void kcrs_to_rsck(
    const float* weights, float* output,  // [K, C, R, S] -> [R, S, C, K]
    int K, int C, int R, int S) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(3): the same for filters.
    // BEGIN SOLUTION
    if (idx >= K * C * R * S) return;
    int k = idx % K;
    int c = idx / K % C;
    int s = idx / (K * C) % S;
    int r = idx / (K * C * S);
    output[idx] = weights[((k * C + c) * R + r) * S + s];
    // END SOLUTION
}

extern "C" __global__ void rsck_to_kcrs(
    const float* weights, float* output,  // [R, S, C, K] -> [K, C, R, S]
    int K, int C, int R, int S) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(4): the other direction.
    // BEGIN SOLUTION
    if (idx >= K * C * R * S) return;
    int s = idx % S;
    int r = idx / S % R;
    int c = idx / (S * R) % C;
    int k = idx / (S * R * C);
    output[idx] = weights[((r * S + s) * C + c) * K + k];
    // END SOLUTION
}

extern "C" __global__ void transpose_float4(
    const float* input, float* output,  // [batch, rows, columns] -> [batch, columns, rows]
    int batch, int rows, int columns) {
    int across = (columns + 3) / 4, down = (rows + 3) / 4;  // blocks of 4 x 4
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(5): find the block: its image n, first row, first column; columns change fastest.
    // BEGIN SOLUTION
    if (idx >= batch * down * across) return;
    int column = idx % across * 4;
    int row = idx / across % down * 4;
    int n = idx / (across * down);
    const float* from = input + (n * rows + row) * columns + column;
    float* to = output + (n * columns + column) * rows + row;
    // END SOLUTION

    // TODO(6): where rows or columns is not a multiple of 4, move the block element by element.
    // BEGIN SOLUTION
    if (rows % 4 != 0 || columns % 4 != 0) {
        for (int i = 0; i < 4 && row + i < rows; i++) {
            for (int j = 0; j < 4 && column + j < columns; j++) {
                to[j * rows + i] = from[i * columns + j];
            }
        }
        return;
    }
    // END SOLUTION

    // TODO(7): otherwise load four float4, one per row; store four float4, one per column.
    // BEGIN SOLUTION
    float4 a = *(const float4*)from;
    float4 b = *(const float4*)(from + columns);
    float4 c = *(const float4*)(from + 2 * columns);
    float4 d = *(const float4*)(from + 3 * columns);
    *(float4*)to = make_float4(a.x, b.x, c.x, d.x);
    *(float4*)(to + rows) = make_float4(a.y, b.y, c.y, d.y);
    *(float4*)(to + 2 * rows) = make_float4(a.z, b.z, c.z, d.z);
    *(float4*)(to + 3 * rows) = make_float4(a.w, b.w, c.w, d.w);
    // END SOLUTION
}
