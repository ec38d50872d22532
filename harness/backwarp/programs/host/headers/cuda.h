// CUDA's driver API, with cuCtxCreate() as it was called before CUDA 13, too.
#pragma once
#include_next <cuda.h>
#undef cuCtxCreate
BW CUresult cuCtxCreate(CUcontext* c, unsigned flags, CUdevice d) { return cuCtxCreate_v4(c, nullptr, flags, d); }
BW CUresult cuCtxCreate(CUcontext* c, CUctxCreateParams* p, unsigned flags, CUdevice d) { return cuCtxCreate_v4(c, p, flags, d); }
