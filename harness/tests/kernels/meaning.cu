// Small kernels, one feature of C++ each, whose results emit/test_module.py knows. Thread i finds a[i] in x and
// leaves its result in r.
#define TEST(name) extern "C" __global__ void t_##name(int* out, const int* a, int n)
#define BEGIN int i = threadIdx.x, x = a[i], r = 0;
#define END out[i] = r;

TEST(if_else) {
  BEGIN
  if (x < 0) r = -x;
  else if (x > 20) r = 20;
  else r = x;
  END
}

TEST(nested_ifs) {
  BEGIN
  if (x > 0) {
    if (i & 1) {
      if (x & 2) r = 1;
      else r = 2;
    } else r = 3;
    r += 10;
  } else r = 4;
  END
}

TEST(while) {
  BEGIN
  int v = i;
  while (v > 1) {
    v = v & 1 ? 3 * v + 1 : v / 2;
    r++;
  }
  END
}

TEST(do_while) {
  BEGIN
  int v = i;
  do {
    v -= 7;
    r++;
  } while (v > 0);
  END
}

TEST(break_and_continue) {
  BEGIN
  for (int j = 0; j < n; j++) {
    if (j % 3 == 0) continue;
    if (j > i) break;
    r += j;
  }
  END
}

TEST(nested_loops) {
  BEGIN
  for (int j = 0; j <= i % 7; j++) for (int k = j; k < 9; k += 2) {
    if (k == 5) break;
    r += j * k;
  }
  END
}

TEST(goto) {
  BEGIN
  again: r += 3;
  if (r < i) goto again;
  END
}

TEST(switch_table) {
  BEGIN
  switch (i % 8) {
    case 0: r = 5;
    break;
    case 1: r = 7;
    case 2: r += 9;
    break;
    case 3: r = x;
    break;
    case 4: r = -x;
    break;
    case 5: r = i;
    break;
    case 6: return;
    default: r = 99;
  }
  END
}

TEST(switch_sparse) {
  BEGIN
  switch (x * 1000) {
    case -1000: r = 1;
    break;
    case 0: r = 2;
    break;
    case 49000: r = 3;
    break;
    default: r = 4;
  }
  END
}

TEST(switch_in_a_loop) {
  BEGIN
  for (int s = 0, t = i; s != 9;) switch (s) {
    case 0: s = t & 1 ? 2 : 5;
    break;
    case 2: r += 3;
    s = 5;
    break;
    case 5: t >>= 1;
    r++;
    s = t ? 0 : 9;
    break;
  }
  END
}

TEST(short_circuit) {
  BEGIN
  int c = 0;
  if ((x > 0 && ++c > 0) || (++c > 0 && i > 9)) r = c * 10;
  else r = c;
  END
}

TEST(conditional_chain) {
  BEGIN
  r = x > 10 ? x > 30 ? 3 : 2 : x < -10 ? x < -30 ? 5 : 4 : 1;
  END
}

TEST(early_return) {
  BEGIN
  if (i % 3 == 0) {
    out[i] = 77;
    return;
  }
  r = 5;
  END
}

TEST(loop_of_zero_rounds) {
  BEGIN
  r = 1;
  for (int j = n; j < n; j++) r = 9;
  END
}

TEST(predicated_stores) {
  BEGIN
  out[i] = 1;
  if (x & 1) out[i] = 2;
  if (x & 2) out[i] += 4;
  r = out[i];
  END
}

TEST(unrolled) {
  BEGIN
#pragma unroll
  for (int j = 0; j < 16; j++) if (j <= i) r += a[j] * j;
  END
}

TEST(not_unrolled) {
  BEGIN
#pragma unroll 1
  for (int j = 0; j < 16; j++) r = r * 3 + a[j];
  END
}

TEST(two_inductions) {
  BEGIN
  for (int p = 0, q = n; p < q; p += 2, q -= 3) r += q - p;
  END
}

__device__ int twice(int v) { return v + v; }
TEST(inline_call) {
  BEGIN
  r = twice(x) + twice(i);
  END
}

__device__ __noinline__ int thrice(int v) { return 3 * v; }
TEST(real_call) {
  BEGIN
  r = thrice(thrice(x)) - i;
  END
}

