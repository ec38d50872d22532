// Kernels that have to do with values that nothing has set: `right_*` copy them, `wrong_*` use them (see test_initialised.py).
// The line of a fault ends in its kernel's name; that of what the fault leads to, in OTHER and the name.

#include <cuda_fp16.h>
#include <mma.h>
#include <stdio.h>

// what <cuda_pipeline.h> has, whose many instances of templates take long to compile
#define __pipeline_memcpy_async(to, from, n) asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" \
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(n) : "memory")
#define __pipeline_commit() asm volatile("cp.async.commit_group;" ::: "memory")
#define __pipeline_wait_prior(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")

#define KERNEL extern "C" __global__ void

struct Padded { char c; float x; short s; double d; };
struct Bits { unsigned a : 3, b : 7, c : 22; };
struct Empty {};
struct Near { float distance; bool inside; };  // its last 3 bytes are padding
struct Nested { Near near; char c; Near more[2]; short s; Empty e; Bits bits; };
struct Tail { double d; char c; };
union Either { double d; Near near; char c; };

__device__ float4 some(float x, int n) { float4 v; v.x = x; if (n > 4) v.y = x; return v; }
__device__ float4 same(float4 v) { return v; }
__device__ float second(float4 v) { return v.y; }
__device__ float first(float4 v) { return v.x; }
__device__ float plus(float a, Empty, float b) { return a + b; }
__device__ float twice(float a) { return 2 * a; }
__device__ void exchange(float& a, float& b) { float t = a; a = b; b = t; }
__device__ float left_over[32];

KERNEL right_padding(float* out, const float* in, int n) {
    Padded p, q;
    p.c = 1; p.x = in[threadIdx.x]; p.s = 2; p.d = 3;
    q = p;
    out[threadIdx.x] = q.c + q.x + q.s + q.d;
}

KERNEL right_padding_in_an_array(Padded* out, const float* in, int n) {
    Padded p;
    p.c = 1; p.x = in[threadIdx.x]; p.s = 2; p.d = 3;
    out[threadIdx.x] = p;
}

__device__ __noinline__ Near nearest(float x) { Near v; v.distance = x; v.inside = x > 1; return v; }
__device__ Near at_once(float x) { return Near{x, x > 1}; }
__device__ __noinline__ Tail passed_on(Tail v) { return v; }
__device__ __noinline__ void put(Near v, Near* to) { *to = v; }

KERNEL right_tail_in_an_array(Near* out, const float* in, int n) {
    __shared__ Near kept[32];
    Near some[3];
    for (int i = 0; i < 3; i++) some[i].distance = in[i], some[i].inside = i == n;
    kept[threadIdx.x] = some[threadIdx.x % 3];
    Near one = nearest(n), other;
    memcpy(&other, &one, sizeof one);
    __syncthreads();
    out[threadIdx.x] = kept[threadIdx.x ^ 1];
    put(other, out + 32 + threadIdx.x);
    out[64 + threadIdx.x] = n > 1 ? at_once(n) : nearest(n);
}

KERNEL right_tail_as_floats(float* out, const float* in, int n) {
    extern __shared__ Near kept[];
    __align__(8) Near one;
    one.distance = in[threadIdx.x]; one.inside = n == 4;
    auto moved = [=](float by) { Near v = one; v.distance += by; return v; };
    if (threadIdx.x < 16) kept[threadIdx.x] = moved(2);
    if (threadIdx.x < 8) ((float2*)out)[threadIdx.x] = *(float2*)&one;
    if (threadIdx.x == 8) ((Near*)out)[8] = kept[8];
    if (threadIdx.x == 9) for (int i = 0; i < 8; i++) ((char*)(out + 18))[i] = ((char*)&one)[i];
}

KERNEL right_nested_in_an_array(Nested* out, const float* in, int n) {
    Nested v;
    v.near = at_once(n); v.c = 1; v.s = 2; v.bits.a = 1; v.bits.b = n; v.bits.c = 5;
    for (int i = 0; i < 2; i++) v.more[i].distance = i, v.more[i].inside = false;
    if (threadIdx.x < 16) out[threadIdx.x] = v;
}

KERNEL right_union_in_an_array(Either* out, const float* in, int n) {
    Either v;
    v.near.distance = in[threadIdx.x]; v.near.inside = true;
    out[threadIdx.x] = v;
}

KERNEL right_fields_in_an_array(Near* out, const float* in, int n) {
    out[threadIdx.x].distance = in[threadIdx.x];
    out[threadIdx.x].inside = true;
    Near v = out[threadIdx.x];
    out[32 + threadIdx.x] = v;
}

KERNEL wrong_member_in_an_array(Either* out, const float* in, int n) {
    Either v;
    if (n > 4) v.d = 1;
    out[threadIdx.x] = v;  // wrong_member_in_an_array
}

