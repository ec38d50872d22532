#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>

//# Warp vote functions

//: __all_sync, __any_sync = 2 + 0 * t
TEST(int, vote_all) { out[t] = __all_sync(~0u, t < 31) + 2 * __any_sync(~0u, t == 31); }

//: __ballot_sync = 0x55555555 + 0 * t
TEST(unsigned, vote_ballot) { out[t] = __ballot_sync(~0u, t % 2 == 0); }

//: __activemask has the lane that asks = 1 + 0 * t
TEST(unsigned, active) { out[t] = __activemask() >> t & 1; }

//: __uni_sync = 1 + 0 * t
TEST(int, vote_uni) { out[t] = __uni_sync(~0u, t < 100); }

//: votes of some lanes = np.where(t < 8, 0xff, 0)
TEST(unsigned, vote_some) { out[t] = 0; if (t < 8) out[t] = __ballot_sync(0xff, 1); }

//# Warp match functions

//: __match_any_sync = np.array([0x11111111, 0x22222222, 0x44444444, 0x88888888])[t % 4]
TEST(unsigned, match_any) { out[t] = __match_any_sync(~0u, t % 4); }

//: __match_all_sync = 0xffffffff + 0 * t
TEST(unsigned, match_all) { int p; unsigned m = __match_all_sync(~0u, 5, &p); out[t] = p ? m : 0; }

//: __match_any_sync of 64 bits = np.where(t < 16, 0xffff, 0xffff0000)
TEST(unsigned, match_wide) { out[t] = __match_any_sync(~0u, 1ull << (t / 16 * 40)); }

//# Warp reduce functions

//: __reduce_add_sync = 496 + 0 * t
TEST(unsigned, reduce_add) { out[t] = __reduce_add_sync(~0u, unsigned(t)); }

//: __reduce_min_sync and __reduce_max_sync, signed = 31 - -16 + 0 * t
TEST(int, reduce_extremes) { out[t] = 2 * __reduce_max_sync(~0u, t - 16) + 1 - __reduce_min_sync(~0u, t - 16); }

//: __reduce_and_sync, __reduce_or_sync, __reduce_xor_sync = 31 + 0 * t
TEST(unsigned, reduce_bits) { out[t] = __reduce_or_sync(~0u, unsigned(t)) + __reduce_and_sync(~0u, unsigned(t)) + __reduce_xor_sync(~0u, unsigned(t)); }

//# Warp shuffle functions

//: __shfl_sync = 5 + 0 * t
TEST(int, shuffle) { out[t] = __shfl_sync(~0u, t, 5); }

//: __shfl_sync with a width = t // 8 * 8 + 3
TEST(int, shuffle_width) { out[t] = __shfl_sync(~0u, t, 3, 8); }

//: __shfl_up_sync = np.maximum(t - 1, 0)
TEST(int, shuffle_up) { out[t] = __shfl_up_sync(~0u, t, 1); }

//: __shfl_down_sync = np.where(t < 30, t + 2, t)
TEST(int, shuffle_down) { out[t] = __shfl_down_sync(~0u, t, 2); }

//: __shfl_xor_sync, a sum = 496.0 + 0 * t
TEST(float, shuffle_xor) {
    float x = t;
    for (int d = 16; d; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    out[t] = x;
}

//: __shfl_sync of double, 64 bits and half2 = 3.0 * (31 - t)
TEST(double, shuffle_types) {
    double d = __shfl_sync(~0u, double(t), 31 - t);
    long long l = __shfl_sync(~0u, (long long)t, 31 - t);
    __half2 h = __shfl_sync(~0u, __float2half2_rn(t), 31 - t);
    out[t] = d + l + __low2float(h);
}

//: an inclusive scan = t * (t + 1) // 2
TEST(int, warp_scan) {
    int x = t;
    for (int d = 1; d < 32; d *= 2) { int y = __shfl_up_sync(~0u, x, d); if (t >= d) x += y; }
    out[t] = x;
}

//# Warp matrix functions

//: wmma of half with float accumulation = np.full(256, 16.0)
TEST(float, matrix_half) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, half, row_major> a;
    fragment<matrix_b, 16, 16, 16, half, col_major> b;
    fragment<accumulator, 16, 16, 16, float> c;
    fill_fragment(a, __float2half(2.0f));
    fill_fragment(b, __float2half(0.5f));
    fill_fragment(c, 0.0f);
    mma_sync(c, a, b, c);
    store_matrix_sync(out, c, 16, mem_row_major);
}

