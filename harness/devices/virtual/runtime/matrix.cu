// mma.sync, wmma.mma and the exchange of addresses of ldmatrix and stmatrix. Called when all lanes of a warp have arrived.
//
// Products of half, bfloat16 and TF32 are exact in double; a sum is computed in double and rounded once, which is
// more accurate than the hardware, whose order and precision of accumulation PTX does not define.

enum { MATRIX_F16, MATRIX_BF16, MATRIX_TF32, MATRIX_F64, MATRIX_S8, MATRIX_U8, MATRIX_F32, MATRIX_S32 };
enum { MATRIX_A = 0, MATRIX_B = 8, MATRIX_C = 16 };  // where operands are in Extra.data
enum { MATRIX_WMMA = 1, MATRIX_SATFINITE = 2 };

static __device__ u32 per_register(u32 type) {
    return type <= MATRIX_BF16 ? 2 : type == MATRIX_S8 || type == MATRIX_U8 ? 4 : 1;
}

static __device__ double decode(u64 word, u32 type, u32 i) {
    u32 bits = (u32)word;
    float f;
    switch (type) {
        case MATRIX_F16: asm("{.reg .b16 h; cvt.u16.u32 h, %1; cvt.f32.f16 %0, h;}" : "=f"(f) : "r"(bits >> 16 * i & 0xffff)); return f;
        case MATRIX_BF16: return __uint_as_float((bits >> 16 * i) << 16);
        case MATRIX_TF32: return __uint_as_float(bits & 0xffffe000u);
        case MATRIX_F64: return __longlong_as_double((long long)word);
        case MATRIX_S8: return (double)(signed char)(bits >> 8 * i);
        case MATRIX_U8: return (double)(unsigned char)(bits >> 8 * i);
        case MATRIX_S32: return (double)(int)bits;
        default: return __uint_as_float(bits);
    }
}

static __device__ u64 encode(double x, u32 type, u32 flags) {
    u32 half;
    float f = (float)x;
    switch (type) {
        case MATRIX_F64: return (u64)__double_as_longlong(x);
        case MATRIX_F16: asm("{.reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.u32.u16 %0, h;}" : "=r"(half) : "f"(f)); return half;
        case MATRIX_S32:
            if (flags & MATRIX_SATFINITE) x = x > 2147483647.0 ? 2147483647.0 : x < -2147483648.0 ? -2147483648.0 : x;
            return (u32)(long long)x;
        default: return __float_as_uint(f);
    }
}

// Row and column of element i of lane `lane` in an operand of `rows` x `columns`. which: 'a', 'b' or 'c'.
static __device__ void place(int wmma, char which, u32 rows, u32 columns, u32 each, u32 lane, u32 i, u32* row, u32* column) {
    if (wmma) {
        u32 number = lane * (rows * columns / 32) + i;
        *row = number / columns;
        *column = number % columns;
        return;
    }
    u32 group = lane >> 2, quarter = lane & 3, reg = i / each, sub = i % each;
    if (which == 'a') {
        int tall = rows == 16;
        *row = group + (tall ? 8 * (reg & 1) : 0);
        *column = quarter * each + sub + 4 * each * (tall ? reg >> 1 : reg);
    } else if (which == 'b') {
        *row = quarter * each + sub + 4 * each * reg;
        *column = group;
    } else {
        *row = group + 8 * (i >> 1);
        *column = quarter * 2 + (i & 1);
    }
}

static __device__ void gather(Env* env, Thread* warp, int wmma, char which, u32 start, u32 rows, u32 columns, u32 type, double* into) {
    u32 each = per_register(type), count = rows * columns / 32;
    for (u32 lane = 0; lane < 32; lane++) {
        u64* data = extra_of(env, warp[lane].linear)->data + start;
        for (u32 i = 0; i < count; i++) {
            u32 row, column;
            place(wmma, which, rows, columns, each, lane, i, &row, &column);
            into[row * columns + column] = decode(data[i / each], type, i % each);
        }
    }
}

// Which elements of an operand are unset; like `gather`.
static __device__ void gather_unset(Env* env, Thread* warp, int wmma, char which, u32 start, u32 rows, u32 columns, u32 type, unsigned char* into) {
    u32 each = per_register(type), count = rows * columns / 32, bits = each > 1 ? 32 / each : 64;
    for (u32 lane = 0; lane < 32; lane++) {
        u64* unset = extra_of(env, warp[lane].linear)->unset + start;
        for (u32 i = 0; i < count; i++) {
            u32 row, column;
            place(wmma, which, rows, columns, each, lane, i, &row, &column);
            into[row * columns + column] = (unset[i / each] >> i % each * bits & ~0ull >> (64 - bits)) != 0;
        }
    }
}