KERNEL wrong_field_in_an_array(Near* out, const float* in, int n) {
    Near v;
    v.distance = in[threadIdx.x];
    if (n > 4) v.inside = true;
    out[threadIdx.x] = v;  // wrong_field_in_an_array
}

KERNEL wrong_field_as_floats(float* out, const float* in, int n) {
    Near v;
    v.inside = in[threadIdx.x] > 1;
    if (threadIdx.x < 16) ((Near*)out)[threadIdx.x] = v;  // wrong_field_as_floats
}

KERNEL wrong_inner_field_in_an_array(Nested* out, const float* in, int n) {
    Nested v;
    v.near = at_once(n); v.c = 1; v.s = 2; v.bits.a = 1; v.bits.b = n; v.bits.c = 5;
    for (int i = 0; i < 2; i++) v.more[i].distance = i;
    v.more[0].inside = false;
    if (threadIdx.x < 16) out[threadIdx.x] = v;  // wrong_inner_field_in_an_array
}

KERNEL wrong_tail_in_an_array(Tail* out, const float* in, int n) {
    Tail v;
    v.d = n;
    if (n > 4) v.c = 1;
    out[threadIdx.x] = passed_on(v);
}

KERNEL wrong_bit_field_in_an_array(Bits* out, const float* in, int n) {
    Bits v;
    v.a = 1; v.c = n;
    out[threadIdx.x] = v;
}

KERNEL right_part_of_a_vector(float* out, const float* in, int n) {
    float4 v = some(in[threadIdx.x], n), w = v;
    w = same(w);
    __shared__ float4 kept[32];
    kept[threadIdx.x] = w;
    float4 u = kept[threadIdx.x];
    out[threadIdx.x] = u.x;
}

KERNEL right_bits(float* out, const float* in, int n) {
    Bits b;
    b.a = 2; b.b = n;
    Bits c = b;
    out[threadIdx.x] = c.a + c.b;
}

KERNEL right_bytes(float* out, const float* in, int n) {
    unsigned w;
    ((unsigned char*)&w)[1] = n;
    out[threadIdx.x] = (w >> 8 & 0xff) + (__byte_perm(w, 0, 0x4441) & 0xffff);
}

KERNEL right_half(float* out, const float* in, int n) {
    half2 h;
    h.x = __float2half(in[threadIdx.x]);
    half2 g = __hadd2(h, h);
    out[threadIdx.x] = __low2float(g);
}

KERNEL right_exchange(float* out, const float* in, int n) {
    float a = in[threadIdx.x], b;
    exchange(a, b);
    out[threadIdx.x] = b;
}

KERNEL right_pointer(float* out, const float* in, int n) {
    float (*f)(float4) = n > 1000 ? second : first;
    out[threadIdx.x] = f(some(in[threadIdx.x], n));
}

KERNEL right_lanes(float* out, const float* in, int n) {
    if (threadIdx.x >= 16) return;
    float sum = in[threadIdx.x];
    for (int step = 8; step; step /= 2) sum += __shfl_down_sync(0xffff, sum, step);
    if (threadIdx.x == 0) out[0] = sum;
}

KERNEL right_exchanged(float* out, const float* in, int n) {
    __shared__ int last;
    if (threadIdx.x == 0) atomicExch(&last, n);
    __syncthreads();
    out[threadIdx.x] = last;
}

KERNEL right_overwritten(float* out, const float* in, int n) {
    float x;
    if (n > 100) x = 1;
    out[threadIdx.x] = x;
    out[threadIdx.x] = in[threadIdx.x];
}

KERNEL right_copied_later(float* out, const float* in, int n) {
    __shared__ float4 from[32], to[32];
    from[threadIdx.x].x = in[threadIdx.x];
    to[threadIdx.x] = from[threadIdx.x];
    out[threadIdx.x] = to[threadIdx.x].x;
}

KERNEL right_short_circuit(float* out, const float* in, int n) {
    bool known = n > 100;
    float x;
    if (known) x = in[0];
    out[threadIdx.x] = known && x > 0 ? 1 : 2;
}

KERNEL right_empty(float* out, const float* in, int n) {
    out[threadIdx.x] = plus(in[threadIdx.x], Empty(), 1);
}

KERNEL right_product(float* out, const float* in, int n) {  // rows from 8 on are never set, and never stored
    unsigned a[4], b[2] = {0x3c003c00, 0x3c003c00};
    float c[4];
    a[0] = a[2] = 0x3c003c00;
    c[0] = c[1] = n;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    out[threadIdx.x] = c[0] + c[1];
}

KERNEL wrong_product(float* out, const float* in, int n) {
    unsigned a[4], b[2] = {0x3c003c00, 0x3c003c00};
    float c[4];
    a[0] = a[2] = 0x3c003c00;
    c[0] = c[1] = c[2] = c[3] = n;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));  // wrong_product
    out[threadIdx.x] = c[2];  // OTHER wrong_product
}

