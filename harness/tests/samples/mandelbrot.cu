// Iterations until a point escapes; a block takes tiles off a queue until there are none.

constexpr int TILE = 16;

__device__ unsigned queue = 0, blocks_done = 0;

__device__ int escape(float cx, float cy, int limit) {
    float x = 0.0f, y = 0.0f, xx = 0.0f, yy = 0.0f;
    int i = 0;
    while (i < limit && xx + yy < 4.0f) {
        y = __fadd_rn(__fmul_rn(__fmul_rn(2.0f, x), y), cy);
        x = __fadd_rn(__fsub_rn(xx, yy), cx);
        xx = __fmul_rn(x, x);
        yy = __fmul_rn(y, y);
        i++;
    }
    return i;
}

extern "C" __global__ void mandelbrot(unsigned short* image, int width, int height, float left, float top, float step, int limit) {
    __shared__ unsigned tile;
    int across = (width + TILE - 1) / TILE, tiles = across * ((height + TILE - 1) / TILE);
    while (true) {
        if (threadIdx.x == 0 && threadIdx.y == 0) tile = atomicAdd(&queue, 1);
        __syncthreads();
        int mine = tile;
        __syncthreads();
        if (mine >= tiles) break;
        int px = mine % across * TILE + threadIdx.x, py = mine / across * TILE + threadIdx.y;
        if (px < width && py < height)
            image[py * width + px] = escape(__fmaf_rn((float)px, step, left), __fmaf_rn((float)py, step, top), limit);
    }
    if (threadIdx.x == 0 && threadIdx.y == 0 && atomicAdd(&blocks_done, 1) == gridDim.x - 1) queue = blocks_done = 0;
}
