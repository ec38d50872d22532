//# Memory fence functions

//: __threadfence_block = t + 1
TEST(int, fence_block) { __shared__ int s[32]; s[t] = t; __threadfence_block(); out[t] = s[t] + 1; }

//: __threadfence: the last block adds up @ 4, 8, 0 = np.where(t == 0, 28, 0)
__device__ int parts[4];
__device__ unsigned arrived;
TEST(int, fence_device) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = 7;
        __threadfence();
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        int total = 0;
        for (int i = 0; i < 4; i++) total += *(volatile int*)&parts[i];
        atomicAdd(out, total);
    }
}

//: __threadfence_system = t
TEST(int, fence_system) { out[t] = t; __threadfence_system(); }

//# Synchronisation functions

//: __syncthreads = 31 - t
TEST(int, barrier) { __shared__ int s[32]; s[t] = t; __syncthreads(); out[t] = s[31 - t]; }

//: __syncthreads_count = 11 + 0 * t
TEST(int, barrier_count) { out[t] = __syncthreads_count(t % 3 == 0); }

//: __syncthreads_and and __syncthreads_or = 1 + 0 * t
TEST(int, barrier_and_or) { bool all = __syncthreads_and(t < 31); out[t] = __syncthreads_or(t == 5) && !all; }

//: __syncwarp = t ^ 1
TEST(int, warp_barrier) { __shared__ int s[32]; s[t] = t; __syncwarp(); out[t] = s[t ^ 1]; }

//: __syncwarp of some lanes = np.where(t < 16, t ^ 1, t)
TEST(int, warp_barrier_of_some) {
    __shared__ int s[32];
    s[t] = t;
    if (t < 16) { __syncwarp(0xffff); out[t] = s[t ^ 1]; } else out[t] = s[t];
}

//: named barriers by inline PTX @ 1, 64, 0 = t ^ 32
TEST(int, named_barrier) {
    __shared__ int s[64];
    s[t] = t;
    asm volatile("bar.sync 3, 64;" ::: "memory");
    out[t] = s[t ^ 32];
}

//# Read-only data cache load function

//: __ldg of int, float4 and const __restrict__ = t + 3
__device__ const int table[4] = {0, 1, 2, 3};
__device__ float4 fours[1] = {{1, 2, 3, 4}};
TEST(int, read_only) { float4 f = __ldg(fours); out[t] = __ldg(&table[t % 4]) + t - t % 4 + int(f.z); }

//: __ldg of 8 and 16 bits, and of 64 = 3 * (t % 8)
__device__ const signed char bytes[8] = {0, 1, 2, 3, 4, 5, 6, 7};
__device__ const short shorts_[8] = {0, 1, 2, 3, 4, 5, 6, 7};
__device__ const double doubles_[8] = {0, 1, 2, 3, 4, 5, 6, 7};
TEST(int, read_only_types) { int i = t % 8; out[t] = __ldg(bytes + i) + __ldg(shorts_ + i) + int(__ldg(doubles_ + i)); }

//# Load and store functions using cache hints

//: __ldca, __ldcg, __ldcs, __ldlu, __ldcv = 5 * t
TEST(int, load_hints) {
    out[t] = t;
    out[t] = __ldca(out + t) + __ldcg(out + t) + __ldcs(out + t) + __ldlu(out + t) + __ldcv(out + t);
}

//: __stwb, __stcg, __stcs, __stwt = t + 4
TEST(int, store_hints) {
    __stwb(out + t, t);
    __stcg(out + t, out[t] + 1);
    __stcs(out + t, out[t] + 1);
    __stwt(out + t, out[t] + 2);
}

//: createpolicy and .L2::cache_hint = 3 * t
TEST(int, policies) {
    unsigned long long policy, fraction;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %0, 0.5;" : "=l"(fraction));
    asm volatile("st.global.L2::cache_hint.s32 [%0], %1, %2;" ::"l"(out + t), "r"(t), "l"(policy) : "memory");
    int a, b;
    asm volatile("ld.global.L2::cache_hint.s32 %0, [%1], %2;" : "=r"(a) : "l"(out + t), "l"(policy));
    asm volatile("ld.global.L1::no_allocate.L2::cache_hint.s32 %0, [%1], %2;" : "=r"(b) : "l"(out + t), "l"(fraction));
    out[t] = 2 * a + b;
}