//: wmma loaded from shared memory, transposed = (np.arange(256).reshape(16, 16) % 7).T.ravel()
TEST(float, matrix_load) {
    using namespace nvcuda::wmma;
    __shared__ half values[256], one[256];
    for (int i = t; i < 256; i += 32) { values[i] = __int2half_rn(i % 7); one[i] = __int2half_rn(i / 16 == i % 16); }
    __syncwarp();
    fragment<matrix_a, 16, 16, 16, half, col_major> a;
    fragment<matrix_b, 16, 16, 16, half, row_major> b;
    fragment<accumulator, 16, 16, 16, float> c;
    load_matrix_sync(a, values, 16);
    load_matrix_sync(b, one, 16);
    fill_fragment(c, 0.0f);
    mma_sync(c, a, b, c);
    store_matrix_sync(out, c, 16, mem_row_major);
}

//: wmma of bytes = np.full(256, 96)
TEST(int, matrix_bytes) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, signed char, row_major> a;
    fragment<matrix_b, 16, 16, 16, signed char, col_major> b;
    fragment<accumulator, 16, 16, 16, int> c;
    fill_fragment(a, (signed char)-2); fill_fragment(b, (signed char)-3); fill_fragment(c, 0);
    mma_sync(c, a, b, c);
    store_matrix_sync(out, c, 16, mem_row_major);
}

//: wmma of TF32 and bfloat16 = np.full(256, 8.0 + 16.0)
TEST(float, matrix_tf32) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> a;
    fragment<matrix_b, 16, 16, 8, precision::tf32, col_major> b;
    fragment<accumulator, 16, 16, 8, float> c;
    fill_fragment(a, __float_to_tf32(1.0f)); fill_fragment(b, __float_to_tf32(1.0f)); fill_fragment(c, 0.0f);
    mma_sync(c, a, b, c);
    fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> p;
    fragment<matrix_b, 16, 16, 16, __nv_bfloat16, col_major> q;
    fragment<accumulator, 16, 16, 16, float> r;
    fill_fragment(p, __float2bfloat16(1.0f)); fill_fragment(q, __float2bfloat16(1.0f)); fill_fragment(r, 8.0f);
    mma_sync(r, p, q, r);
    store_matrix_sync(out, r, 16, mem_row_major);
    for (int i = 0; i < c.num_elements; i++) if (c.x[i] != 8.0f) __trap();
}

//: wmma of doubles = np.full(64, 4.0)
TEST(double, matrix_double) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 8, 8, 4, double, row_major> a;
    fragment<matrix_b, 8, 8, 4, double, col_major> b;
    fragment<accumulator, 8, 8, 4, double> c;
    fill_fragment(a, 1.0); fill_fragment(b, 1.0); fill_fragment(c, 0.0);
    mma_sync(c, a, b, c);
    store_matrix_sync(out, c, 8, mem_row_major);
}

//: ldmatrix in both orders of its modifiers = 2 * (t // 4 * 8 + t % 4 * 2)
TEST(int, matrix_rows) {
    __shared__ __align__(16) unsigned short rows[64];
    rows[t] = t; rows[t + 32] = t + 32;
    __syncwarp();
    unsigned at = __cvta_generic_to_shared(rows + t % 8 * 8), a, b;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.x1.m8n8.shared.b16 {%0}, [%1];" : "=r"(b) : "r"(at));
    out[t] = (a & 0xffff) + (b & 0xffff);
}

//: stmatrix, of a matrix and transposed = 2 * t + 100 * (2 * (t % 4) * 8 + t // 4)
TEST(int, stored_rows) {
    __shared__ __align__(16) unsigned short plain[64], turned[64];
    unsigned pair = 2 * t | (2 * t + 1) << 16;
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" :: "r"((unsigned)__cvta_generic_to_shared(plain + t % 8 * 8)), "r"(pair));
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" :: "r"((unsigned)__cvta_generic_to_shared(turned + t % 8 * 8)), "r"(pair));
    __syncwarp();
    int at = 0;
    while (turned[at] != 2 * t) at++;
    out[t] = plain[2 * t] + 100 * at;
}

//: the lowest of the lanes that take part = np.where(t == 0, 1, 0)
TEST(int, leader) { out[t] = t == __ffs(__ballot_sync(~0u, 1)) - 1; }
