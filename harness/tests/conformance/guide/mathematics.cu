#include <cuda_fp16.h>
#include <cmath>

//# Mathematical functions

//: sinf, cosf, sincosf, sinpif = 1 + 0 * t
TEST(float, circle) { float s, c; sincosf(t, &s, &c); out[t] = rintf(1e4f * (s * sinf(t) + c * cosf(t))) / 1e4f + sinpif(0.0f); }

//: expf, logf, powf, exp2f, log2f = 3 * t
TEST(float, exponents) { out[t] = rintf(logf(expf(float(t)))) + log2f(exp2f(t)) + rintf(powf(t, 1.0f)); }

//: sqrtf, rsqrtf, cbrtf, hypotf = 5.0 * t + t
TEST(float, roots) { out[t] = hypotf(3 * t, 4 * t) + sqrtf(t * t); }

//: floorf, ceilf, truncf, roundf, rintf = np.floor(t / 4) + np.ceil(t / 4) + np.trunc(t / 4) + np.rint(t / 4)
TEST(float, rounding) { float x = t / 4.0f; out[t] = floorf(x) + ceilf(x) + truncf(x) + rintf(x); }

//: fmodf, remainderf, modff, frexpf, ldexpf = (t % 5) + t / 2
TEST(float, parts_of_floats) { float whole; int e; float m = frexpf(t, &e); out[t] = fmodf(t, 5) + ldexpf(m, e) / 2 + modff(3.0f, &whole); }

//: fminf, fmaxf, fdimf, fabsf, copysignf = np.minimum(t, 5) + np.maximum(t - 9.0, 0) + t
TEST(float, comparisons) { out[t] = fminf(t, 5) + fdimf(t, 9) + fabsf(copysignf(t, -1)); }

//: isnan, isinf, isfinite, signbit = 7 + 0 * t
TEST(int, classes) { float z = t - t; out[t] = (isnan(z / z) != 0) + 2 * (isinf(1 / z) != 0) + 4 * (isfinite(z) && !signbit(z)); }

//: erff, tgammaf, lgammaf, j0f, normcdff = 1 + 24.0 + 0 * t
TEST(float, special) { out[t] = erff(10.0f + t) + rintf(tgammaf(5)) + 0 * j0f(1.0f) + 0 * normcdff(t) + 0 * lgammaf(3); }

//: double precision: sin, exp, pow, fma = t * t + 1.0
TEST(double, doubles_of_math) { out[t] = rint(pow(double(t), 2.0)) + rint(sin(double(t)) * sin(double(t)) + cos(double(t)) * cos(double(t))) + fma(0.0, 1.0, 0.0) * exp(1.0); }

//: __sinf, __expf, __fdividef, __powf, __logf = t / 2
TEST(float, fast_intrinsics) { out[t] = rintf(100 * __fdividef(t, 2)) / 100 + 0 * (__sinf(t) + __expf(1.0f) + __powf(2, 3) + __logf(2.0f) + __cosf(t) + __tanf(0.5f)); }

//: __fadd_rz, __fmul_ru, __fmaf_rn, __frcp_rn, __fsqrt_rn = 2.0 * t + 2
TEST(float, rounded_intrinsics) { out[t] = __fadd_rz(t, 1) + __fmul_ru(t, 1) + __fmaf_rn(0, t, 1) + 0 * __frcp_rn(3) + 0 * __fsqrt_rn(2); }

//: __clz, __ffs, __popc, __brev, __byte_perm = np.where(t > 0, np.floor(np.log2(np.maximum(t, 1))), -1)
TEST(int, bit_intrinsics) { out[t] = 31 - __clz(t) + 0 * (__ffs(t) + __popc(t)) + int(__brev(__brev(0u))) + int(__byte_perm(0, 1, 0)); }

//: __mulhi, __umul64hi, __mul24, __sad = t + 10
TEST(int, product_intrinsics) { out[t] = __mulhi(t << 16, 1 << 16) + int(__umul64hi(1ull << 63, 20)); }

//: __dp4a and __dp2a_lo = 4 * t + 2 * t
TEST(int, dot_products) { out[t] = __dp4a(0x01010101, t * 0x01010101, 0) + __dp2a_lo(0x00010001, t * 0x0101, 0); }

//: __float2int_rn, __int_as_float, __float2half, __double2int_rz, __ll2float_rn = 4 * t
TEST(int, conversions_of_math) { out[t] = __float2int_rn(t + 0.25f) + int(__int_as_float(__float_as_int(float(t)))) + __double2int_rz(t + 0.9) + int(__ll2float_rn(t)); }

//: __saturatef, __funnelshift_l, __hadd, __usad = np.minimum(t, 1) + t
TEST(int, other_intrinsics) { out[t] = int(__saturatef(t)) + __funnelshift_l(0u, unsigned(t), 0) + __hadd(-1, 1) + int(__usad(3u, 3u, 0u)); }

//: abs, min, max of integers, std:: names = 2 * t + 5
TEST(int, integer_functions) { out[t] = abs(-t) + min(t, 100) + max(5, 3) + 0 * int(std::sqrt(2.0f) + std::abs(-1.0f)); }

//: norm3df, rhypotf, fdividef, exp10f, expm1f, log1pf = 3.0 * t
TEST(float, more_functions) { out[t] = norm3df(t, 2 * t, 2 * t) + 0 * (rhypotf(1, 1) + exp10f(0) + expm1f(0) + log1pf(0) + cospif(1) + erfcf(0) + erfinvf(0) + nextafterf(1, 2) + fmaf(1, 1, 1)); }
