// Fast Walsh-Hadamard transform of 1024 integers in dynamic shared memory, four at a time (radix 4).

extern "C" __global__ void walsh_transform(const int* in, int* out, int log_n) {
    extern __shared__ int data[];
    const int n = 1 << log_n, base = blockIdx.x << log_n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = in[base + i];
    int stride = n >> 2;
    for (; stride > 0; stride >>= 2) {
        __syncthreads();
        int low = threadIdx.x & (stride - 1), i0 = ((threadIdx.x - low) << 2) + low;
        int i1 = i0 + stride, i2 = i1 + stride, i3 = i2 + stride;
        int a = data[i0], b = data[i1], c = data[i2], d = data[i3], t;
        t = a; a += c; c = t - c;
        t = b; b += d; d = t - d;
        t = a; data[i0] = a + b; data[i1] = t - b;
        t = c; data[i2] = c + d; data[i3] = t - d;
    }
    __syncthreads();
    if (log_n & 1) {
        for (int pos = threadIdx.x; pos < n / 2; pos += blockDim.x) {
            int a = data[2 * pos], b = data[2 * pos + 1];
            data[2 * pos] = a + b;
            data[2 * pos + 1] = a - b;
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[base + i] = data[i];
}
