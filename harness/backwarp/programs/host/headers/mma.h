// For kernels; the host knows the names' spaces, and the types that come with it.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace nvcuda { namespace wmma {} }
