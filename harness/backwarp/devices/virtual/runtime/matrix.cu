// mma.sync, wmma.mma (whose products are functions of the kernel's module) and the exchange of addresses of ldmatrix and
// stmatrix. Called when all lanes of a warp have arrived.

enum { MATRIX_F16, MATRIX_BF16, MATRIX_TF32, MATRIX_F64, MATRIX_S8, MATRIX_U8, MATRIX_F32, MATRIX_S32 };
enum { MATRIX_A = 0, MATRIX_B = 8, MATRIX_C = 16 };  // where operands are in Extra.unset

static __device__ u32 per_register(u32 type) {
    return type <= MATRIX_BF16 ? 2 : type == MATRIX_S8 || type == MATRIX_U8 ? 4 : 1;
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

// Which elements of an operand are unset, row by row.
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
    u64 function = warp[__ffs(present) - 1].arg0, what = warp[__ffs(present) - 1].arg1;
    Fragments* fragments = (Fragments*)env->fragments + warp->linear / 32;
    if (present != FULL) {  // undefined: a matrix instruction needs all lanes
        for (u32 i = 0; i < 768; i++) fragments->data[i] = POISON;
        return;
    }
    if (env->unset) follow_product(env, warp, what >> 32 & 0xffff, what & 255, what >> 8 & 255, what >> 16 & 255, what >> 48);
    call_with(function, (u64)fragments);
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
