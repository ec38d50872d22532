// What programs take from the header of this name in NVIDIA's samples.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <helper_string.h>
BW const char* _cudaGetErrorEnum(cudaError_t code) { return cudaGetErrorName(code); }
template <class T> void backwarp_check(T code, const char* call, const char* file, int line) {
    if (!code) return;
    fprintf(stderr, "CUDA error at %s:%d code=%d \"%s\"\n", file, line, (int)code, call);
    exit(EXIT_FAILURE);
}
#define checkCudaErrors(call) backwarp_check((call), #call, __FILE__, __LINE__)
#define getLastCudaError(message) backwarp_last(message, __FILE__, __LINE__)
#define printLastCudaError(message) getLastCudaError(message)
static inline void backwarp_last(const char* message, const char* file, int line) {
    cudaError_t code = cudaGetLastError();
    if (code == cudaSuccess) return;
    fprintf(stderr, "%s(%d) : %s : (%d) %s.\n", file, line, message, (int)code, cudaGetErrorString(code));
    exit(EXIT_FAILURE);
}
static inline int _ConvertSMVer2Cores(int major, int) { return major == 8 ? 64 : 128; }
static inline const char* _ConvertSMVer2ArchName(int, int) { return "Ampere"; }
static inline int gpuDeviceInit(int) { return 0; }
static inline int gpuGetMaxGflopsDeviceId() { return 0; }
static inline int findCudaDevice(int, const char**) {
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, 0);
    printf("GPU Device 0: \"%s\" with compute capability %d.%d\n\n", p.name, p.major, p.minor);
    return 0;
}
static inline int findIntegratedGPU() { return -1; }
static inline bool checkCudaCapabilities(int major, int minor) { return major < 8 || major == 8 && !minor; }
#ifndef MAX
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif
#ifndef MIN
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#endif
