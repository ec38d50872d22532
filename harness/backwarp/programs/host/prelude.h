// What clang needs to compile the host part of a CUDA program without a toolkit: CUDA's own declarations, and overloads in C++.
// Bodies of kernels and device functions are blank by then; their names and types are not.
#pragma once
#define __CUDA_RUNTIME_H__  // what cuda_runtime.h has is here
#define __CUDACC__ 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 8
#include <crt/host_defines.h>
#undef __CUDACC__
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#define cudaDeviceProp backwarpDeviceProp13
#include <builtin_types.h>
#include <channel_descriptor.h>
#include <driver_functions.h>
#include <vector_functions.h>
#include <cuda_runtime_api.h>
#undef cudaDeviceProp
#include <device_properties.h>
#define __CUDACC__ 1
#define __NVCC__ 1
#undef CUDART_VERSION
#define CUDART_VERSION 12080

#define BW static inline __attribute__((always_inline, nodebug))
#define BWD __attribute__((device))
extern "C" {
int __cudaPushCallConfiguration(dim3, dim3, size_t = 0, void* = 0);
cudaError_t backwarp_malloc(void**, size_t, int, unsigned, unsigned);
cudaError_t backwarp_malloc_in(void**, size_t, unsigned, cudaStream_t);
cudaError_t backwarp_malloc_pitch(void**, size_t*, size_t, size_t, unsigned);
cudaError_t backwarp_properties(cudaDeviceProp*, int);
cudaError_t cudaThreadSynchronize(), cudaThreadExit();
cudaError_t backwarp_occupancy(int*, int*, const void*, size_t, int);
}

// an element's size, and 256 for floating-point numbers
template <class T> struct BackwarpItem { static constexpr unsigned value = sizeof(T); };
template <> struct BackwarpItem<void> { static constexpr unsigned value = 0; };
template <> struct BackwarpItem<float> { static constexpr unsigned value = 256 + 4; };
template <> struct BackwarpItem<double> { static constexpr unsigned value = 256 + 8; };

