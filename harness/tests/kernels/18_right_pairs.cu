// Lanes in pairs, one block below the other, so that every sector is written whole; loops over axes elsewhere.

__device__ void permute(const float* from, float* to, const int* sizes, const int* axes) {
    // element idx of the output, whose axis i is axis axes[i] of the input
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int steps[4] = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
    if (idx >= sizes[0] * steps[0]) return;
    int at = 0;
    for (int i = 3, left = idx; i >= 0; i--) {
        at += left % sizes[axes[i]] * steps[axes[i]];
        left /= sizes[axes[i]];
    }
    to[idx] = from[at];
}

__global__ void nchw_to_nhwc(const float* input, float* output, int batch, int C, int H, int W) {
    int sizes[4] = {batch, C, H, W}, axes[4] = {0, 2, 3, 1};
    permute(input, output, sizes, axes);
}

__global__ void nhwc_to_nchw(const float* input, float* output, int batch, int C, int H, int W) {
    int sizes[4] = {batch, H, W, C}, axes[4] = {0, 3, 1, 2};
    permute(input, output, sizes, axes);
}

__global__ void kcrs_to_rsck(const float* weights, float* output, int K, int C, int R, int S) {
    int sizes[4] = {K, C, R, S}, axes[4] = {2, 3, 1, 0};
    permute(weights, output, sizes, axes);
}

__global__ void rsck_to_kcrs(const float* weights, float* output, int K, int C, int R, int S) {
    int sizes[4] = {R, S, C, K}, axes[4] = {3, 2, 0, 1};
    permute(weights, output, sizes, axes);
}

__global__ void transpose_float4(const float* input, float* output, int batch, int rows, int columns) {
    int across = (columns + 3) / 4, down = (rows + 3) / 4;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * down * across) return;
    int tall = down % 2 ? 1 : 2;  // lanes below one another
    int row = (idx / (tall * across) % (down / tall) * tall + idx % tall) * 4;
    int column = idx / tall % across * 4;
    input += idx / (across * down) * rows * columns;
    output += idx / (across * down) * rows * columns;
    if (rows % 4 || columns % 4) {
        for (int i = row; i < min(row + 4, rows); i++)
            for (int j = column; j < min(column + 4, columns); j++) output[j * rows + i] = input[i * columns + j];
        return;
    }
    float4 block[4];
    const float* element = (const float*)block;
    for (int i = 0; i < 4; i++) block[i] = *(const float4*)&input[(row + i) * columns + column];
    for (int j = 0; j < 4; j++) {
        float4 stored = {element[j], element[4 + j], element[8 + j], element[12 + j]};
        *(float4*)&output[(column + j) * rows + row] = stored;
    }
}
