// cuBLASLt's handle, which many programs make and never use; its products are not here.
#pragma once
#include <cublas_v2.h>
typedef struct cublasLtContext* cublasLtHandle_t;
BW cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return cublasCreate((cublasHandle_t*)handle); }
BW cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return cublasDestroy((cublasHandle_t)handle); }