//: ld.global.nc.L1::no_allocate.L2::128B = 6 + 0 * t
TEST(int, load_spelling) {
    int a, b, c;
    asm("ld.global.nc.L1::no_allocate.L2::128B.s32 %0, [%1];" : "=r"(a) : "l"(table + 1));
    asm("ld.global.nc.L2::128B.s32 %0, [%1];" : "=r"(b) : "l"(table + 2));
    asm("ld.global.L1::evict_last.s32 %0, [%1];" : "=r"(c) : "l"(table + 3));
    out[t] = a + b + c;
}

//# Time function

//: clock and clock64 do not go back = 1 + 0 * t
TEST(int, clocks) { long long a = clock64(); clock_t b = clock(); out[t] = clock64() >= a && b == b; }

//: %globaltimer = 1 + 0 * t
TEST(int, global_timer) {
    unsigned long long a, b;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(a));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(b));
    out[t] = b >= a;
}

//# Nanosleep function

//: __nanosleep while another thread works = t * 0 + 1
TEST(int, sleeping) {
    __shared__ volatile int ready;
    if (t == 0) ready = 0;
    __syncthreads();
    if (t == 31) { __threadfence_block(); atomicExch((int*)&ready, 1); }
    else while (atomicAdd((int*)&ready, 0) == 0) __nanosleep(20);
    out[t] = 1;
}

//# Atomic functions

//: atomicAdd of int, unsigned, unsigned long long = 3 * (31 * 32 // 2) + 0 * t
TEST(int, atomic_integers) {
    __shared__ int a; __shared__ unsigned b; __shared__ unsigned long long c;
    if (t == 0) { a = 0; b = 0; c = 0; }
    __syncthreads();
    atomicAdd(&a, t); atomicAdd(&b, unsigned(t)); atomicAdd(&c, 0ull + t);
    __syncthreads();
    out[t] = a + b + c;
}

//: atomicAdd of float and double = 64.0 + 0 * t
TEST(float, atomic_floats) {
    __shared__ float a; __shared__ double b;
    if (t == 0) { a = 0; b = 0; }
    __syncthreads();
    atomicAdd(&a, 0.5f); atomicAdd(&b, 1.5);
    __syncthreads();
    out[t] = a + b;
}

//: atomicSub = 100 - 32 + 0 * t
TEST(int, atomic_sub) { __shared__ int a; if (t == 0) a = 100; __syncthreads(); atomicSub(&a, 1); __syncthreads(); out[t] = a; }

//: atomicExch: every value is handed on once = 496 + 0 * t
TEST(int, atomic_exchange) {
    __shared__ int a, sum;
    if (t == 0) a = sum = 0;
    __syncthreads();
    atomicAdd(&sum, atomicExch(&a, t));
    __syncthreads();
    out[t] = sum + a;
}

//: atomicExch of float = 1.0 + 0 * t
TEST(float, atomic_exchange_float) { __shared__ float a; if (t == 0) a = 0; __syncthreads(); atomicExch(&a, 1.0f); __syncthreads(); out[t] = a; }

//: atomicMin and atomicMax of int = 31 - -5 + 0 * t
TEST(int, atomic_extremes) {
    __shared__ int low, high;
    if (t == 0) { low = 1000; high = -1000; }
    __syncthreads();
    atomicMin(&low, t - 5); atomicMax(&high, t);
    __syncthreads();
    out[t] = high - low;
}

//: atomicMin and atomicMax of 64 bits = 31 - -5 + 0 * t
TEST(long long, atomic_wide_extremes) {
    __shared__ long long low, high;
    if (t == 0) { low = 1000; high = -1000; }
    __syncthreads();
    atomicMin(&low, t - 5LL); atomicMax(&high, 0LL + t);
    __syncthreads();
    out[t] = high - low;
}

//: atomicInc wraps = 2 + 0 * t
TEST(unsigned, atomic_inc) { __shared__ unsigned a; if (t == 0) a = 0; __syncthreads(); atomicInc(&a, 9); __syncthreads(); out[t] = a; }

