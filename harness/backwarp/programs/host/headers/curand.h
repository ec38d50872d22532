// cuRAND for the host: numbers of the wanted distribution, from NumPy's generator, not cuRAND's own sequences.
#pragma once
typedef enum { CURAND_STATUS_SUCCESS = 0, CURAND_STATUS_NOT_INITIALIZED = 101, CURAND_STATUS_ALLOCATION_FAILED = 102, CURAND_STATUS_TYPE_ERROR = 103, CURAND_STATUS_OUT_OF_RANGE = 104, CURAND_STATUS_LAUNCH_FAILURE = 201, CURAND_STATUS_INTERNAL_ERROR = 999 } curandStatus_t;
typedef curandStatus_t curandStatus;
typedef enum { CURAND_RNG_PSEUDO_DEFAULT = 100, CURAND_RNG_PSEUDO_XORWOW, CURAND_RNG_PSEUDO_MRG32K3A = 121, CURAND_RNG_PSEUDO_MTGP32 = 141, CURAND_RNG_PSEUDO_MT19937, CURAND_RNG_PSEUDO_PHILOX4_32_10 = 161, CURAND_RNG_QUASI_DEFAULT = 200 } curandRngType_t;
typedef curandRngType_t curandRngType;
struct curandGenerator_st { unsigned long long seed, drawn; cudaStream_t stream; bool host; };
typedef curandGenerator_st* curandGenerator_t;
extern "C" int backwarp_library(const char*, const unsigned long long*, int, const void*, cudaStream_t);
BW unsigned long long backwarp_bits(double v) { unsigned long long w; __builtin_memcpy(&w, &v, 8); return w; }
template <class T> BW curandStatus_t backwarp_draw(const char* kind, curandGenerator_t g, T* to, size_t n, double first, double second) {
    T* into = to;
    if (g->host && cudaMalloc(&into, n * sizeof(T)) != cudaSuccess) return CURAND_STATUS_ALLOCATION_FAILED;
    unsigned long long w[] = {(unsigned long long)into, n, sizeof(T), g->seed, g->drawn, backwarp_bits(first), backwarp_bits(second)};
    int code = backwarp_library(kind, w, 7, 0, g->stream);
    g->drawn += n;
    if (g->host) { cudaMemcpy(to, into, n * sizeof(T), cudaMemcpyDeviceToHost); cudaFree(into); }
    return code ? CURAND_STATUS_LAUNCH_FAILURE : CURAND_STATUS_SUCCESS;
}
#define BW_DRAW(name, T, kind) BW curandStatus_t name(curandGenerator_t g, T* to, size_t n) { return backwarp_draw("draw " kind, g, to, n, 0, 0); }
#define BW_DRAW2(name, T, kind) BW curandStatus_t name(curandGenerator_t g, T* to, size_t n, T mean, T deviation) { return backwarp_draw("draw " kind, g, to, n, mean, deviation); }
BW_DRAW(curandGenerateUniform, float, "uniform") BW_DRAW(curandGenerateUniformDouble, double, "uniform") BW_DRAW(curandGenerate, unsigned, "bits") BW_DRAW(curandGenerateLongLong, unsigned long long, "bits")
BW_DRAW2(curandGenerateNormal, float, "normal") BW_DRAW2(curandGenerateNormalDouble, double, "normal") BW_DRAW2(curandGenerateLogNormal, float, "lognormal") BW_DRAW2(curandGenerateLogNormalDouble, double, "lognormal")
BW curandStatus_t curandCreateGenerator(curandGenerator_t* g, curandRngType_t) { *g = new curandGenerator_st{0, 0, 0, false}; return CURAND_STATUS_SUCCESS; }
BW curandStatus_t curandCreateGeneratorHost(curandGenerator_t* g, curandRngType_t) { *g = new curandGenerator_st{0, 0, 0, true}; return CURAND_STATUS_SUCCESS; }
BW curandStatus_t curandDestroyGenerator(curandGenerator_t g) { delete g; return CURAND_STATUS_SUCCESS; }
BW curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t g, unsigned long long seed) { g->seed = seed; g->drawn = 0; return CURAND_STATUS_SUCCESS; }
BW curandStatus_t curandSetGeneratorOffset(curandGenerator_t g, unsigned long long at) { g->drawn = at; return CURAND_STATUS_SUCCESS; }
BW curandStatus_t curandSetStream(curandGenerator_t g, cudaStream_t s) { g->stream = s; return CURAND_STATUS_SUCCESS; }
#undef BW_DRAW
#undef BW_DRAW2