KERNEL wrong_tile(float* out, const float* in, int n) {
    using namespace nvcuda;
    __shared__ half a[256];
    __shared__ float c[256];
    for (int i = threadIdx.x; i < 255; i += 32) a[i] = __float2half(1);
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
    wmma::load_matrix_sync(x, a, 16);  // wrong_tile
    wmma::fill_fragment(y, __float2half(1));
    wmma::fill_fragment(z, 0.0f);
    wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(c, z, 16, wmma::mem_row_major);
    __syncwarp();
    out[threadIdx.x] = c[threadIdx.x] + c[224 + threadIdx.x];  // OTHER wrong_tile
}

KERNEL right_tile(float* out, const float* in, int n) {
    using namespace nvcuda;
    __shared__ half a[256];
    __shared__ float c[256];
    for (int i = threadIdx.x; i < 255; i += 32) a[i] = __float2half(1);
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
    wmma::load_matrix_sync(x, a, 16);
    wmma::fill_fragment(y, __float2half(1));
    wmma::fill_fragment(z, 0.0f);
    wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(c, z, 16, wmma::mem_row_major);
    __syncwarp();
    out[threadIdx.x] = c[threadIdx.x] + c[208 + threadIdx.x];  // of rows 0, 1, 13 and 14
}

KERNEL wrong_branch(float* out, const float* in, int n) {
    int x;
    if (n > 100) x = 1;
    if (x > 2) out[threadIdx.x] = 1;  // wrong_branch
    else out[threadIdx.x] = 2;
}

KERNEL wrong_loop(float* out, const float* in, int n) {
    int end;
    float sum = 0;
    if (n > 100) end = 1;
    for (int i = 0; i < end; i++) sum += in[i];  // wrong_loop
    out[threadIdx.x] = sum;
}

KERNEL wrong_switch(float* out, const float* in, int n) {
    int x;
    if (n > 100) x = 1;
    switch (x) {  // wrong_switch
        case 0: out[threadIdx.x] = 4; break;
        case 1: out[threadIdx.x] = 7; break;
        case 2: out[threadIdx.x] = 1; break;
        case 3: out[threadIdx.x] = 9; break;
        case 4: out[threadIdx.x] = 3; break;
        case 5: out[threadIdx.x] = 2; break;
        default: out[threadIdx.x] = 0;
    }
}

KERNEL wrong_index(float* out, const float* in, int n) {
    int j;
    if (n > 100) j = 1;
    out[j] = 1;  // wrong_index
}

