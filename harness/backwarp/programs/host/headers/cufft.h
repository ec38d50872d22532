// cuFFT's transforms in one to three dimensions, computed by NumPy on the device's memory. None is divided by its length.
#pragma once
#include <cuComplex.h>
#include <map>
typedef enum { CUFFT_SUCCESS, CUFFT_INVALID_PLAN, CUFFT_ALLOC_FAILED, CUFFT_INVALID_TYPE, CUFFT_INVALID_VALUE, CUFFT_INTERNAL_ERROR, CUFFT_EXEC_FAILED, CUFFT_SETUP_FAILED, CUFFT_INVALID_SIZE, CUFFT_UNALIGNED_DATA, CUFFT_NOT_SUPPORTED = 16 } cufftResult_t;
typedef cufftResult_t cufftResult;
typedef enum { CUFFT_R2C = 0x2a, CUFFT_C2R = 0x2c, CUFFT_C2C = 0x29, CUFFT_D2Z = 0x6a, CUFFT_Z2D = 0x6c, CUFFT_Z2Z = 0x69 } cufftType_t;
typedef cufftType_t cufftType;
typedef int cufftHandle;
typedef float cufftReal; typedef double cufftDoubleReal; typedef cuComplex cufftComplex; typedef cuDoubleComplex cufftDoubleComplex;
#define CUFFT_FORWARD -1
#define CUFFT_INVERSE 1
extern "C" int backwarp_library(const char*, const unsigned long long*, int, const void*, cudaStream_t);
/// Of the input and the output: the elements from one to the next, from one transform to the next, and in the inner dimensions; 0: close together.
struct BackwarpLayout { long long step, distance, inner[2]; };
struct BackwarpPlan { int rank, batch, n[3]; cufftType type; BackwarpLayout in, out; cudaStream_t stream; };
static inline std::map<int, BackwarpPlan>& backwarp_plans() { static auto* all = new std::map<int, BackwarpPlan>; return *all; }
static inline BackwarpPlan* backwarp_plan(cufftHandle h) { auto at = backwarp_plans().find(h); return at == backwarp_plans().end() ? nullptr : &at->second; }
static inline cufftResult cufftCreate(cufftHandle* h) { static int made; *h = ++made; backwarp_plans()[*h] = {}; return CUFFT_SUCCESS; }
static inline cufftResult cufftDestroy(cufftHandle h) { return backwarp_plans().erase(h) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN; }
static inline cufftResult cufftSetStream(cufftHandle h, cudaStream_t s) { auto p = backwarp_plan(h); if (!p) return CUFFT_INVALID_PLAN; p->stream = s; return CUFFT_SUCCESS; }
static inline cufftResult cufftMakePlanMany(cufftHandle h, int rank, int* n, int* inembed, int istep, int idistance, int* onembed, int ostep, int odistance, cufftType type, int batch, size_t* work) {
    auto p = backwarp_plan(h);
    if (!p) return CUFFT_INVALID_PLAN;
    if (rank < 1 || rank > 3 || batch < 1) return CUFFT_INVALID_SIZE;
    for (int i = 0; i < rank; i++) if (n[i] < 1) return CUFFT_INVALID_SIZE;
    *p = {rank, batch, {1, 1, 1}, type, {}, {}, p->stream};
    for (int i = 0; i < rank; i++) p->n[i] = n[i];
    auto layout = [&](int* embed, int step, int distance) { BackwarpLayout l{}; if (embed) { l = {step, distance, {}}; for (int i = 1; i < rank; i++) l.inner[i - 1] = embed[i]; } return l; };
    p->in = layout(inembed, istep, idistance);
    p->out = layout(onembed, ostep, odistance);
    if (work) *work = 0;
    return CUFFT_SUCCESS;
}
static inline cufftResult cufftMakePlan1d(cufftHandle h, int n, cufftType type, int batch, size_t* work) { return cufftMakePlanMany(h, 1, &n, 0, 0, 0, 0, 0, 0, type, batch, work); }
static inline cufftResult cufftMakePlan2d(cufftHandle h, int a, int b, cufftType type, size_t* work) { int n[] = {a, b}; return cufftMakePlanMany(h, 2, n, 0, 0, 0, 0, 0, 0, type, 1, work); }
static inline cufftResult cufftMakePlan3d(cufftHandle h, int a, int b, int c, cufftType type, size_t* work) { int n[] = {a, b, c}; return cufftMakePlanMany(h, 3, n, 0, 0, 0, 0, 0, 0, type, 1, work); }
static inline cufftResult backwarp_planned(cufftHandle h, cufftResult code) { if (code) cufftDestroy(h); return code; }
static inline cufftResult cufftPlan1d(cufftHandle* h, int n, cufftType type, int batch) { cufftCreate(h); return backwarp_planned(*h, cufftMakePlan1d(*h, n, type, batch, 0)); }
static inline cufftResult cufftPlan2d(cufftHandle* h, int a, int b, cufftType type) { cufftCreate(h); return backwarp_planned(*h, cufftMakePlan2d(*h, a, b, type, 0)); }
static inline cufftResult cufftPlan3d(cufftHandle* h, int a, int b, int c, cufftType type) { cufftCreate(h); return backwarp_planned(*h, cufftMakePlan3d(*h, a, b, c, type, 0)); }
static inline cufftResult cufftPlanMany(cufftHandle* h, int rank, int* n, int* ie, int is, int id, int* oe, int os, int od, cufftType type, int batch) { cufftCreate(h); return backwarp_planned(*h, cufftMakePlanMany(*h, rank, n, ie, is, id, oe, os, od, type, batch, 0)); }
static inline cufftResult cufftGetVersion(int* v) { *v = 11300; return CUFFT_SUCCESS; }
BW cufftResult backwarp_fft(const char* kind, cufftHandle h, cufftType type, const void* in, void* out, int direction, int bytes) {
    auto p = backwarp_plan(h);
    if (!p) return CUFFT_INVALID_PLAN;
    if (p->type != type) return CUFFT_INVALID_TYPE;
    typedef unsigned long long W;
    W w[] = {(W)p->rank, (W)p->batch, (W)(direction > 0), (W)bytes, (W)p->n[0], (W)p->n[1], (W)p->n[2], (W)in, (W)p->in.step, (W)p->in.distance, (W)p->in.inner[0], (W)p->in.inner[1], (W)out, (W)p->out.step, (W)p->out.distance, (W)p->out.inner[0], (W)p->out.inner[1]};
    return backwarp_library(kind, w, sizeof w / 8, 0, p->stream) ? CUFFT_EXEC_FAILED : CUFFT_SUCCESS;
}
BW cufftResult cufftExecC2C(cufftHandle h, cufftComplex* in, cufftComplex* out, int d) { return backwarp_fft("fft c2c", h, CUFFT_C2C, in, out, d, 8); }
BW cufftResult cufftExecZ2Z(cufftHandle h, cufftDoubleComplex* in, cufftDoubleComplex* out, int d) { return backwarp_fft("fft c2c", h, CUFFT_Z2Z, in, out, d, 16); }
BW cufftResult cufftExecR2C(cufftHandle h, cufftReal* in, cufftComplex* out) { return backwarp_fft("fft r2c", h, CUFFT_R2C, in, out, 0, 8); }
BW cufftResult cufftExecD2Z(cufftHandle h, cufftDoubleReal* in, cufftDoubleComplex* out) { return backwarp_fft("fft r2c", h, CUFFT_D2Z, in, out, 0, 16); }
BW cufftResult cufftExecC2R(cufftHandle h, cufftComplex* in, cufftReal* out) { return backwarp_fft("fft c2r", h, CUFFT_C2R, in, out, 1, 8); }
BW cufftResult cufftExecZ2D(cufftHandle h, cufftDoubleComplex* in, cufftDoubleReal* out) { return backwarp_fft("fft c2r", h, CUFFT_Z2D, in, out, 1, 16); }