template <class T> BW cudaError_t cudaMalloc(T** p, size_t n) { return backwarp_malloc((void**)(void*)p, n, 0, BackwarpItem<T>::value, 0); }
template <class T> BW cudaError_t cudaMallocAsync(T** p, size_t n, cudaStream_t s) { return backwarp_malloc_in((void**)(void*)p, n, BackwarpItem<T>::value, s); }
template <class T> BW cudaError_t cudaMallocFromPoolAsync(T** p, size_t n, cudaMemPool_t, cudaStream_t s) { return backwarp_malloc_in((void**)(void*)p, n, BackwarpItem<T>::value, s); }
template <class T> BW cudaError_t cudaMallocManaged(T** p, size_t n, unsigned f = 1) { return backwarp_malloc((void**)(void*)p, n, 1, BackwarpItem<T>::value, f); }
template <class T> BW cudaError_t cudaMallocHost(T** p, size_t n, unsigned f = 0) { return backwarp_malloc((void**)(void*)p, n, 2, BackwarpItem<T>::value, f); }
template <class T> BW cudaError_t cudaHostAlloc(T** p, size_t n, unsigned f) { return backwarp_malloc((void**)(void*)p, n, 2, BackwarpItem<T>::value, f); }
template <class T> BW cudaError_t cudaMallocPitch(T** p, size_t* q, size_t w, size_t h) { return backwarp_malloc_pitch((void**)(void*)p, q, w, h, BackwarpItem<T>::value); }
template <class T> BW cudaError_t cudaHostGetDevicePointer(T** p, void* h, unsigned f) { return cudaHostGetDevicePointer((void**)(void*)p, h, f); }
template <class T> BW cudaError_t cudaMemcpyToSymbol(const T& s, const void* f, size_t n, size_t o = 0, cudaMemcpyKind k = cudaMemcpyHostToDevice) { return cudaMemcpyToSymbol((const void*)&s, f, n, o, k); }
template <class T> BW cudaError_t cudaMemcpyToSymbolAsync(const T& s, const void* f, size_t n, size_t o = 0, cudaMemcpyKind k = cudaMemcpyHostToDevice, cudaStream_t st = 0) { return cudaMemcpyToSymbolAsync((const void*)&s, f, n, o, k, st); }
template <class T> BW cudaError_t cudaMemcpyFromSymbol(void* d, const T& s, size_t n, size_t o = 0, cudaMemcpyKind k = cudaMemcpyDeviceToHost) { return cudaMemcpyFromSymbol(d, (const void*)&s, n, o, k); }
template <class T> BW cudaError_t cudaMemcpyFromSymbolAsync(void* d, const T& s, size_t n, size_t o = 0, cudaMemcpyKind k = cudaMemcpyDeviceToHost, cudaStream_t st = 0) { return cudaMemcpyFromSymbolAsync(d, (const void*)&s, n, o, k, st); }
template <class T> BW cudaError_t cudaGetSymbolAddress(void** p, const T& s) { return cudaGetSymbolAddress(p, (const void*)&s); }
template <class T> BW cudaError_t cudaGetSymbolSize(size_t* p, const T& s) { return cudaGetSymbolSize(p, (const void*)&s); }
template <class T> BW cudaError_t cudaFuncSetAttribute(T* f, cudaFuncAttribute a, int v) { return cudaFuncSetAttribute((const void*)f, a, v); }
template <class T> BW cudaError_t cudaFuncSetCacheConfig(T* f, cudaFuncCache a) { return cudaFuncSetCacheConfig((const void*)f, a); }
template <class T> BW cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, T* f) { return cudaFuncGetAttributes(a, (const void*)f); }
template <class T> BW cudaError_t cudaLaunchKernel(T* f, dim3 g, dim3 b, void** a, size_t s = 0, cudaStream_t st = 0) { return cudaLaunchKernel((const void*)f, g, b, a, s, st); }
template <class T> BW cudaError_t cudaLaunchCooperativeKernel(T* f, dim3 g, dim3 b, void** a, size_t s = 0, cudaStream_t st = 0) { return cudaLaunchCooperativeKernel((const void*)f, g, b, a, s, st); }
template <class T> BW cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n, T* f, int b, size_t s) { return cudaOccupancyMaxActiveBlocksPerMultiprocessor(n, (const void*)f, b, s); }
template <class T> BW cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, T* f, int b, size_t s, unsigned) { return cudaOccupancyMaxActiveBlocksPerMultiprocessor(n, (const void*)f, b, s); }
template <class T> BW cudaError_t cudaOccupancyMaxPotentialBlockSize(int* g, int* b, T* f, size_t s = 0, int m = 0) { return backwarp_occupancy(g, b, (const void*)f, s, m); }
template <class F, class T> BW cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* g, int* b, T* f, F s, int m = 0) { return backwarp_occupancy(g, b, (const void*)f, s(256), m); }
BW cudaError_t cudaEventCreate(cudaEvent_t* e, unsigned f) { return cudaEventCreateWithFlags(e, f); }
BW cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int d) { return backwarp_properties(p, d); }
BW cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* p, int d) { return backwarp_properties(p, d); }
BW cudaError_t cudaChooseDevice(int* d, const cudaDeviceProp*) { *d = 0; return cudaSuccess; }
BW cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t = 0) { return cudaSuccess; }
BW cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, int) { return cudaSuccess; }
BW cudaError_t cudaGraphInstantiate(cudaGraphExec_t* e, cudaGraph_t g, cudaGraphNode_t*, char*, size_t) { return cudaGraphInstantiate(e, g, 0); }
BW cudaError_t cudaGraphAddDependencies(cudaGraph_t g, const cudaGraphNode_t* a, const cudaGraphNode_t* b, size_t n) { return cudaGraphAddDependencies(g, a, b, 0, n); }
BW cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t g, cudaGraphNode_t* a, size_t* n) { return cudaGraphNodeGetDependencies(g, a, 0, n); }
BW cudaError_t cudaGraphExecUpdate(cudaGraphExec_t e, cudaGraph_t g, cudaGraphNode_t* n, cudaGraphExecUpdateResult* r) { cudaGraphExecUpdateResultInfo i{}; cudaError_t code = cudaGraphExecUpdate(e, g, &i); if (n) *n = i.errorNode; *r = i.result; return code; }
using std::min; using std::max;
// of two types, as CUDA's own
#define BW_MIXED template <class A, class B, class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B> && std::is_integral_v<A> == std::is_integral_v<B> && !std::is_same_v<A, B>>> BW __attribute__((host, device)) std::common_type_t<A, B>
BW_MIXED min(A a, B b) { return b < a ? b : a; }
BW_MIXED max(A a, B b) { return a < b ? b : a; }
#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif

