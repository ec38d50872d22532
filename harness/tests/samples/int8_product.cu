// Dot products of bytes, four at a time (dp4a), scaled to float with rounding: a quantised linear layer.

extern "C" __global__ void int8_product(const int* a, const int* b, signed char* out, int m, int n, int words, float scale) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= n) return;
    int sum = 0;
    for (int i = 0; i < words; i++) sum = __dp4a(a[row * words + i], b[column * words + i], sum);
    int rounded = __float2int_rn((float)sum * scale);
    out[row * n + column] = (signed char)max(-128, min(127, rounded));
}
