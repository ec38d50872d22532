// The zoo: kernels that each do one wrong thing; zoo.py knows what is said about them. `// FAULT name` marks
// the line that is named, `// OTHER name` the other side's.

extern "C" __global__ void before_the_first(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[i - 1];  // FAULT before_the_first
}

extern "C" __global__ void after_the_last(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[i + 1];  // FAULT after_the_last
}

extern "C" __global__ void no_bounds_check(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  b[i] = 1;  // FAULT no_bounds_check
}

extern "C" __global__ void far_away(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[i + 50000000];  // FAULT far_away
}

extern "C" __global__ void far_before(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i - 70000000] = a[i];  // FAULT far_before
}

extern "C" __global__ void index_overflows(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 3) b[i] = a[i * 1000000007];  // FAULT index_overflows
}

extern "C" __global__ void into_the_red_zone(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 1) b[-20] = a[0];  // FAULT into_the_red_zone
}

extern "C" __global__ void next_batch(const float* input, float* b, int n) {
  int h = threadIdx.x;
  for (int w = 0; w < 5; w++) b[0] = input[((1 * 3 + 2) * 4 + h) * 5 + w];  // FAULT next_batch
}

extern "C" __global__ void channel_below(const float* input, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) b[0] = input[-7];  // FAULT channel_below
}

extern "C" __global__ void three_dimensions(const float* a, float* b, int n) {
  int i = (threadIdx.z * 2 + threadIdx.y) * 2 + threadIdx.x + 8 * (2 * blockIdx.z + blockIdx.x);
  b[i] = 0;  // FAULT three_dimensions
}

extern "C" __global__ void byte_past_the_end(unsigned char* bytes) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 11) bytes[i] = 7;  // FAULT byte_past_the_end
}

extern "C" __global__ void word_over_the_end_of_bytes(unsigned char* bytes) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) ((unsigned*)bytes)[2] = 7;  // FAULT word_over_the_end_of_bytes
}

extern "C" __global__ void vector_over_the_end(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 2) ((float4*)b)[i] = ((const float4*)a)[0];  // FAULT vector_over_the_end
}

extern "C" __global__ void vector_one_element_over(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 2) ((float2*)(b + 1))[i * 2].y = a[0];  // FAULT vector_one_element_over
}

extern "C" __global__ void freed_row(const double* d, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) b[0] = (float)d[5];  // FAULT freed_row
}

extern "C" __global__ void pointer_walks_off(const float* a, float* b, int n) {
  const float* p = a;
  float s = 0;
  for (int j = 0; j <= n; j++) s += *p++;  // FAULT pointer_walks_off
  b[threadIdx.x] = s;
}

struct Pair {
  int n;
  float* p;
};
extern "C" __global__ void pointer_in_a_struct(Pair pair) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 3) pair.p[i - 3000000 * (i == 2)] = pair.n;  // FAULT pointer_in_a_struct
}

extern "C" __global__ void pointer_in_memory(float* const* pointers, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) pointers[1][n + 2] = 1;  // FAULT pointer_in_memory
}

extern "C" __global__ void one_of_two_arrays(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float* p = i % 2 ? a : b;
  if (i == 3) b[0] = p[n];  // FAULT one_of_two_arrays
}

extern "C" __global__ void null_pointer(float* p) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 2) p[i] = 1;  // FAULT null_pointer
}

extern "C" __global__ void null_plus_index(const float* p, float* b) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 10) b[0] = p[i];  // FAULT null_plus_index
}

extern "C" __global__ void wild_pointer(float* p) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) *p = 1;  // FAULT wild_pointer
}

typedef float (*Function)(float);
__device__ float same(float x) { return x; }
__device__ float twice(float x) { return 2 * x; }
__device__ Function functions[3] = {same, twice};
extern "C" __global__ void function_pointer_never_set(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = functions[i % 3](2);  // FAULT function_pointer_never_set
  if (i == 100) functions[2] = same;
}

extern "C" __global__ void misaligned_float2(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) *(float2*)(b + 3) = make_float2(1, 2);  // FAULT misaligned_float2
}

extern "C" __global__ void misaligned_float4(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 1) b[i] = __ldg((const float4*)(a + 2)).w;  // FAULT misaligned_float4
}

extern "C" __global__ void misaligned_double(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) *(double*)(b + 1) = 1;  // FAULT misaligned_double
}

extern "C" __global__ void misaligned_int_in_bytes(unsigned char* bytes) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) *(int*)(bytes + 7) = 1;  // FAULT misaligned_int_in_bytes
}

extern "C" __global__ void writes_its_input(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 4) ((float*)a)[i] = 0;  // FAULT writes_its_input
}

