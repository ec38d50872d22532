// cuBLAS's most used functions, computed by NumPy on the device's memory. Matrices are stored by columns.
#pragma once
#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <library_types.h>
typedef enum { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_ALLOC_FAILED = 3, CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_ARCH_MISMATCH = 8, CUBLAS_STATUS_MAPPING_ERROR = 11, CUBLAS_STATUS_EXECUTION_FAILED = 13, CUBLAS_STATUS_INTERNAL_ERROR = 14, CUBLAS_STATUS_NOT_SUPPORTED = 15, CUBLAS_STATUS_LICENSE_ERROR = 16 } cublasStatus_t;
typedef cublasStatus_t cublasStatus;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C } cublasOperation_t;
typedef enum { CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER, CUBLAS_FILL_MODE_FULL } cublasFillMode_t;
typedef enum { CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT } cublasDiagType_t;
typedef enum { CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT } cublasSideMode_t;
typedef enum { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE } cublasPointerMode_t;
typedef enum { CUBLAS_DEFAULT_MATH = 0, CUBLAS_TENSOR_OP_MATH = 1, CUBLAS_PEDANTIC_MATH = 2, CUBLAS_TF32_TENSOR_OP_MATH = 3 } cublasMath_t;
typedef enum { CUBLAS_GEMM_DFALT = -1, CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_ALGO0 = 0, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99, CUBLAS_GEMM_DFALT_TENSOR_OP = 99 } cublasGemmAlgo_t;
typedef enum { CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_16F = 74, CUBLAS_COMPUTE_32F_FAST_TF32 = 77, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32I = 72 } cublasComputeType_t;
typedef cudaDataType cublasDataType_t;
struct cublasContext { cudaStream_t stream; cublasPointerMode_t mode; };
typedef cublasContext* cublasHandle_t;
extern "C" int backwarp_library(const char*, const unsigned long long*, int, const void*, cudaStream_t);
typedef unsigned long long BWW;
/// A number that is given by its address, on the host or on the device.
template <class T> BW double backwarp_number(cublasHandle_t h, const T* p) { T v{}; if (h->mode == CUBLAS_POINTER_MODE_DEVICE) cudaMemcpy(&v, p, sizeof v, cudaMemcpyDeviceToHost); else v = *p; return (double)(float)v; }
template <> inline double backwarp_number<double>(cublasHandle_t h, const double* p) { double v = 0; if (h->mode == CUBLAS_POINTER_MODE_DEVICE) cudaMemcpy(&v, p, sizeof v, cudaMemcpyDeviceToHost); else v = *p; return v; }
BW BWW backwarp_word(double v) { BWW w; __builtin_memcpy(&w, &v, 8); return w; }
#define BW_CALL(name, ...) BWW w[] = {__VA_ARGS__}; return (cublasStatus_t)backwarp_library(name, w, sizeof w / 8, 0, h->stream)
#define BW_P(p) (BWW)(p)
#define BW_N(p) backwarp_word(backwarp_number(h, p))
// types of elements: their size, 2, 4 or 8
#define BW_BLAS(S, T) \
BW cublasStatus_t cublas##S##gemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc) { BW_CALL("gemm", BW_P(ta), BW_P(tb), BW_P(m), BW_P(n), BW_P(k), BW_N(alpha), BW_P(a), BW_P(lda), sizeof(T), 0, BW_P(b), BW_P(ldb), sizeof(T), 0, BW_N(beta), BW_P(c), BW_P(ldc), sizeof(T), 0, 1); } \
BW cublasStatus_t cublas##S##gemmStridedBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T* alpha, const T* a, int lda, long long sa, const T* b, int ldb, long long sb, const T* beta, T* c, int ldc, long long sc, int count) { BW_CALL("gemm", BW_P(ta), BW_P(tb), BW_P(m), BW_P(n), BW_P(k), BW_N(alpha), BW_P(a), BW_P(lda), sizeof(T), BW_P(sa), BW_P(b), BW_P(ldb), sizeof(T), BW_P(sb), BW_N(beta), BW_P(c), BW_P(ldc), sizeof(T), BW_P(sc), BW_P(count)); }
#define BW_VECTORS(S, T) \
BW cublasStatus_t cublas##S##gemv(cublasHandle_t h, cublasOperation_t t, int m, int n, const T* alpha, const T* a, int lda, const T* x, int ix, const T* beta, T* y, int iy) { BW_CALL("gemv", BW_P(t), BW_P(m), BW_P(n), BW_N(alpha), BW_P(a), BW_P(lda), BW_P(x), BW_P(ix), BW_N(beta), BW_P(y), BW_P(iy), sizeof(T)); } \
BW cublasStatus_t cublas##S##ger(cublasHandle_t h, int m, int n, const T* alpha, const T* x, int ix, const T* y, int iy, T* a, int lda) { BW_CALL("ger", BW_P(m), BW_P(n), BW_N(alpha), BW_P(x), BW_P(ix), BW_P(y), BW_P(iy), BW_P(a), BW_P(lda), sizeof(T)); } \
BW cublasStatus_t cublas##S##axpy(cublasHandle_t h, int n, const T* alpha, const T* x, int ix, T* y, int iy) { BW_CALL("axpy", BW_P(n), BW_N(alpha), BW_P(x), BW_P(ix), BW_P(y), BW_P(iy), sizeof(T)); } \
BW cublasStatus_t cublas##S##scal(cublasHandle_t h, int n, const T* alpha, T* x, int ix) { BW_CALL("scal", BW_P(n), BW_N(alpha), BW_P(x), BW_P(ix), sizeof(T)); } \
BW cublasStatus_t cublas##S##copy(cublasHandle_t h, int n, const T* x, int ix, T* y, int iy) { BW_CALL("copy", BW_P(n), BW_P(x), BW_P(ix), BW_P(y), BW_P(iy), sizeof(T)); } \
BW cublasStatus_t cublas##S##swap(cublasHandle_t h, int n, T* x, int ix, T* y, int iy) { BW_CALL("swap", BW_P(n), BW_P(x), BW_P(ix), BW_P(y), BW_P(iy), sizeof(T)); } \
BW cublasStatus_t cublas##S##dot(cublasHandle_t h, int n, const T* x, int ix, const T* y, int iy, T* to) { BW_CALL("dot", BW_P(n), BW_P(x), BW_P(ix), BW_P(y), BW_P(iy), BW_P(to), sizeof(T)); } \
BW cublasStatus_t cublas##S##nrm2(cublasHandle_t h, int n, const T* x, int ix, T* to) { BW_CALL("nrm2", BW_P(n), BW_P(x), BW_P(ix), BW_P(to), sizeof(T)); } \
BW cublasStatus_t cublas##S##asum(cublasHandle_t h, int n, const T* x, int ix, T* to) { BW_CALL("asum", BW_P(n), BW_P(x), BW_P(ix), BW_P(to), sizeof(T)); } \
BW cublasStatus_t cublas##S##geam(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, const T* alpha, const T* a, int lda, const T* beta, const T* b, int ldb, T* c, int ldc) { BW_CALL("geam", BW_P(ta), BW_P(tb), BW_P(m), BW_P(n), BW_N(alpha), BW_P(a), BW_P(lda), BW_N(beta), BW_P(b), BW_P(ldb), BW_P(c), BW_P(ldc), sizeof(T)); } \
BW cublasStatus_t cublasI##S##max(cublasHandle_t h, int n, const T* x, int ix, int* to) { BW_CALL("imax", BW_P(n), BW_P(x), BW_P(ix), BW_P(to), sizeof(T)); } \
BW cublasStatus_t cublasI##S##min(cublasHandle_t h, int n, const T* x, int ix, int* to) { BW_CALL("imin", BW_P(n), BW_P(x), BW_P(ix), BW_P(to), sizeof(T)); }
BW_BLAS(S, float) BW_BLAS(D, double) BW_BLAS(H, __half) BW_VECTORS(S, float) BW_VECTORS(D, double)
#define cublasIsamax cublasISmax
#define cublasIdamax cublasIDmax
#define cublasIsamin cublasISmin
#define cublasIdamin cublasIDmin
BW int backwarp_size(cudaDataType t) { return t == CUDA_R_16F ? 2 : t == CUDA_R_64F ? 8 : t == CUDA_R_32F ? 4 : 0; }
BW cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void* alpha, const void* a, cudaDataType at, int lda, const void* b, cudaDataType bt, int ldb, const void* beta, void* c, cudaDataType ct, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {
    auto number = [&](const void* p) { return compute == CUBLAS_COMPUTE_16F ? backwarp_number(h, (const __half*)p) : compute == CUBLAS_COMPUTE_64F ? backwarp_number(h, (const double*)p) : backwarp_number(h, (const float*)p); };
    BW_CALL("gemm", BW_P(ta), BW_P(tb), BW_P(m), BW_P(n), BW_P(k), backwarp_word(number(alpha)), BW_P(a), BW_P(lda), BW_P(backwarp_size(at)), 0, BW_P(b), BW_P(ldb), BW_P(backwarp_size(bt)), 0, backwarp_word(number(beta)), BW_P(c), BW_P(ldc), BW_P(backwarp_size(ct)), 0, 1);
}
BW cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void* alpha, const void* a, cudaDataType at, int lda, const void* b, cudaDataType bt, int ldb, const void* beta, void* c, cudaDataType ct, int ldc, cudaDataType compute, cublasGemmAlgo_t algorithm) { return cublasGemmEx(h, ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc, compute == CUDA_R_16F ? CUBLAS_COMPUTE_16F : compute == CUDA_R_64F ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, algorithm); }
BW cublasStatus_t cublasSgemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const float* alpha, const void* a, cudaDataType at, int lda, const void* b, cudaDataType bt, int ldb, const float* beta, void* c, cudaDataType ct, int ldc) { return cublasGemmEx(h, ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT); }
BW cublasStatus_t cublasCreate(cublasHandle_t* h) { *h = new cublasContext{0, CUBLAS_POINTER_MODE_HOST}; return CUBLAS_STATUS_SUCCESS; }
BW cublasStatus_t cublasDestroy(cublasHandle_t h) { cudaDeviceSynchronize(); delete h; return CUBLAS_STATUS_SUCCESS; }
#define cublasCreate_v2 cublasCreate
#define cublasDestroy_v2 cublasDestroy
BW cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t s) { h->stream = s; return CUBLAS_STATUS_SUCCESS; }
BW cublasStatus_t cublasGetStream(cublasHandle_t h, cudaStream_t* s) { *s = h->stream; return CUBLAS_STATUS_SUCCESS; }
BW cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
BW cublasStatus_t cublasSetPointerMode(cublasHandle_t h, cublasPointerMode_t m) { h->mode = m; return CUBLAS_STATUS_SUCCESS; }
BW cublasStatus_t cublasGetVersion(cublasHandle_t, int* v) { *v = 120800; return CUBLAS_STATUS_SUCCESS; }
BW cublasStatus_t backwarp_status(cudaError_t code) { return code ? CUBLAS_STATUS_MAPPING_ERROR : CUBLAS_STATUS_SUCCESS; }
BW cublasStatus_t cublasSetVector(int n, int size, const void* x, int ix, void* y, int iy) { return backwarp_status(cudaMemcpy2D(y, (size_t)iy * size, x, (size_t)ix * size, size, n, cudaMemcpyHostToDevice)); }
BW cublasStatus_t cublasGetVector(int n, int size, const void* x, int ix, void* y, int iy) { return backwarp_status(cudaMemcpy2D(y, (size_t)iy * size, x, (size_t)ix * size, size, n, cudaMemcpyDeviceToHost)); }
BW cublasStatus_t cublasSetMatrix(int m, int n, int size, const void* a, int lda, void* b, int ldb) { return backwarp_status(cudaMemcpy2D(b, (size_t)ldb * size, a, (size_t)lda * size, (size_t)m * size, n, cudaMemcpyHostToDevice)); }
BW cublasStatus_t cublasGetMatrix(int m, int n, int size, const void* a, int lda, void* b, int ldb) { return backwarp_status(cudaMemcpy2D(b, (size_t)ldb * size, a, (size_t)lda * size, (size_t)m * size, n, cudaMemcpyDeviceToHost)); }
BW const char* cublasGetStatusString(cublasStatus_t s) { return s ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_SUCCESS"; }
BW const char* cublasGetStatusName(cublasStatus_t s) { return cublasGetStatusString(s); }
#undef BW_CALL
#undef BW_P
#undef BW_N
#undef BW_BLAS
#undef BW_VECTORS