__device__ __noinline__ int halve(int v) { return v / 2; }
TEST(call_in_a_branch) {
  BEGIN
  if (i & 1) r = halve(x);
  else r = halve(i) + 1;
  END
}

__device__ __noinline__ void exchange(int& p, int& q) {
  int t = p;
  p = q;
  q = t;
}
TEST(by_reference) {
  BEGIN
  int u = x, v = i;
  exchange(u, v);
  r = 100 * u + v;
  END
}

__device__ __noinline__ int divide(int a, int b, int* q) {
  *q = a / b;
  return a % b;
}
TEST(out_parameters) {
  BEGIN
  int q;
  r = divide(i + 100, 7, &q);
  r = 1000 * q + r;
  END
}

struct Minmax { int low, high; };
__device__ __noinline__ Minmax minmax(int p, int q) {
  return p < q ? Minmax{p, q} : Minmax{q, p};
}
TEST(struct_result) {
  BEGIN
  Minmax m = minmax(x, i);
  r = 100 * m.low + m.high;
  END
}

struct Point {
  int x;
  double w;
  short s[2];
};
__device__ __noinline__ int weigh(Point p, int k) { return p.x + (int)p.w + p.s[0] + p.s[1] + k; }
TEST(struct_argument) {
  BEGIN
  Point p{x, 2.5, {i, 7}};
  r = weigh(p, 3);
  END
}

__device__ __noinline__ int mix(signed char a, unsigned char b, short c, bool d, long long e,
    float f, double g) {
  return a + b + c + d + (int)(e >> 31) + (int)(1 / f) + (int)(1 / g);
}
TEST(small_types) {
  BEGIN
  r = mix((signed char)x, (unsigned char)x, (short)i, true, 1ll << 33, 0.5f, 0.25);
  END
}

__device__ __noinline__ unsigned char low(int v) { return v; }
__device__ __noinline__ bool negative(int v) { return v < 0; }
__device__ __noinline__ double scaled(int v) { return v * 0.5; }
__device__ __noinline__ long long wide(int v) { return (long long)v << 40; }
TEST(small_results) {
  BEGIN
  r = low(x) + (negative(x) ? 1000 : 0) + (int)(scaled(x) * 2) + (int)(wide(i) >> 40);
  END
}

__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
TEST(recursion) {
  BEGIN
  r = fib(i % 12);
  END
}

__device__ bool odd(int n);
__device__ __noinline__ bool even(int n) { return n == 0 || odd(n - 1); }
__device__ __noinline__ bool odd(int n) { return n != 0 && even(n - 1); }
TEST(mutual_recursion) {
  BEGIN
  r = even(i) ? 1 : 2;
  END
}

__device__ __noinline__ int digits(int v, int depth) {
  int d[3] = {v % 10, depth, v / 10};
  int rest = v < 10 ? 0 : digits(d[2], depth + 1);
  return d[0] + rest + d[1] - depth;
}
TEST(recursion_with_a_local_array) {
  BEGIN
  r = digits(i * 37, 0);
  END
}

template <class F> __device__ int apply(F f, int v) { return 2 * f(v); }
TEST(lambda) {
  BEGIN
  auto add = [=](int v) { return v + x; };
  r = apply(add, i);
  END
}

template <int P> __device__ int power(int v) {
  if constexpr (P == 0) return 1;
  else return v * power<P - 1>(v);
}
TEST(template) {
  BEGIN
  r = power<5>(i % 5) + power<0>(x);
  END
}

class Counter {
  int n;
  public:
  static constexpr int made = 40;
  __device__ Counter(int v) : n(v) {}
  __device__ Counter& operator+=(int v) {
    n += v;
    return *this;
  }
  __device__ void operator++() { n++; }
  __device__ int value() const { return n; }
};
TEST(class) {
  BEGIN
  Counter c(x);
  c += i;
  ++c;
  r = c.value() + Counter::made;
  END
}

__device__ int pick(int v) { return v; }
__device__ int pick(float) { return 10; }
__device__ int pick(double) { return 20; }
TEST(overloads) {
  BEGIN
  r = pick(x) + pick(2.0f) + pick(2.0);
  END
}