extern "C" __global__ void atomic_on_input(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 5) atomicAdd((float*)&a[i], 1.f);  // FAULT atomic_on_input
}

__constant__ float a_constant[4] = {1, 2, 3, 4};
extern "C" __global__ void writes_constant(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float* p = const_cast<float*>(a_constant + n - 10);
  if (i == 2) p[i] = 1;  // FAULT writes_constant
}

extern "C" __global__ void atomic_past_the_end(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) atomicAdd(&b[i], 1.f);  // FAULT atomic_past_the_end
}

extern "C" __global__ void atomic_far_away(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) atomicMax((int*)b + 1000000000, 3);  // FAULT atomic_far_away
}

__constant__ float weights[9];
extern "C" __global__ void constant_overflow(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = weights[i];  // FAULT constant_overflow
}

__device__ int table_before[5];
__device__ int table[3][4];
__device__ int table_after[5];
extern "C" __global__ void device_variable_overflow(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 13) table[i / 4][i % 4] = i;  // FAULT device_variable_overflow
}

__device__ int first[5];
__device__ int second[7];
extern "C" __global__ void between_variables(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) second[-40 - n] = first[0];  // FAULT between_variables
}

extern "C" __global__ void shared_overflow(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ float tile[8];
  __shared__ float next[8];
  next[i % 8] = 0;
  if (i < 9) tile[i] = 1;  // FAULT shared_overflow
  __syncthreads();
  if (i < 8) b[i] = tile[i] + next[i];
}

extern "C" __global__ void shared_negative(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ float row[4];
  __shared__ float ring[32];
  row[i % 4] = 0;
  ring[i - 1] = 1;  // FAULT shared_negative
  __syncthreads();
  if (i < n) b[i] = ring[i] + row[0];
}

extern "C" __global__ void shared_far_away(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ float far[32];
  far[i] = 0;
  if (i == 1) far[i * 100000000] = 1;  // FAULT shared_far_away
  if (i < n) b[i] = far[i];
}

extern "C" __global__ void shared_far_before(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ float low[32];
  low[i] = 0;
  if (i == 1) low[i - 100000001] = 1;  // FAULT shared_far_before
  if (i < n) b[i] = low[i];
}

constexpr int TILE = 4;
extern "C" __global__ void shared_two_dimensions(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ float square[TILE][TILE + 1];
  for (int r = 0; r <= TILE; r++) square[r][i] = r;  // FAULT shared_two_dimensions
  b[0] = square[0][0];
}

extern "C" __global__ void dynamic_shared_overflow(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  extern __shared__ float pool[];
  pool[i] = 1;  // FAULT dynamic_shared_overflow
  __syncthreads();
  if (i < n) b[i] = pool[i];
}

extern "C" __global__ void dynamic_shared_forgotten(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  extern __shared__ float pool[];
  if (i == 0) pool[i] = 1;  // FAULT dynamic_shared_forgotten
  b[0] = n;
}

extern "C" __global__ void local_overflow(const float* a, float* b, int n) {
  float window[4];
  for (int j = 0; j < n - 5; j++) window[j] = a[j];  // FAULT local_overflow
  b[0] = window[n - 8];
}

__device__ __noinline__ float smooth(const float* x, int n) {
  float taps[3] = {1, 2, 1};
  float s = 0;
  for (int j = 0; j < n - 6; j++) s += taps[j] * x[j];  // FAULT local_overflow_in_a_function
  return s;
}
extern "C" __global__ void local_overflow_in_a_function(const float* a, float* b, int n) {
  float outer[8];
  for (int j = 0; j < 8; j++) outer[j] = j;
  b[0] = smooth(outer, n);
}

__device__ __noinline__ float near(int n) {
  int at = n - 7;
  const int* p = &at;
  short weights[3] = {1, 2, 1};
  return weights[*p];  // FAULT local_overflow_beside_what_needs_no_memory
}
__device__ __noinline__ float nearer(const int& n) { return near(n); }
extern "C" __global__ void local_overflow_beside_what_needs_no_memory(const float* a, float* b, int n) {
  int first = n, outer[2] = {};
  outer[n & 1] = 1;
  b[0] = nearer(first) + outer[n >> 3];
}

extern "C" __global__ void local_overflow_into_the_next(const float* a, float* b, int n) {
  float head[4];
  int tail[4];
  int one = 1;
  int* p = &one;
  for (int j = 0; j < 4; j++) head[j] = tail[j] = j;
  if (threadIdx.x == 1) for (int j = 0; j < n - 5; j++) head[j] = a[j];  // FAULT local_overflow_into_the_next
  b[threadIdx.x] = head[n - 8] + tail[n - 7] + *p;
}

