#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

//# Built-in vector types

//: char1 to char4, uchar4 = t + 1 + 2 + 3 + 250
TEST(int, chars) {
    char4 a = make_char4(t, 1, 2, 3);
    uchar4 b = make_uchar4(250, 0, 0, 0);
    char1 c = make_char1(a.x);
    out[t] = c.x + a.y + a.z + a.w + b.x;
}

//: short2, ushort4 = 65535 - t
TEST(int, shorts) {
    short2 a = make_short2(-t, 0);
    ushort4 b = make_ushort4(65535, 0, 0, 0);
    out[t] = a.x + a.y + b.x;
}

//: int3 and uint3 = 6 * t
TEST(int, ints) {
    int3 a = make_int3(t, 2 * t, 3 * t);
    uint3 b = {unsigned(a.x), unsigned(a.y), unsigned(a.z)};
    out[t] = b.x + b.y + b.z;
}

//: long2 and longlong2 = (t << 40) + t
TEST(long long, longs) {
    longlong2 a = make_longlong2(1LL * t << 40, t);
    long2 b = make_long2(a.x, a.y);
    out[t] = b.x + b.y;
}

//: float4 in one access = np.stack([t, t + 1, t + 2, t + 3], 1)
TEST(float, float_fours) {
    reinterpret_cast<float4*>(out)[t] = make_float4(t, t + 1, t + 2, t + 3);
}

//: float2 read back = 2 * t + 1
TEST(float, float_twos) {
    __shared__ float2 pairs[32];
    pairs[t] = make_float2(t, t + 1);
    __syncthreads();
    float2 p = pairs[t];
    out[t] = p.x + p.y;
}

//: double2 = t * 0.25
TEST(double, doubles) { double2 d = make_double2(t, 0.25); out[t] = d.x * d.y; }

//: float3, of 12 bytes = 12 + 0 * t
TEST(int, size_of_three) { out[t] = sizeof(float3); }

//: alignment of the vector types = np.array([4, 8, 16, 16, 4, 16])[t % 6]
TEST(int, alignments) {
    int found[] = {alignof(char4), alignof(float2), alignof(float4), alignof(double2), alignof(int3), alignof(int4)};
    out[t] = found[t % 6];
}

//: dim3 = t + 3 + 1 + 1
TEST(int, dim_three) { dim3 d(3); out[t] = t + d.x + d.y + d.z; }

//: 128 bits, ulonglong2 = t
TEST(unsigned long long, wide) { ulonglong2 a = {0ull + t, 1ull}; out[t] = a.x * a.y; }

//: __align__ and alignas = np.array([16, 32])[t % 2]
struct __align__(16) Sixteen { float x; };
struct alignas(32) Thirty { float x; };
TEST(int, alignas_struct) { int found[] = {sizeof(Sixteen), sizeof(Thirty)}; out[t] = found[t % 2]; }

//: __half2 in memory = t + 0.5
TEST(float, halves) {
    __shared__ __half2 pairs[32];
    pairs[t] = __floats2half2_rn(t, 0.5f);
    out[t] = __low2float(pairs[t]) + __high2float(pairs[t]);
}

//# Half, bfloat16 and 8-bit floating point

//: half arithmetic by operators = t * 2 + 0.5
TEST(float, half_operators) { __half h = __half(float(t)); out[t] = float(h * __half(2.0f) + __half(0.5f)); }

//: half2 arithmetic = 3 * t + 4
TEST(float, half_two) {
    __half2 a = __floats2half2_rn(t, 2), b = __hadd2(a, __hmul2(a, __float2half2_rn(0.5f)));
    out[t] = 2 * __low2float(b) + 4 * __high2float(b) - 8;
}

//: half comparison and selection = np.minimum(t, 10)
TEST(float, half_compare) { __half a = __int2half_rn(t), b = __int2half_rn(10); out[t] = __half2float(__hlt(a, b) ? a : b); }

//: half math functions = np.sqrt(16.0 * t * t)
TEST(float, half_math) { out[t] = __half2float(hsqrt(__int2half_rn(16))) * t; }

//: atomicAdd of __half and __half2 = 32.0 + 0 * t
TEST(float, half_atomics) {
    __shared__ __half2 total;
    if (t == 0) total = __float2half2_rn(0.0f);
    __syncthreads();
    atomicAdd(&total, __float2half2_rn(0.5f));
    __syncthreads();
    out[t] = __low2float(total) + __high2float(total);
}

//: bfloat16 arithmetic = t * 2 + 1
TEST(float, bfloat_operators) { __nv_bfloat16 b = __float2bfloat16(t); out[t] = float(b * __nv_bfloat16(2.0f) + __nv_bfloat16(1.0f)); }

//: bfloat162 = t + 3
TEST(float, bfloat_two) {
    __nv_bfloat162 b = __hfma2(__floats2bfloat162_rn(t, 3), __float2bfloat162_rn(1.0f), __float2bfloat162_rn(0.0f));
    out[t] = __low2float(b) + __high2float(b);
}

//: fp8 e4m3 = np.minimum(t, 16)
TEST(float, eight_bits) { __nv_fp8_e4m3 f(fminf(t, 16.0f)); out[t] = float(f); }

//: fp8 e5m2, rounded = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 10, 12, 12, 12, 14, 16])[t % 16]
TEST(float, eight_bits_more_exponent) { __nv_fp8_e5m2 f(float(t % 16)); out[t] = float(f); }

//: fp8x4 = 6 + 4.0 * (t % 8)
TEST(float, eight_bits_by_four) {
    float x = t % 8;
    float4 back = float4(__nv_fp8x4_e4m3(make_float4(x, x + 1, x + 2, x + 3)));
    out[t] = back.x + back.y + back.z + back.w;
}

//: __int128 = t
TEST(int, wide_integers) { __int128 wide = (__int128)t << 100; out[t] = int(wide >> 100); }
