// Discrete Fourier transform of rows of 256 complex numbers, radix 2, in shared memory.

constexpr int N = 256, LOG_N = 8;

__device__ float2 operator*(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__device__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }

extern "C" __global__ void fft(const float2* in, float2* out) {
    __shared__ float2 data[N];
    int t = threadIdx.x;
    for (int i = t; i < N; i += N / 2) data[__brev(i) >> (32 - LOG_N)] = in[blockIdx.x * N + i];
    for (int half = 1; half < N; half *= 2) {
        __syncthreads();
        int k = t & (half - 1), i = 2 * t - k;
        float2 twiddle;
        sincospif(-(float)k / half, &twiddle.y, &twiddle.x);
        float2 even = data[i], odd = twiddle * data[i + half];
        data[i] = even + odd;
        data[i + half] = even - odd;
    }
    __syncthreads();
    for (int i = t; i < N; i += N / 2) out[blockIdx.x * N + i] = data[i];
}