extern "C" __global__ void local_negative(const float* a, float* b, int n) {
  short low[2][3] = {};
  double high[2] = {};
  high[n - 12] = a[0];  // FAULT local_negative
  b[0] = low[n - 9][n - 8] + high[n - 9];
}

struct Taps {
  float w[3];
  int n;
};
extern "C" __global__ void local_struct(const float* a, float* b, int n) {
  Taps taps = {{1, 2, 3}, 4};
  int other[3] = {};
  taps.w[n - 4] = a[0];  // FAULT local_struct
  b[0] = taps.w[n - 9] + other[n - 8] + taps.n;
}

__device__ __noinline__ float down(float x) { return x < -1e30f ? x : down(x - 1) + 1; }  // FAULT recursion
extern "C" __global__ void recursion(const float* a, float* b, int n) { b[threadIdx.x] = down(n); }

extern "C" __global__ void local_memory_full(const float* a, float* b, int n) {  // FAULT local_memory_full
  float huge[80000000];
  huge[n * 1000] = 1;
  huge[n] = 2;
  b[0] = huge[n * 1000] + huge[n];
}

__device__ __noinline__ float fetch(const float* p, int j) {
  return p[j];  // FAULT fault_in_a_function
}
extern "C" __global__ void fault_in_a_function(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) b[i % n] = fetch(a, i);
}

__device__ __forceinline__ float shifted(const float* p, int j) {
  return p[j];  // FAULT fault_in_an_inline_function
}
extern "C" __global__ void fault_in_an_inline_function(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = shifted(a + 2, i);
}

template <int N> __device__ __noinline__ float at(const float* p) {
  return N < 7 ? 0 : p[N + 3];  // FAULT fault_in_a_template
}
extern "C" __global__ void fault_in_a_template(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) b[i] = at<5>(a) + at<7>(a) * at<6>(b);
}

extern "C" __global__ void while_true(const float* a, float* b, int n) {
  while (true) {}  // FAULT while_true
}

extern "C" __global__ void condition_never_changes(const float* a, float* b, int n) {
  int j = 0;
  while (j < n) b[threadIdx.x] += a[j];  // FAULT condition_never_changes
}

extern "C" __global__ void huge_count(const float* a, float* b, int n) {
  for (long long j = 0; j < 1000000000000ll; j++) b[threadIdx.x] += a[j % n];  // FAULT huge_count
}

__device__ volatile int flag_nobody;
extern "C" __global__ void flag_that_nobody_sets(const float* a, float* b, int n) {
  while (flag_nobody == 0) {}  // FAULT flag_that_nobody_sets
  b[threadIdx.x] = 1;
}

extern "C" __global__ void volatile_of_its_own(const float* a, float* b, int n) {
  volatile int j = 0;
  while (j < n) j = j * 2;  // FAULT volatile_of_its_own
}

__device__ volatile int last_thread;
extern "C" __global__ void changes_for_ever(const float* a, float* b, int n) {
  while (last_thread != -1) atomicAdd((int*)&last_thread, 1 + threadIdx.x);  // FAULT changes_for_ever
}

extern "C" __global__ void time_is_up(const float* a, float* b, int n) {
  for (int j = 0; j < n * 100000000; j++)   // FAULT time_is_up
  b[0] += a[j % n];
}

extern "C" __global__ void barrier_in_one_branch(const float* a, float* b, int n) {
  if (threadIdx.x < 16) __syncthreads();  // FAULT barrier_in_one_branch
  else b[0] = 1;
  __syncthreads();  // OTHER barrier_in_one_branch
}

extern "C" __global__ void two_barriers(const float* a, float* b, int n) {
  if (threadIdx.x % 2) __syncthreads();  // OTHER two_barriers
  else __syncthreads();  // FAULT two_barriers
}

extern "C" __global__ void barrier_for_more_threads(const float* a, float* b, int n) {
  asm volatile("bar.sync 1, 64;");  // FAULT barrier_for_more_threads
}

extern "C" __global__ void past_a_local_array_of_bytes(const float* a, float* b, int n) {
  char c[6];
  for (int i = 0; i < 6; i++) c[i] = n + i;
  b[threadIdx.x % 6] = c[threadIdx.x == 3 ? n - 4 : 5];  // FAULT past_a_local_array_of_bytes
}

extern "C" __global__ void barrier_of_another_number(const float* a, float* b, int n) {
  if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");  // FAULT barrier_of_another_number
  else asm volatile("bar.sync 2, 64;");  // OTHER barrier_of_another_number
}

