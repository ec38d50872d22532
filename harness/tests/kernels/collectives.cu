// Barriers and warp collectives, one use each, whose results test_collectives.py knows. Thread i finds a[i]
// in v and leaves its result in r.
#define TEST(name) extern "C" __global__ void t_##name(int* out, const int* a)
#define BEGIN int i = threadIdx.x, v = a[i], r = 0;
#define END out[i] = r;

__device__ __noinline__ int warp_sum(int v) {
  for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
  return __shfl_sync(~0u, v, 0);
}
__device__ __noinline__ int staged(int v, int i) {
  __shared__ int s[64];
  s[i] = v;
  __syncthreads();
  int r = s[63 - i];
  __syncthreads();
  return r;
}

TEST(all) {
  BEGIN
  r = __all_sync(~0u, v > -5) * 10 + (__all_sync(~0u, v > 0) != 0);
  END
}

TEST(any) {
  BEGIN
  r = __any_sync(~0u, v == 4) * 10 + (__any_sync(~0u, v > 50) != 0);
  END
}

TEST(ballot) {
  BEGIN
  r = __ballot_sync(~0u, v > 0);
  END
}

TEST(ballot_of_some) {
  BEGIN
  r = i & 1 ? __ballot_sync(0xAAAAAAAA, v > 0) : 7;
  END
}

TEST(uniform) {
  BEGIN
  asm("{ .reg .pred p, q; setp.gt.s32 p, %1, 0; vote.sync.uni.pred q, p, -1; selp.s32 %0, 1, 0, q; }"
      : "=r"(r) : "r"(v));
  int s;
  asm("{ .reg .pred p, q; setp.gt.s32 p, %1, -9; vote.sync.uni.pred q, !p, -1; selp.s32 %0, 2, 0, q; }"
      : "=r"(s) : "r"(v));
  r += s;
  END
}

TEST(active_mask) {
  BEGIN
  r = __activemask() >> (i % 32) & 1;
  END
}

TEST(match_any) {
  BEGIN
  r = __match_any_sync(~0u, v);
  END
}

TEST(match_any_64) {
  BEGIN
  r = __match_any_sync(~0u, (long long)v << 33);
  END
}

TEST(match_all) {
  BEGIN
  int p, q;
  r = __match_all_sync(~0u, v, &p) != 0;
  unsigned m = __match_all_sync(~0u, i / 32, &q);
  r += 2 * p + 4 * q + 8 * (m == ~0u);
  END
}

TEST(redux_add) {
  BEGIN
  r = __reduce_add_sync(~0u, v);
  END
}

TEST(redux_add_unsigned) {
  BEGIN
  r = __reduce_add_sync(~0u, 0x80000001u + (unsigned)v);
  END
}

TEST(redux_min) {
  BEGIN
  r = __reduce_min_sync(~0u, v * 1000);
  END
}

TEST(redux_max) {
  BEGIN
  r = __reduce_max_sync(~0u, v * 1000);
  END
}

TEST(redux_min_unsigned) {
  BEGIN
  r = __reduce_min_sync(~0u, (unsigned)v);
  END
}

TEST(redux_max_unsigned) {
  BEGIN
  r = __reduce_max_sync(~0u, (unsigned)v);
  END
}

TEST(redux_and) {
  BEGIN
  r = __reduce_and_sync(~0u, v | 6u);
  END
}

TEST(redux_or) {
  BEGIN
  r = __reduce_or_sync(~0u, (unsigned)(v & 12));
  END
}

TEST(redux_xor) {
  BEGIN
  r = __reduce_xor_sync(~0u, (unsigned)v);
  END
}

TEST(redux_of_some) {
  BEGIN
  r = i % 32 < 16 ? __reduce_add_sync(0xffffu, v) : __reduce_max_sync(0xffff0000u, v);
  END
}

TEST(shuffle_float) {
  BEGIN
  r = (int)(__shfl_down_sync(~0u, v * 0.5f, 3) * 2);
  END
}

TEST(shuffle_double) {
  BEGIN
  r = (int)(__shfl_xor_sync(~0u, v * 1e-9, 5) * 2e9);
  END
}

TEST(shuffle_long_long) {
  BEGIN
  r = (int)(__shfl_sync(~0u, (long long)v << 35 | 5, 7) >> 34);
  END
}

TEST(shuffle_of_halves) {
  BEGIN
  r = i % 32 < 16 ? __shfl_sync(0xffff, v, 3) : __shfl_sync(0xffff0000, v, 20);
  END
}