KERNEL wrong_index_from_memory(float* out, const float* in, int n) {
    __shared__ int from[32];
    if (threadIdx.x != 5) from[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int j = from[threadIdx.x];  // wrong_index_from_memory
    out[threadIdx.x] = in[j];  // OTHER wrong_index_from_memory
}

KERNEL wrong_copy(float* out, const float* in, int n) {
    float4 v;
    v.x = v.z = v.w = in[threadIdx.x];
    float4 w = v;  // wrong_copy
    out[threadIdx.x] = w.x + w.y;  // OTHER wrong_copy
}

KERNEL wrong_argument(float* out, const float* in, int n) {
    float4 v;
    v.x = v.z = v.w = in[threadIdx.x];
    out[threadIdx.x] = second(v);  // wrong_argument
}

KERNEL wrong_result(float* out, const float* in, int n) {
    float4 v = same(some(in[threadIdx.x], n));
    if (v.y > 1) out[threadIdx.x] = 1;  // OTHER wrong_result
    else out[threadIdx.x] = 2;
}

KERNEL wrong_scalar_argument(float* out, const float* in, int n) {
    float x;
    if (n > 100) x = 1;
    out[threadIdx.x] = twice(x);  // wrong_scalar_argument
}

KERNEL wrong_pointer(float* out, const float* in, int n) {
    float (*f)(float4) = n > 0 ? second : first;
    float4 v;
    v.x = in[threadIdx.x];
    out[threadIdx.x] = f(v);  // wrong_pointer
}

KERNEL wrong_exchange(float* out, const float* in, int n) {
    float a = in[threadIdx.x], b;
    exchange(a, b);
    out[threadIdx.x] = a;  // OTHER wrong_exchange
}

KERNEL wrong_through_shared(float* out, const float* in, int n) {
    __shared__ float kept[32];
    float x;
    if (n > 100) x = 1;
    kept[threadIdx.x] = x;  // wrong_through_shared
    __syncthreads();
    out[threadIdx.x] = kept[31 - threadIdx.x];  // OTHER wrong_through_shared
}

KERNEL wrong_atomic(float* out, const float* in, int n) {
    float x;
    if (n > 100) x = 1;
    atomicAdd(&out[0], x);  // wrong_atomic
}

KERNEL wrong_counter(float* out, const float* in, int n) {
    __shared__ int count;
    atomicAdd(&count, 1);  // wrong_counter
    __syncthreads();
    out[threadIdx.x] = 1;
}

KERNEL wrong_vote(float* out, const float* in, int n) {
    bool x;
    if (n > 100) x = true;
    out[threadIdx.x] = __ballot_sync(0xffffffff, x);  // wrong_vote
}

KERNEL wrong_mask(float* out, const float* in, int n) {
    unsigned mask;
    if (n > 100 || threadIdx.x) mask = 0xffffffff;
    out[threadIdx.x] = __shfl_sync(mask, 1, 0);  // wrong_mask
}

KERNEL wrong_output(float* out, const float* in, int n) {
    float sum;
    for (int i = 0; i < n; i++)
        sum += in[i];  // wrong_output
    if (threadIdx.x > 2) out[threadIdx.x] = sum;  // OTHER wrong_output
}

KERNEL wrong_print(float* out, const float* in, int n) {
    int x;
    if (n > 100) x = 1;
    printf("%d %d\n", n, x);  // wrong_print
}

KERNEL wrong_lanes(float* out, const float* in, int n) {
    if (threadIdx.x >= 16) return;
    out[threadIdx.x] = __shfl_down_sync(0xffff, in[threadIdx.x], 4);  // wrong_lanes
}

KERNEL wrong_half(float* out, const float* in, int n) {
    half2 h;
    h.x = __float2half(in[threadIdx.x]);
    half2 g = h;  // wrong_half
    out[threadIdx.x] = __high2float(g);  // OTHER wrong_half
}

KERNEL wrong_bits(float* out, const float* in, int n) {
    Bits b;
    b.a = 2; b.b = n;
    out[threadIdx.x] = b.c;  // OTHER wrong_bits
}

KERNEL wrong_flag(float* out, const float* in, int n) {
    __shared__ bool done;
    if (n > 100) done = true;
    __syncthreads();
    out[threadIdx.x] = done ? 1 : 2;  // wrong_flag
}

KERNEL wrong_byte(float* out, const float* in, int n) {
    __shared__ unsigned char some[33];
    some[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = some[threadIdx.x + 1];  // wrong_byte
}

KERNEL wrong_short(float* out, const float* in, int n) {
    __shared__ short some[33];
    some[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = some[threadIdx.x + 1];  // wrong_short
}

KERNEL wrong_double(float* out, const float* in, int n) {
    __shared__ double some[33];
    some[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = some[threadIdx.x + 1];  // wrong_double
}

KERNEL wrong_dynamic(float* out, const float* in, int n) {
    extern __shared__ float pool[];
    pool[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = pool[threadIdx.x + 1];  // wrong_dynamic
}

KERNEL wrong_left_over(float* out, const float* in, int n) {
    float x;
    if (n > 100) x = 1;
    left_over[threadIdx.x] = x;  // wrong_left_over
}

KERNEL wrong_async_copy(float* out, const float* in, int n) {
    __shared__ float to[32];
    __pipeline_memcpy_async(&to[threadIdx.x], &out[threadIdx.x], 4);  // wrong_async_copy
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[threadIdx.x] = to[threadIdx.x];  // OTHER wrong_async_copy
}

KERNEL wrong_async_index(float* out, const float* in, int n) {
    __shared__ float to[32];
    int j;
    if (n > 100) j = 1;
    __pipeline_memcpy_async(&to[j], &in[threadIdx.x], 4);  // wrong_async_index
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[threadIdx.x] = to[threadIdx.x];
}

KERNEL wrong_carry(unsigned long long* out, const float* in, int n) {
    unsigned low, high = 0;
    if (n > 100) low = 1;
    asm("{ .reg .u32 t; add.cc.u32 t, %1, %1; addc.u32 %0, 0, 0; }" : "=r"(high) : "r"(low));  // wrong_carry
    out[threadIdx.x] = high;  // OTHER wrong_carry
}

KERNEL wrong_local_array(float* out, const float* in, int n) {
    float sum[4];
    for (int i = 0; i < 3; i++) sum[i] = in[i];
    float total = 0;
    for (int i = 0; i < 4; i++)
        total += sum[i];  // wrong_local_array
    out[threadIdx.x] = total;  // OTHER wrong_local_array
}

KERNEL wrong_last_warp(float* out, const float* in, int n) {
    float v = __shfl_down_sync(0xffffffff, in[threadIdx.x % 32], 4);  // wrong_last_warp
    if (threadIdx.x == 37) out[0] = v;  // OTHER wrong_last_warp
}

KERNEL right_last_warp(float* out, const float* in, int n) {
    float sum = in[threadIdx.x % 32];
    for (int step = 4; step; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
    if (threadIdx.x == 32) out[0] = sum;
}