typedef int (*Operation)(int, int);
__device__ int more(int p, int q) { return p + q; }
__device__ int less(int p, int q) { return p - q; }
__device__ int times(int p, int q) { return p * q; }
__device__ Operation operations[4] = {more, less, times, more};
TEST(function_table) {
  BEGIN
  r = operations[i % 3](x, 3) + operations[3](x, i);
  if (n < 0) operations[1] = less;
  END
}

__device__ int plus_one(int v) { return v + 1; }
__device__ int doubled(int v) { return 2 * v; }
__device__ __noinline__ int twice_over(int (*f)(int), int v) { return f(f(v)); }
TEST(function_argument) {
  BEGIN
  r = twice_over(i & 1 ? plus_one : doubled, x);
  END
}

struct Base {
  __device__ virtual int get() { return 1; }
  __device__ virtual int more(int v) { return v; }
};
struct Derived : Base {
  int n;
  __device__ Derived(int v) : n(v) {}
  __device__ int get() override { return n + 10; }
};
TEST(virtual_functions) {
  BEGIN
  Base base;
  Derived derived(i);
  Base* p = x > 0 ? &derived : &base;
  r = p->get() + p->more(x);
  END
}

__device__ __noinline__ int sum12(int a, int b, int c, int d, int e, int f, int g, int h, int i,
    int j, int k, int l) {
  return a + b + c + d + e + f + g + h + i + j + k + l;
}
TEST(many_arguments) {
  BEGIN
  r = sum12(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, i, x);
  END
}

__device__ constexpr int table_size(int k) { return k * k; }
TEST(constexpr_function) {
  BEGIN
  constexpr int t = table_size(3);
  int v[t];
  for (int j = 0; j < t; j++) v[j] = j;
  r = v[i % t];
  END
}

extern "C" __device__ __noinline__ int rt_check(int v) { return v + 1; }
extern "C" __device__ __noinline__ int aligned_alloc2(int v) { return v + 2; }
extern "C" __device__ __noinline__ int bw_printf(int v) { return v + 3; }
TEST(names_of_the_runtime) {
  BEGIN
  r = rt_check(x) + aligned_alloc2(i) + bw_printf(1);
  END
}

extern "C" __device__ __noinline__ int tanhf2(int v) { return 2 * v; }
extern "C" __device__ __noinline__ int clock_gettime(int v, int w) { return v + w; }
TEST(names_of_the_library) {
  BEGIN
  r = tanhf2(x) + clock_gettime(i, 2);
  END
}

TEST(local_array) {
  BEGIN
  int v[16];
  for (int j = 0; j < 16; j++) v[(j * 5 + i) % 16] = j;
  r = v[(x + 64) % 16];
  END
}

TEST(local_array_in_two_dimensions) {
  BEGIN
  short v[4][6] = {};
  v[i % 4][i % 6] = x;
  for (auto& row : v) for (short e : row) r += e;
  END
}

TEST(pointer_to_a_local) {
  BEGIN
  int v = x;
  int* p = i & 1 ? &v : &r;
  *p += 5;
  r += v;
  END
}

__device__ __noinline__ int total(const int* v, int n) {
  int s = 0;
  while (n--) s += v[n];
  return s;
}
TEST(local_array_passed_on) {
  BEGIN
  int v[5] = {1, 2, 3, 4, 5};
  v[i % 5] += x;
  r = total(v, 5);
  END
}

struct Cell {
  char id;
  float w;
  int n;
};
TEST(array_of_structs) {
  BEGIN
  Cell c[3];
  for (int j = 0; j < 3; j++) c[j] = {(char)j, j * 1.5f, x + j};
  r = c[i % 3].id + c[i % 3].n + (int)c[2].w;
  END
}

TEST(union) {
  BEGIN
  union {
    float f;
    int n;
  } u;
  u.f = 1.0f;
  r = (u.n >> 20) + x;
  END
}

struct Bits {
  unsigned low : 3;
  int high : 4;
};
TEST(bit_fields) {
  BEGIN
  Bits b{};
  b.low = i;
  b.high = x;
  r = b.low * 100 + b.high;
  END
}