TEST(shuffle_in_a_loop) {
  BEGIN
  for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  r = v;
  END
}

TEST(shuffle_scan) {
  BEGIN
  for (int d = 1; d < 32; d *= 2) {
    int u = __shfl_up_sync(~0u, v, d);
    if (i % 32 >= d) v += u;
  }
  r = v;
  END
}

TEST(shuffle_in_a_function) {
  BEGIN
  r = warp_sum(v) + warp_sum(i);
  END
}

TEST(two_halves_take_turns) {
  BEGIN
  if (i & 1) {
    __syncwarp(0xAAAAAAAA);
    r = __shfl_sync(0xAAAAAAAA, v, 1);
    __syncwarp(0xAAAAAAAA);
  } else { r = __shfl_sync(0x55555555, v, 2); }
  __syncwarp();
  r += __shfl_sync(~0u, i, 4);
  END
}

TEST(exchange_through_shared_memory) {
  BEGIN
  __shared__ int s[64];
  s[i] = v;
  __syncwarp();
  r = s[i ^ 1];
  __syncwarp();
  s[i ^ 3] = i;
  __syncwarp();
  r = r * 100 + s[i];
  END
}

TEST(syncthreads_count) {
  BEGIN
  r = __syncthreads_count(v > 0) * 100 + __syncthreads_count(i < 5);
  END
}

TEST(syncthreads_and) {
  BEGIN
  r = (__syncthreads_and(v > -5) != 0) * 2 + (__syncthreads_and(i != 40) != 0);
  END
}

TEST(syncthreads_or) {
  BEGIN
  r = (__syncthreads_or(i == 40) != 0) * 2 + (__syncthreads_or(v > 9) != 0);
  END
}

TEST(barrier_twice) {
  BEGIN
  __shared__ int s[64];
  for (int k = 0; k < 5; k++) {
    s[i] = v + k;
    __syncthreads();
    r += s[(i + k) % 64];
    __syncthreads();
  }
  END
}

TEST(named_barriers) {
  BEGIN
  __shared__ int s[64];
  s[i] = v;
  if (i < 32) asm volatile("bar.sync 1, 32;" ::: "memory");
  else asm volatile("bar.sync 2, 32;" ::: "memory");
  r = s[i ^ 31];
  END
}

TEST(named_barrier_at_two_places) {
  BEGIN
  __shared__ int s[64];
  if (i < 32) {
    s[i] = v;
    asm volatile("bar.sync 1, 64;" ::: "memory");
    r = s[i ^ 31];
  } else {
    s[i] = v;
    asm volatile("barrier.cta.sync.aligned 1, 64;" ::: "memory");
    r = s[i ^ 31];
  }
  if (i < 32) asm volatile("bar.sync 0, 64;" ::: "memory");
  else __syncthreads();
  END
}

TEST(named_barrier_of_all_at_two_places) {
  BEGIN
  __shared__ int s[64];
  if (i < 32) {
    s[i ^ 31] = v;
    asm volatile("bar.sync 7;" ::: "memory");
  } else {
    s[i ^ 31] = v;
    asm volatile("bar.sync 7;" ::: "memory");
  }
  r = s[i];
  END
}

TEST(producer_and_consumer) {
  BEGIN
  __shared__ int s[32];
  if (i < 32) {
    s[i] = v;
    __threadfence_block();
    asm volatile("bar.arrive 3, 64;" ::: "memory");
    r = 1;
  } else {
    asm volatile("bar.sync 3, 64;" ::: "memory");
    r = s[63 - i];
  }
  END
}

TEST(barrier_number_in_a_register) {
  BEGIN
  __shared__ int s[64];
  s[i] = v;
  int b = 4 + i / 32, n = 32;
  asm volatile("barrier.sync %0, %1;" :: "r"(b), "r"(n) : "memory");
  r = s[i ^ 1];
  END
}

TEST(named_barrier_that_counts) {
  BEGIN
  asm volatile("{ .reg .pred p; setp.gt.s32 p, %1, 0; barrier.red.popc.u32 %0, 5, 64, p; }"
      : "=r"(r) : "r"(v));
  END
}

TEST(barrier_in_a_function) {
  BEGIN
  r = staged(v, i) + staged(i, i);
  END
}

TEST(barriers_between_warps_in_turn) {
  BEGIN
  __shared__ int s;
  if (i == 0) s = 1;
  __syncthreads();
  for (int w = 0; w < 2; w++) {
    if (i == 32 * w) s = s * 3 + w;
    __syncthreads();
  }
  r = s;
  END
}
