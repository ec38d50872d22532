//# Compiler optimisation hints

//: __builtin_assume = t // 4
TEST(int, assumed) { int x = t; __builtin_assume(x >= 0); out[t] = x / 4; }

//: __builtin_assume_aligned = t
TEST(int, aligned) { int* p = (int*)__builtin_assume_aligned(out, 16); p[t] = t; }

//: __builtin_expect and [[likely]] = np.where(t == 0, 1, 2)
TEST(int, expected) { if (__builtin_expect(t == 0, 0)) out[t] = 1; else out[t] = 2; }

//: __builtin_unreachable = t % 2
TEST(int, unreachable) {
    switch (t % 2) {
        case 0: out[t] = 0; break;
        case 1: out[t] = 1; break;
        default: __builtin_unreachable();
    }
}

//# Launch bounds

//: __launch_bounds__ = t
extern "C" __global__ void __launch_bounds__(32, 2) bounded(int* out) { out[t] = t; }

//: __maxnreg__ = t
extern "C" __global__ void __maxnreg__(64) few_registers(int* out) { out[t] = t; }

//# #pragma unroll

//: unrolled fully, by 4, not at all, by a constant = 4 * 28 + 0 * t
TEST(int, unrolled) {
    int sum = 0;
    constexpr int N = 2;
    #pragma unroll
    for (int i = 0; i < 8; i++) sum += i;
    #pragma unroll 4
    for (int i = 0; i < 8; i++) sum += i;
    #pragma unroll 1
    for (int i = 0; i < 8; i++) sum += i;
    #pragma unroll N + 1
    for (int i = 0; i < 8; i++) sum += i;
    out[t] = sum;
}

//# Diagnostic pragmas

//: #pragma nv_diag_suppress = t
#pragma nv_diag_suppress 177
TEST(int, suppressed) { int unused; out[t] = t; }
#pragma nv_diag_default 177

//# SIMD video instructions

//: __vadd2, __vsub4 = (t + 1) * 0x10001
TEST(unsigned, simd_add) { out[t] = __vadd2(t * 0x10001, __vsub4(0x02030203, 0x01020102) & 0x00010001); }

//: __vmaxs2, __vminu4 = np.maximum(t, 9)
TEST(unsigned, simd_extremes) { out[t] = __vminu4(__vmaxs2(t, 9), 0x000000ff); }

//: __vcmpeq4, __vcmpgtu2 = np.where(t == 3, 0xffffffff, 0xffffff00)
TEST(unsigned, simd_compare) { out[t] = __vcmpeq4(t, 3); }

//: __vabsdiffu4, __vsadu4 = abs(t - 10)
TEST(unsigned, simd_distance) { out[t] = __vsadu4(t, 10) + __vabsdiffu4(5, 5); }

//: __vavgu2, __vhaddu4 = (t + 5) // 2 + (t + 4) // 2
TEST(unsigned, simd_average) { out[t] = __vavgu2(t, 4) + __vhaddu4(t, 4); }

//: saturation: __vaddus4, __vsubss2 = np.minimum(255, t + 240)
TEST(unsigned, simd_saturated) { out[t] = __vaddus4(t, 240) + __vsubss2(0, 0); }

//: __vneg4, __vabs2, __vset... = t & 255
TEST(unsigned, simd_signs) { out[t] = __vabs2(__vneg2(t)) & 255; }

//: __vibmax_u16x2, __viaddmin_s32 (DPX) = np.maximum(t, 8) + np.minimum(t + 1, 20)
TEST(int, dynamic_programming) { bool p; out[t] = __vibmax_s32(t, 8, &p) + __viaddmin_s32(t, 1, 20); }

//: __vimax3_s32, __vimin_s32_relu, __viaddmax_s16x2 (DPX) = np.maximum(np.maximum(t, 4), 31 - t) + np.minimum(t, 6) + np.maximum(t + 3, 7)
TEST(int, dynamic_programming_more) { out[t] = __vimax3_s32(t, 4, 31 - t) + __vimin_s32_relu(t, 6) + __viaddmax_s16x2(t, 3, 7); }

//# Profiler counter function

//: __prof_trigger = t
TEST(int, profiler_counter) { __prof_trigger(3); out[t] = t; }

//# Breakpoint function

//: __brkpt = t
TEST(int, breakpoint) { if (t > 100) __brkpt(); out[t] = t; }

//# Trap function

//: __trap faults assert
TEST(int, trapped) { if (t == 3) __trap(); out[t] = t; }

//# Assertion

//: an assertion that holds = t
TEST(int, assertion) { assert(t < 32); out[t] = t; }

//: an assertion that fails faults assert
TEST(int, failed_assertion) { assert(t != 5); out[t] = t; }

//# Formatted output

//: printf of integers, floats, strings, characters prints 7 -8 ff 1.50 x text 123456789012 %
TEST(int, printed) {
    if (t == 0) printf("%d %i %x %.2f %c %s %lld %%\n", 7, -8, 255, 1.5f, 'x', "text", 123456789012LL);
    out[t] = t;
}

//: printf of widths, %p-free flags and pointers to text prints [   42] [42   ] [+42] [0042] [1e+03]
TEST(int, formatted) {
    if (t == 0) printf("[%5d] [%-5d] [%+d] [%04d] [%.0e]\n", 42, 42, 42, 42, 1000.0);
    out[t] = t;
}

//: printf returns the number of arguments = np.where(t == 0, 2, t)
TEST(int, printf_result) { out[t] = t == 0 ? printf("%d %d\n", 1, 2) : t; }