TEST(memcpy_and_memset) {
  BEGIN
  int v[4];
  memset(v, 0xff, sizeof v);
  memcpy(v + 1, a + i % 60, 8);
  r = v[0] + v[1] + v[2] + v[3];
  END
}

TEST(volatile) {
  BEGIN
  volatile int v = x;
  v += i;
  r = v + v;
  END
}

TEST(swap_through_pointers) {
  BEGIN
  int u[2] = {x, i};
  int *p = u, *q = u + 1;
  if (*p > *q) {
    int t = *p;
    *p = *q;
    *q = t;
  }
  r = u[0] - u[1];
  END
}

__constant__ int primes[5] = {2, 3, 5, 7, 11};
__constant__ int grid[2][3] = {{1, 2, 3}, {4, 5, 6}};
__constant__ struct {
  char a;
  int b;
} pair = {1, 9};
__constant__ double half_pi = 1.5707963;
TEST(constants) {
  BEGIN
  r = primes[i % 5] + grid[i % 2][i % 3] + pair.b + (int)(half_pi * 2);
  END
}

__device__ int device_table[3] = {100, -200, 300};
__device__ int* into = device_table + 1;
static __device__ unsigned char device_bytes[4] = {1, 255, 3};
__device__ const char* device_text = "text";
__device__ int zeroed[9];
TEST(initialised_variables) {
  BEGIN
  r = device_table[i % 3] + *into + device_bytes[i % 4] + (int)device_text[1] + zeroed[i % 9];
  END
}

TEST(string_literals) {
  BEGIN
  const char* s = i & 1 ? "odd" : "even";
  while (*s) r = r * 2 + *s++;
  END
}

namespace outer {
  namespace inner { __device__ int value = 5; }
  __device__ int f(int v) { return v + inner::value; }
}
TEST(namespaces) {
  BEGIN
  r = outer::inner::value + outer::f(i);
  END
}

TEST(bytes_and_shorts) {
  BEGIN
  const signed char* c = (const signed char*)(a + i);
  const unsigned short* s = (const unsigned short*)(a + i);
  r = c[0] + c[3] * 1000 + s[0] * 3 + s[1];
  END
}

TEST(vectors) {
  BEGIN
  int4 v = ((const int4*)a)[i / 4];
  int2 w = ((const int2*)a)[i / 2];
  r = v.x + 2 * v.y + 3 * v.z + 4 * v.w + w.x - w.y;
  END
}

TEST(read_only_cache) {
  BEGIN
  r = __ldg(a + i) + __ldcg(a) + __ldcs(a + 1);
  END
}

TEST(long_longs) {
  BEGIN
  long long v = (long long)x * 10000000000ll + i;
  r = (int)(v / 10000000000ll) + (int)(v % 7);
  END
}

TEST(doubles) {
  BEGIN
  double v = x / 3.0;
  r = (int)(v * 3000.0 + (x > 0 ? 0.5 : -0.5));
  END
}

TEST(pointer_arithmetic) {
  BEGIN
  const int* p = a + n;
  p -= n - i;
  const int* q = &a[n];
  r = *p + (int)(q - p);
  END
}

TEST(pointer_as_number) {
  BEGIN
  r = (int)((unsigned long long)(a + 3) - (unsigned long long)a)
      + ((unsigned long long)a % 16 == 0);
  END
}

__device__ int* opaque(int* p) {
  asm volatile("mov.u64 %0, %0;" : "+l"(p));
  return p;
}

TEST(aligned) {  // so that | is +
  BEGIN
  alignas(1024) __shared__ int u[64];
  alignas(4096) __shared__ int v[64];
  __shared__ int w[3];
  alignas(256) int mine[64];
  char c[3];
  u[i] = x;
  v[i] = i;
  for (int j = 0; j < 64; j++) mine[j] = 7 * x;
  c[i % 3] = 0;
  if (i < 3) w[i] = 0;
  __syncthreads();
  r = *(int*)((unsigned long long)opaque(u) | (i ^ 1) * 4) + *(int*)((unsigned long long)opaque(v) | (i ^ 3) * 4);
  r += *(int*)((unsigned long long)opaque(mine) | i * 4) + w[i % 3] + c[i % 3];
  END
}