//: atomicDec wraps = 3 + 0 * t
TEST(unsigned, atomic_dec) { __shared__ unsigned a; if (t == 0) a = 5; __syncthreads(); atomicDec(&a, 9); __syncthreads(); out[t] = a; }

//: atomicCAS as a loop = 32.0 + 0 * t
TEST(float, atomic_cas) {
    __shared__ int bits;
    if (t == 0) bits = __float_as_int(0.0f);
    __syncthreads();
    int old = bits, seen;
    do { seen = old; old = atomicCAS(&bits, seen, __float_as_int(__int_as_float(seen) + 1.0f)); } while (seen != old);
    __syncthreads();
    out[t] = __int_as_float(bits);
}

//: atomicCAS of 16 and 64 bits = 2 + 0 * t
TEST(int, atomic_cas_sizes) {
    __shared__ unsigned short a; __shared__ unsigned long long b;
    if (t == 0) { a = 0; b = 0; }
    __syncthreads();
    atomicCAS(&a, (unsigned short)0, (unsigned short)1); atomicCAS(&b, 0ull, 1ull);
    __syncthreads();
    out[t] = a + int(b);
}

//: atomicAnd, atomicOr, atomicXor = 7 + 0 * t
TEST(unsigned, atomic_bits) {
    __shared__ unsigned a, b, c;
    if (t == 0) { a = ~0u; b = 0; c = 0; }
    __syncthreads();
    atomicAnd(&a, ~(1u << t)); atomicOr(&b, 1u << t); atomicXor(&c, 1u << t);
    __syncthreads();
    out[t] = (a == 0) + 2 * (b == ~0u) + 4 * (c == ~0u);
}

//: _block and _system atomics = 64 + 0 * t
TEST(int, atomic_scopes) {
    __shared__ int a; __shared__ unsigned b;
    if (t == 0) { a = 0; b = 0; }
    __syncthreads();
    atomicAdd_block(&a, 1); atomicOr_system(&b, 1u << t);
    __syncthreads();
    out[t] = a + __popc(b);
}

//: __nv_atomic_fetch_add and __nv_atomic_load_n = 32 + 0 * t
TEST(int, built_in_atomics) {
    __shared__ int a;
    if (t == 0) a = 0;
    __syncthreads();
    __nv_atomic_fetch_add(&a, 1, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_BLOCK);
    __syncthreads();
    out[t] = __nv_atomic_load_n(&a, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE);
}

//: __nv_atomic_compare_exchange_n and __nv_atomic_thread_fence = 1 + 0 * t
TEST(int, built_in_exchange) {
    __shared__ int a;
    if (t == 0) a = 0;
    __syncthreads();
    int expected = 0;
    __nv_atomic_compare_exchange_n(&a, &expected, 1, false, __NV_ATOMIC_ACQ_REL, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_BLOCK);
    __nv_atomic_thread_fence(__NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_DEVICE);
    __syncthreads();
    out[t] = a;
}

//# Address space predicate functions

//: __isGlobal, __isShared, __isConstant, __isLocal = 15 + 0 * t
__constant__ int fixed = 1;
TEST(int, predicates) {
    __shared__ int s;
    int local = t;
    out[t] = __isGlobal(out) + 2 * __isShared(&s) + 4 * __isConstant(&fixed) + 8 * __isLocal(&local);
}

//: __isGridConstant = 0 * t
TEST(int, grid_constant_predicate) { int local = t; out[t] = __isGridConstant(&local); }

//# Address space conversion functions

//: __cvta_generic_to_shared and back = 31 - t
TEST(int, conversions) {
    __shared__ int s[32];
    size_t at = __cvta_generic_to_shared(&s[t]);
    *(int*)__cvta_shared_to_generic(at) = 31 - t;
    out[t] = s[t];
}

//: __cvta_generic_to_global, _local, _constant = t + 1
TEST(int, more_conversions) {
    int local = t;
    *(int*)__cvta_global_to_generic(__cvta_generic_to_global(out + t)) =
        *(int*)__cvta_local_to_generic(__cvta_generic_to_local(&local)) +
        *(int*)__cvta_constant_to_generic(__cvta_generic_to_constant(&fixed));
}
