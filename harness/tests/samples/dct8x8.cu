// The 8 x 8 cosine transform of JPEG: a warp works on four tiles, rows and then columns, without a block barrier.

__device__ void transform(float* v, int stride) {
    const float c[8] = {0.35355339f, 0.49039264f, 0.46193977f, 0.41573481f, 0.35355339f, 0.27778512f, 0.19134172f, 0.09754516f};
    float in[8], out[8];
    for (int i = 0; i < 8; i++) in[i] = v[i * stride];
    for (int u = 0; u < 8; u++) {
        out[u] = 0.0f;
        for (int i = 0; i < 8; i++) {
            int angle = (2 * i + 1) * u % 32;  // of 32 in a circle
            float sign = angle > 8 && angle < 24 ? -1.0f : 1.0f;
            int folded = angle > 16 ? 32 - angle : angle;
            folded = folded > 8 ? 16 - folded : folded;
            out[u] += in[i] * (u == 0 ? c[0] : folded == 8 ? 0.0f : sign * (folded == 0 ? 0.5f : c[folded]));
        }
    }
    for (int u = 0; u < 8; u++) v[u * stride] = out[u];
}

extern "C" __global__ void dct8x8(const unsigned char* image, float* out, int width, int tiles) {
    __shared__ float work[4][8][9];
    int tile = threadIdx.x / 8, k = threadIdx.x % 8, index = blockIdx.x * 4 + tile;
    bool exists = index < tiles;
    const unsigned char* from = image + index / (width / 8) * 8 * width + index % (width / 8) * 8;
    if (exists)
        for (int i = 0; i < 8; i++) work[tile][k][i] = (float)from[k * width + i] - 128.0f;
    __syncwarp();
    if (exists) transform(&work[tile][k][0], 1);
    __syncwarp();
    if (exists) transform(&work[tile][0][k], 9);
    __syncwarp();
    if (exists)
        for (int i = 0; i < 8; i++) out[index * 64 + i * 8 + k] = work[tile][i][k];
}