extern "C" __global__ void barrier_of_another_count(const float* a, float* b, int n) {
  if (threadIdx.x < 32) asm volatile("barrier.sync 1, 96;");  // FAULT barrier_of_another_count
  else asm volatile("barrier.sync 1, 64;");  // OTHER barrier_of_another_count
}

extern "C" __global__ void arrival_of_another_count(const float* a, float* b, int n) {
  if (threadIdx.x < 32) asm volatile("bar.arrive 1, 96;");  // OTHER arrival_of_another_count
  else asm volatile("bar.sync 1, 64;");  // FAULT arrival_of_another_count
}

extern "C" __global__ void arrivals_of_two_counts(const float* a, float* b, int n) {
  if (threadIdx.x < 32) asm volatile("bar.arrive 1, 96;");  // OTHER arrivals_of_two_counts
  else if (threadIdx.x < 64) asm volatile("bar.arrive 1, 128;");  // FAULT arrivals_of_two_counts
  else asm volatile("bar.sync 1, 96;");
}

extern "C" __global__ void barrier_of_each_warp(const float* a, float* b, int n) {
  if (threadIdx.x < 32) asm volatile("bar.sync 1, 32;");
  else asm volatile("bar.sync 1, 32;");
  b[threadIdx.x] = n;  // FAULT barrier_of_each_warp
}

extern "C" __global__ void barrier_of_too_many(const float* a, float* b, int n) {
  asm volatile("bar.sync 1, 64;");  // FAULT barrier_of_too_many
}

extern "C" __global__ void barrier_of_half_a_warp(const float* a, float* b, int n) {
  asm volatile("bar.sync 1, 48;");  // FAULT barrier_of_half_a_warp
}

extern "C" __global__ void barrier_that_also_votes(const float* a, float* b, int n) {
  if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");  // FAULT barrier_that_also_votes
  else asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0; bar.red.and.pred p, 1, 64, p; }");  // OTHER barrier_that_also_votes
}

extern "C" __global__ void two_barriers_that_count(const float* a, float* b, int n) {
  if (threadIdx.x < 32) n += __syncthreads_count(1);  // FAULT two_barriers_that_count
  else n += __syncthreads_count(1);  // OTHER two_barriers_that_count
  if (n < 0) b[0] = 1;
}

extern "C" __global__ void fault_before_a_barrier(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 3) b[n] = 1;  // FAULT fault_before_a_barrier
  __syncthreads();
  if (i < n) b[i] = 1;
}

extern "C" __global__ void fault_before_two_barriers(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 40) b[n] = 1;  // FAULT fault_before_two_barriers
  __syncthreads();
  asm volatile("bar.sync 1, 64;");
  if (i < n) b[i] = 1;
}

extern "C" __global__ void syncwarp_leaves_out_its_caller(const float* a, float* b, int n) {
  __syncwarp(1);  // FAULT syncwarp_leaves_out_its_caller
}

extern "C" __global__ void shuffle_leaves_out_its_caller(const float* a, float* b, int n) {
  float v = __shfl_down_sync(0xffff, a[0], 1);  // FAULT shuffle_leaves_out_its_caller
  if (threadIdx.x == 0) b[0] = v;
}

extern "C" __global__ void shuffle_names_returned_lanes(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  b[i] = __shfl_down_sync(0xffffffff, a[i], 1);  // FAULT shuffle_names_returned_lanes
}

extern "C" __global__ void shuffle_names_a_returned_lane(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 5) return;
  float v = __shfl_xor_sync(0xffffffff, a[0], 1);  // FAULT shuffle_names_a_returned_lane
  if (i == 0) b[0] = v;
}

extern "C" __global__ void shuffle_names_diverged_lanes(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = 0;
  if (i < 16) v = __shfl_down_sync(0xffffffff, a[0], 1);  // FAULT shuffle_names_diverged_lanes
  __syncthreads();  // OTHER shuffle_names_diverged_lanes
  if (i == 0) b[0] = v;
}

extern "C" __global__ void syncwarp_names_diverged_lanes(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i % 2) __syncwarp();  // FAULT syncwarp_names_diverged_lanes
}

extern "C" __global__ void assertion(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(i < 3 && "at most three");  // FAULT assertion
}

extern "C" __global__ void trap(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 7) __trap();  // FAULT trap
}

extern "C" __global__ void two_faults(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 9) b[i + 1] = 1;
  if (i == 2) ((float*)a)[0] = 1;  // FAULT two_faults
  if (i == 4) *(double*)(b + 1) = 1;
}

extern "C" __global__ void first_in_the_grid(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= 100) b[i] = a[0];  // FAULT first_in_the_grid
}

extern "C" __global__ void more_than_are_counted(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  b[i + n] = 1;  // FAULT more_than_are_counted
}