TEST(shared_arrays) {
  BEGIN
  __shared__ int u[64];
  __shared__ double v[64];
  __shared__ char w[64];
  u[i] = x;
  v[i] = i;
  w[i] = i % 5;
  __syncthreads();
  r = u[63 - i] + (int)v[(i + 1) % 64] + w[i ^ 1];
  END
}

__device__ int rotate(int v, int i) {
  __shared__ int ring[64];
  ring[i] = v;
  __syncthreads();
  return ring[(i + 3) % 64];
}
TEST(shared_in_a_function) {
  BEGIN
  r = rotate(x, i);
  END
}

template <int S> __device__ __noinline__ int shift(int v, int i) {
  __shared__ int b[64 + S];
  b[i] = v;
  if (i < S) b[64 + i] = 0;
  __syncthreads();
  int r = b[(i + S) % 64];
  __syncthreads();
  return r;
}
TEST(shared_in_a_template) {
  BEGIN
  r = shift<1>(x, i) + shift<5>(x, i);
  END
}

TEST(shared_two_dimensions) {
  BEGIN
  __shared__ int tile[8][9];
  tile[i / 8][i % 8] = x;
  __syncthreads();
  r = tile[i % 8][i / 8];
  END
}

TEST(barriers_in_a_loop) {
  BEGIN
  __shared__ int s[64];
  s[i] = x;
  for (int d = 32; d; d /= 2) {
    __syncthreads();
    if (i < d) s[i] += s[i + d];
  }
  __syncthreads();
  r = s[0];
  END
}

__device__ __noinline__ int down(int v) { return v ? down(v - 1) + 2 : 0; }
TEST(recursion_beside_a_barrier) {
  BEGIN
  __shared__ int s[64];
  s[i] = down(i % 9);
  __syncthreads();
  r = s[63 - i];
  END
}

TEST(asm_arithmetic) {
  BEGIN
  asm("mad.lo.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(i), "n"(7));
  END
}

TEST(asm_with_a_loop) {
  BEGIN
  asm volatile("{\n"
      ".reg .pred p; .reg .u32 t; mov.u32 t, 3;\n"
      "AGAIN: add.s32 %0, %0, t;\n" " setp.lt.s32 p, %0, %1;\n"
      "@p bra AGAIN;\n"
      "}" : "+r"(r) : "r"(i));
  END
}

TEST(asm_twice_the_same_labels) {
  BEGIN
  for (int j = 0; j < 2;
      j++) asm volatile("{ .reg .pred q; setp.gt.s32 q, %1, 0; @q bra L1; add.s32 %0, %0, 10; L1: }"
      : "+r"(r) : "r"(x - j));
  END
}

TEST(asm_comments) {
  BEGIN
  asm volatile("/* ; } { */ add.s32 %0, %0, 1; // more ; }\n"
      "/* two\n"
      "lines; */ add.s32 %0, %0, 2;" : "+r"(r));
  END
}

TEST(asm_branch_table) {
  BEGIN
  asm volatile("{ ts: .branchtargets A, B, C;\n"
      "brx.idx %1, ts;\n"
      "A: add.s32 %0, %0, 1;\n"
      "B: add.s32 %0, %0, 10;\n"
      "C: }" : "+r"(r) : "r"(i % 3));
  END
}

TEST(asm_special_registers) {
  BEGIN
  int lane, warp;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("mov.u32 %0, %%warpid;" : "=r"(warp));
  r = 100 * warp + lane;
  END
}

TEST(asm_predicates) {
  BEGIN
  asm("{ .reg .pred p, q; setp.lt.s32 p|q, %1, 0; selp.s32 %0, 5, 6, p; @q add.s32 %0, %0, 100; }"
      : "=r"(r) : "r"(x));
  END
}

TEST(asm_exit) {
  BEGIN
  out[i] = 3;
  if (i & 1) asm volatile("exit;");
  r = 4;
  END
}

TEST(asm_directives) {
  BEGIN
  asm volatile(".file 9 \"/etc/passwd\"");
  asm volatile(".loc 9 1 0");
  asm volatile(".pragma \"nounroll\";");
  r = x;
  END
}

TEST(asm_lanemasks) {
  BEGIN
  unsigned m;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(m));
  r = __popc(m);
  END
}
