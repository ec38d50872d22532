// What nvcc gives a kernel without any #include, for NVRTC: fixed-width integers, limits,
// infinities, M_PI and the std:: names of the math functions. Included before the student's first line.
#ifndef BACKWARP_PRELUDE_H
#define BACKWARP_PRELUDE_H

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;  // as in CUDA's own headers under NVRTC
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
typedef int64_t intmax_t;
typedef uint64_t uintmax_t;
typedef long int ssize_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;
struct __align__(64) CUtensorMap_st {
  unsigned long long opaque[16];
};
typedef struct CUtensorMap_st CUtensorMap;

// What the compiler makes of it on the device is not valid, and it may not even say so.
#define dynamic_cast CUDA_has_no_dynamic_cast_on_the_device

#define __builtin_constant_p(...) 0  // what the optimiser knows is nothing to decide by

#ifndef __linux__
#define __linux__ 1
#endif

#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-INT_MAX - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
#define LONG_MIN (-LONG_MAX - 1L)
#define LONG_MAX 9223372036854775807L
#define ULONG_MAX 18446744073709551615UL
#define LLONG_MIN (-LLONG_MAX - 1LL)
#define LLONG_MAX 9223372036854775807LL
#define ULLONG_MAX 18446744073709551615ULL

#define INT8_MIN SCHAR_MIN
#define INT8_MAX SCHAR_MAX
#define UINT8_MAX UCHAR_MAX
#define INT16_MIN SHRT_MIN
#define INT16_MAX SHRT_MAX
#define UINT16_MAX USHRT_MAX
#define INT32_MIN INT_MIN
#define INT32_MAX INT_MAX
#define UINT32_MAX UINT_MAX
#define INT64_MIN LLONG_MIN
#define INT64_MAX LLONG_MAX
#define UINT64_MAX ULLONG_MAX
#define SIZE_MAX ULONG_MAX

#define INT8_C(x) x
#define INT16_C(x) x
#define INT32_C(x) x
#define INT64_C(x) x##LL
#define UINT8_C(x) x
#define UINT16_C(x) x
#define UINT32_C(x) x##U
#define UINT64_C(x) x##ULL
#define INTMAX_C(x) x##LL
#define UINTMAX_C(x) x##ULL
#define INTPTR_MAX LLONG_MAX
#define UINTPTR_MAX ULLONG_MAX
#define PTRDIFF_MAX LONG_MAX
#define RAND_MAX INT_MAX

#define PRId8 "d"
#define PRId16 "d"
#define PRId32 "d"
#define PRId64 "lld"
#define PRIi32 "i"
#define PRIi64 "lli"
#define PRIu8 "u"
#define PRIu16 "u"
#define PRIu32 "u"
#define PRIu64 "llu"
#define PRIx8 "x"
#define PRIx16 "x"
#define PRIx32 "x"
#define PRIx64 "llx"
#define PRIX32 "X"
#define PRIX64 "llX"

#define register  // C++17 has none; nvcc warns and goes on
#define __extension__

#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN 1.17549435082228750796873653722224568e-38f
#define FLT_MAX 3.40282346638528859811704183484516925e+38f
#define FLT_EPSILON 1.19209289550781250000000000000000000e-7f
#define FLT_TRUE_MIN 1.40129846432481707092372958328991613e-45f
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN 2.22507385850720138309023271733240406e-308
#define DBL_MAX 1.79769313486231570814527423731704357e+308
#define DBL_EPSILON 2.22044604925031308084726333618164062e-16
#define DBL_TRUE_MIN 4.94065645841246544176568792868221372e-324

#define FLT_MAX_EXP 128
#define FLT_MIN_EXP (-125)
#define DBL_MAX_EXP 1024
#define DBL_MIN_EXP (-1021)

// What a host compiler defines by itself.
#ifndef __FLT_MAX__
#define __FLT_MAX__ FLT_MAX
#define __FLT_MIN__ FLT_MIN
#define __FLT_EPSILON__ FLT_EPSILON
#define __FLT_DENORM_MIN__ FLT_TRUE_MIN
#define __FLT_DIG__ FLT_DIG
#define __FLT_MANT_DIG__ FLT_MANT_DIG
#define __DBL_MAX__ DBL_MAX
#define __DBL_MIN__ DBL_MIN
#define __DBL_EPSILON__ DBL_EPSILON
#define __DBL_DENORM_MIN__ DBL_TRUE_MIN
#define __DBL_DIG__ DBL_DIG
#define __DBL_MANT_DIG__ DBL_MANT_DIG
#endif
#ifndef __INT_MAX__
#define __SCHAR_MAX__ SCHAR_MAX
#define __SHRT_MAX__ SHRT_MAX
#define __INT_MAX__ INT_MAX
#define __LONG_MAX__ LONG_MAX
#define __LONG_LONG_MAX__ LLONG_MAX
#define __SIZE_MAX__ SIZE_MAX
#endif
#ifndef __CHAR_BIT__
#define __CHAR_BIT__ CHAR_BIT
#endif

