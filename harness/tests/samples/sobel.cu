// Edges of an image of bytes, four pixels per thread as uchar4, with SIMD-in-a-word intrinsics for the threshold.

__device__ int pixel(const unsigned char* image, int x, int y, int width, int height) {
    x = min(max(x, 0), width - 1);
    y = min(max(y, 0), height - 1);
    return image[y * width + x];
}

__device__ unsigned char edge(const unsigned char* image, int x, int y, int width, int height) {
    int gx = 0, gy = 0;
    for (int d = -1; d <= 1; d++) {
        int weight = d == 0 ? 2 : 1;
        gx += weight * (pixel(image, x + 1, y + d, width, height) - pixel(image, x - 1, y + d, width, height));
        gy += weight * (pixel(image, x + d, y + 1, width, height) - pixel(image, x + d, y - 1, width, height));
    }
    return (unsigned char)min(abs(gx) + abs(gy), 255);
}

extern "C" __global__ void sobel(const unsigned char* image, uchar4* out, int width, int height, unsigned limit) {
    int x = 4 * (blockIdx.x * blockDim.x + threadIdx.x), y = blockIdx.y;
    if (x >= width) return;
    uchar4 v;
    v.x = edge(image, x, y, width, height);
    v.y = edge(image, x + 1, y, width, height);
    v.z = edge(image, x + 2, y, width, height);
    v.w = edge(image, x + 3, y, width, height);
    unsigned packed = *reinterpret_cast<unsigned*>(&v), mask = __vcmpgeu4(packed, limit * 0x01010101u);
    packed &= mask;
    out[(y * width + x) / 4] = *reinterpret_cast<uchar4*>(&packed);
}