// Names that are used outside bodies, or in those of __host__ __device__ functions and lambdas.
extern const uint3 threadIdx, blockIdx;
extern const dim3 blockDim, gridDim;
static const int warpSize = 32;
BWD void __syncthreads(); BWD void __syncwarp(unsigned = ~0u); BWD void __threadfence(); BWD void __threadfence_block();
BWD float __fmaf_rn(float, float, float), __fmul_rn(float, float), __fadd_rn(float, float), __fsub_rn(float, float), __fdiv_rn(float, float), __frcp_rn(float), __fsqrt_rn(float), __expf(float), __exp10f(float), __logf(float), __log2f(float), __sinf(float), __cosf(float), __powf(float, float), __fdividef(float, float), __saturatef(float), rsqrtf(float), __int_as_float(int), __uint_as_float(unsigned);
BWD int __float_as_int(float), __popc(unsigned), __popcll(unsigned long long), __clz(int), __ffs(int); BWD unsigned __float_as_uint(float), __brev(unsigned), __umulhi(unsigned, unsigned);
BWD double __fma_rn(double, double, double), __longlong_as_double(long long); BWD long long __double_as_longlong(double), clock64(); BWD int __float2int_rn(float), __double2int_rn(double), __float2int_rz(float); BWD float __int2float_rn(int), __double2float_rn(double), __ll2float_rn(long long), __ull2float_rn(unsigned long long);
#define BW_CUT(t, T) BWD T __float2##t##_rn(float), __float2##t##_rz(float), __float2##t##_rd(float), __float2##t##_ru(float), __double2##t##_rn(double), __double2##t##_rz(double);
BW_CUT(uint, unsigned) BW_CUT(ll, long long) BW_CUT(ull, unsigned long long)
#define BW_FLOAT(t, T) BWD float __##t##2float_rz(T), __##t##2float_rd(T), __##t##2float_ru(T);
BW_FLOAT(int, int) BW_FLOAT(uint, unsigned) BW_FLOAT(ll, long long) BW_FLOAT(ull, unsigned long long)
BWD float __uint2float_rn(unsigned);
BWD float tanhf(float), __tanhf(float), truncf(float), rintf(float), ceilf(float), floorf(float), fabsf(float), sinf(float), cosf(float), __fmaf_ieee_rn(float, float, float);
BWD unsigned short atomicCAS(unsigned short*, unsigned short, unsigned short); BWD unsigned atomicCAS(unsigned*, unsigned, unsigned); BWD int atomicCAS(int*, int, int); BWD unsigned long long atomicCAS(unsigned long long*, unsigned long long, unsigned long long);
template <class T> BWD T atomicAdd(T*, T); template <class T> BWD T atomicMax(T*, T); template <class T> BWD T atomicMin(T*, T); template <class T> BWD T atomicExch(T*, T);
template <class T> BWD T __shfl_sync(unsigned, T, int, int = 32); template <class T> BWD T __shfl_down_sync(unsigned, T, unsigned, int = 32); template <class T> BWD T __shfl_up_sync(unsigned, T, unsigned, int = 32); template <class T> BWD T __shfl_xor_sync(unsigned, T, int, int = 32);
template <class T> BWD T __ldg(const T*);