#define INFINITY (__builtin_bit_cast(float, 0x7f800000))
#define NAN (__builtin_bit_cast(float, 0x7fc00000))
#define HUGE_VALF INFINITY
#define HUGE_VAL (__builtin_bit_cast(double, 0x7ff0000000000000LL))

#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440

#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define offsetof(type, member) __builtin_offsetof(type, member)

namespace std {
using ::size_t;
using ::ptrdiff_t;
using ::int8_t;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::uint8_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::intptr_t;
using ::uintptr_t;

using ::abs;
using ::acos;
using ::acosh;
using ::asin;
using ::asinh;
using ::atan;
using ::atan2;
using ::atanh;
using ::cbrt;
using ::ceil;
using ::copysign;
using ::cos;
using ::cosh;
using ::erf;
using ::erfc;
using ::exp;
using ::exp2;
using ::expm1;
using ::fabs;
using ::fdim;
using ::floor;
using ::fma;
using ::fmax;
using ::fmin;
using ::fmod;
using ::frexp;
using ::hypot;
using ::isfinite;
using ::isinf;
using ::isnan;
using ::ldexp;
using ::lgamma;
using ::log;
using ::log10;
using ::log1p;
using ::log2;
using ::lrint;
using ::lround;
using ::modf;
using ::nearbyint;
using ::pow;
using ::remainder;
using ::rint;
using ::round;
using ::signbit;
using ::sin;
using ::sinh;
using ::sqrt;
using ::tan;
using ::tanh;
using ::tgamma;
using ::trunc;

using ::acosf;
using ::acoshf;
using ::asinf;
using ::asinhf;
using ::atanf;
using ::atan2f;
using ::atanhf;
using ::cbrtf;
using ::ceilf;
using ::copysignf;
using ::cosf;
using ::coshf;
using ::erff;
using ::erfcf;
using ::expf;
using ::exp2f;
using ::expm1f;
using ::fabsf;
using ::fdimf;
using ::floorf;
using ::fmaf;
using ::fmaxf;
using ::fminf;
using ::fmodf;
using ::frexpf;
using ::hypotf;
using ::ldexpf;
using ::lgammaf;
using ::logf;
using ::log10f;
using ::log1pf;
using ::log2f;
using ::logbf;
using ::lrintf;
using ::lroundf;
using ::modff;
using ::nearbyintf;
using ::nextafterf;
using ::powf;
using ::remainderf;
using ::rintf;
using ::roundf;
using ::scalbnf;
using ::sinf;
using ::sinhf;
using ::sqrtf;
using ::tanf;
using ::tanhf;
using ::tgammaf;
using ::truncf;

using ::memcpy;
using ::memset;
using ::printf;
}  // namespace std

// NVRTC 13 ends with "unsupported operation" where its own versions of these meet -G.
#define BACKWARP_DOT_PRODUCT(name, opcode, result, a_type, b_type)                                  \
    static __device__ __forceinline__ result name(a_type a, b_type b, result c) {                   \
        result d;                                                                                   \
        asm(opcode " %0, %1, %2, %3;"                                                               \
            : "=r"(d) : "r"(*(const unsigned*)&a), "r"(*(const unsigned*)&b), "r"(c));              \
        return d;                                                                                   \
    }
BACKWARP_DOT_PRODUCT(backwarp_dp4a, "dp4a.s32.s32", int, int, int)
BACKWARP_DOT_PRODUCT(backwarp_dp4a, "dp4a.u32.u32", unsigned, unsigned, unsigned)
BACKWARP_DOT_PRODUCT(backwarp_dp4a, "dp4a.s32.s32", int, char4, char4)
BACKWARP_DOT_PRODUCT(backwarp_dp4a, "dp4a.u32.u32", unsigned, uchar4, uchar4)
BACKWARP_DOT_PRODUCT(backwarp_dp2a_lo, "dp2a.lo.s32.s32", int, int, int)
BACKWARP_DOT_PRODUCT(backwarp_dp2a_lo, "dp2a.lo.u32.u32", unsigned, unsigned, unsigned)
BACKWARP_DOT_PRODUCT(backwarp_dp2a_lo, "dp2a.lo.s32.s32", int, short2, char4)
BACKWARP_DOT_PRODUCT(backwarp_dp2a_lo, "dp2a.lo.u32.u32", unsigned, ushort2, uchar4)
BACKWARP_DOT_PRODUCT(backwarp_dp2a_hi, "dp2a.hi.s32.s32", int, int, int)
BACKWARP_DOT_PRODUCT(backwarp_dp2a_hi, "dp2a.hi.u32.u32", unsigned, unsigned, unsigned)
BACKWARP_DOT_PRODUCT(backwarp_dp2a_hi, "dp2a.hi.s32.s32", int, short2, char4)
BACKWARP_DOT_PRODUCT(backwarp_dp2a_hi, "dp2a.hi.u32.u32", unsigned, ushort2, uchar4)
#undef BACKWARP_DOT_PRODUCT
#define __dp4a backwarp_dp4a
#define __dp2a_lo backwarp_dp2a_lo
#define __dp2a_hi backwarp_dp2a_hi

#endif
