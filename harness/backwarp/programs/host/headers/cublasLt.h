// cuBLASLt by name: creating a handle says that it is not here.
#pragma once
#include <cublas_v2.h>
typedef struct cublasLtContext* cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque* cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque* cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque* cublasLtMatmulPreference_t;
extern "C" int backwarp_absent(const char*);
BW cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { *handle = 0; backwarp_absent("cublasLtCreate"); return CUBLAS_STATUS_NOT_SUPPORTED; }
BW cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