// An element of a product is unset if any element of its row, of its column, or the one added is.
static __device__ void follow_product(Env* env, Thread* warp, u32 types, u32 m, u32 n, u32 k, int wmma) {
    unsigned char a[512], b[512], c[256];
    gather_unset(env, warp, wmma, 'a', MATRIX_A, m, k, types & 15, a);
    gather_unset(env, warp, wmma, 'b', MATRIX_B, k, n, types >> 4 & 15, b);
    gather_unset(env, warp, wmma, 'c', MATRIX_C, m, n, types >> 8 & 15, c);
    u64 from = 0;
    for (u32 lane = 0; lane < 32 && !from; lane++) from = extra_of(env, warp[lane].linear)->from;
    u32 type = types >> 12, each = per_register(type), bits = each > 1 ? 32 / each : 64, count = m * n / 32;
    for (u32 lane = 0; lane < 32; lane++) {
        Extra* e = extra_of(env, warp[lane].linear);
        e->given_from = from;
        for (u32 i = 0; i < count; i++) {
            u32 row, column;
            place(wmma, 'c', m, n, each, lane, i, &row, &column);
            int unset = c[row * n + column];
            for (u32 j = 0; j < k; j++) unset |= a[row * k + j] | b[j * n + column];
            u64 mask = unset ? ~0ull >> (64 - bits) << i % each * bits : 0;
            e->unset[i / each] = i % each ? e->unset[i / each] | mask : mask;
        }
    }
}

static __device__ void multiply_matrices(Env* env, Thread* warp, u32 present) {
    u32 types = (u32)warp[__ffs(present) - 1].arg0, shape = (u32)warp[__ffs(present) - 1].arg1;
    u32 flags = (u32)warp[__ffs(present) - 1].arg2, m = shape & 255, n = shape >> 8 & 255, k = shape >> 16;
    int wmma = flags & MATRIX_WMMA;
    double a[512], b[512], c[256];
    if (present != FULL) {  // undefined: a matrix instruction needs all lanes
        for (u32 lane = 0; lane < 32; lane++)
            if (present >> lane & 1)
                for (u32 i = 0; i < 8; i++) extra_of(env, warp[lane].linear)->data[i] = POISON;
        return;
    }
    if (env->unset) follow_product(env, warp, types, m, n, k, wmma);
    gather(env, warp, wmma, 'a', MATRIX_A, m, k, types & 15, a);
    gather(env, warp, wmma, 'b', MATRIX_B, k, n, types >> 4 & 15, b);
    gather(env, warp, wmma, 'c', MATRIX_C, m, n, types >> 8 & 15, c);
    for (u32 row = 0; row < m; row++)
        for (u32 column = 0; column < n; column++) {
            double sum = c[row * n + column];
            for (u32 i = 0; i < k; i++) sum = __fma_rn(a[row * k + i], b[i * n + column], sum);
            c[row * n + column] = sum;
        }
    u32 type = types >> 12, each = per_register(type), count = m * n / 32;
    for (u32 lane = 0; lane < 32; lane++) {
        u64* data = extra_of(env, warp[lane].linear)->data;
        for (u32 i = 0; i < count; i++) {
            u32 row, column;
            place(wmma, 'c', m, n, each, lane, i, &row, &column);
            u64 bits = encode(c[row * n + column], type, flags);
            data[i / each] = i % each ? data[i / each] | bits << 16 : bits;
        }
    }
}

// ldmatrix, stmatrix: every lane gets the addresses of the rows that hold its elements, or will. arg1: 1 where the
// matrices are transposed, 2 of stmatrix.
static __device__ void exchange_rows(Env* env, Thread* warp, u32 present) {
    u64 rows[32];
    for (u32 lane = 0; lane < 32; lane++) rows[lane] = present >> lane & 1 ? extra_of(env, warp[lane].linear)->data[0] : 0;
    for (u32 lane = 0; lane < 32; lane++) {
        if (!(present >> lane & 1)) continue;
        u64* data = extra_of(env, warp[lane].linear)->data;
        for (u32 i = 0; i < warp[lane].arg0; i++) {
            if (warp[lane].arg1 & 1) {
                data[2 * i] = rows[8 * i + 2 * (lane & 3)];
                data[2 * i + 1] = rows[8 * i + 2 * (lane & 3) + 1];
            } else data[i] = rows[8 * i + lane / 4];
        }
    }
}
