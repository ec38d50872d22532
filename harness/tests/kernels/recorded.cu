// Kernels of many kinds, for records of their runs: see tests/devices/virtual/replay/test_kinds.py.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <stdio.h>
namespace cg = cooperative_groups;
__device__ int counter; __device__ unsigned arrived; __device__ int lock_;
struct Pair { int a; float b; };
__device__ int fib(int n) { if (n < 2) return n; int x = fib(n - 1); return x + fib(n - 2); }
__device__ float twice(float x) { return 2 * x; }
__device__ float half_of(float x) { return x / 2; }
template <int N> __device__ float sum_of(const float (&v)[N]) { float s = 0; for (int i = 0; i < N; i++) s += v[i]; return s; }
extern "C" __global__ void ticket(int* out) { int i = blockIdx.x * blockDim.x + threadIdx.x; out[i] = atomicAdd(&counter, 1); }
extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = fib(threadIdx.x % 8); }
extern "C" __global__ void pointers(float* out) { float (*f)(float) = threadIdx.x % 2 ? twice : half_of; out[threadIdx.x] = f(threadIdx.x); }
extern "C" __global__ void structs(float* out) { Pair p[3]; for (int i = 0; i < 3; i++) { p[i].a = i + threadIdx.x; p[i].b = i * 0.5f; } float v[4] = {1, 2, 3, p[1].b}; out[threadIdx.x] = sum_of(v) + p[2].a; }
extern "C" __global__ void spin(int* out) { 
  for (int done = 0; !done; ) { if (atomicCAS(&lock_, 0, 1) == 0) { __threadfence(); out[0] = out[0] * 3 % 1000003 + threadIdx.x; __threadfence(); atomicExch(&lock_, 0); done = 1; } } }
extern "C" __global__ void last_block(float* part, float* out, const float* x) {
  __shared__ float s[32]; __shared__ bool last; s[threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x]; __syncthreads();
  if (threadIdx.x == 0) { float t = 0; for (int i = 0; i < 32; i++) t += s[i]; part[blockIdx.x] = t; __threadfence(); last = atomicAdd(&arrived, 1) == gridDim.x - 1; }
  __syncthreads();
  if (last && threadIdx.x == 0) { float t = 0; for (int i = 0; i < gridDim.x; i++) t += ((volatile float*)part)[i]; out[0] = t; } }
extern "C" __global__ void groups(float* out) { auto block = cg::this_thread_block(); auto tile = cg::tiled_partition<8>(block); float v = threadIdx.x; for (int d = 4; d; d /= 2) v += tile.shfl_xor(v, d); block.sync(); out[threadIdx.x] = v; }
extern "C" __global__ void halves(__half* out, const __half* x) { int i = threadIdx.x; __half2 two = __halves2half2(x[i], x[i]); out[i] = __hadd(__low2half(two), __float2half(1.5f)); }
extern "C" __global__ void doubles(double* out, const double* x) { int i = threadIdx.x; double2 v = reinterpret_cast<const double2*>(x)[i]; out[i] = v.x * v.y + sqrt(v.x); }
extern "C" __global__ void choices(int* out) { int i = threadIdx.x, r; switch (i % 5) { case 0: r = 10; break; case 1: r = 11; break; case 2: r = 12; case 3: r = 13; break; default: r = -1; } out[i] = r; }
extern "C" __global__ void shadows(int* out) { int x = 1; { int x = threadIdx.x; x += 2; out[threadIdx.x] = x; { int x = 7; out[threadIdx.x] += x; } } out[threadIdx.x] += x; }
extern "C" __global__ void votes(unsigned* out) { unsigned b = __ballot_sync(~0u, threadIdx.x % 3 == 0); unsigned m = __match_any_sync(~0u, threadIdx.x / 4); out[threadIdx.x] = b ^ m ^ __reduce_add_sync(~0u, threadIdx.x); }
extern "C" __global__ void prints(int* out) { if (threadIdx.x < 2) printf("%d %f\n", threadIdx.x, 0.5); out[threadIdx.x] = 1; }
extern "C" __global__ void bytes(unsigned char* out, const short* x) { int i = threadIdx.x; char4 c; c.x = x[i]; c.y = 1; c.z = 2; c.w = 3; reinterpret_cast<char4*>(out)[i] = c; }
extern "C" __global__ void dynamic(float* out) { extern __shared__ char raw[]; float* a = (float*)raw; int* b = (int*)(raw + 128); a[threadIdx.x] = threadIdx.x; b[threadIdx.x] = 31 - threadIdx.x; __syncthreads(); out[threadIdx.x] = a[b[threadIdx.x]]; }
extern "C" __global__ void mins(int* out, float* f) { atomicMin(&out[0], 5 - (int)threadIdx.x); atomicMax(&out[1], (int)threadIdx.x); atomicOr(&out[2], 1 << threadIdx.x % 8); atomicAdd(f, 0.5f); atomicInc((unsigned*)&out[3], 7); }
extern "C" __global__ void early(int* out, int n) { int i = threadIdx.x; if (i >= n) return; __syncthreads(); out[i] = i; }
extern "C" __global__ void gridsync(int* out) { auto g = cg::this_grid(); out[blockIdx.x] = blockIdx.x; g.sync(); int s = 0; for (int i = 0; i < gridDim.x; i++) s += out[i]; g.sync(); out[blockIdx.x] = s; }
