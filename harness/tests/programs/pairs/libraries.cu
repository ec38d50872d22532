#include <cublas_v2.h>
#include <curand.h>
#include <helper_cuda.h>
#include <helper_functions.h>
#include <omp.h>
#include <cooperative_groups.h>
#include <cstdio>
#include <vector>
namespace cg = cooperative_groups;
__global__ void twice(float* a, int n) { auto g = cg::this_thread_block(); int i = g.thread_rank(); if (i < n) a[i] *= 2; }
int main(int argc, char** argv) {
    findCudaDevice(argc, (const char**)argv);
    const int m = 5, n = 7, k = 3;
    std::vector<float> a(m * k), b(k * n), c(m * n), d(m * n);
    curandGenerator_t g; curandCreateGenerator(&g, CURAND_RNG_PSEUDO_DEFAULT); curandSetPseudoRandomGeneratorSeed(g, 7);
    float *da, *db, *dc;
    checkCudaErrors(cudaMalloc(&da, 4 * m * k)); checkCudaErrors(cudaMalloc(&db, 4 * k * n)); checkCudaErrors(cudaMalloc(&dc, 4 * m * n));
    curandGenerateUniform(g, da, m * k); curandGenerateNormal(g, db, k * n, 0.f, 1.f);
    checkCudaErrors(cudaMemcpy(a.data(), da, 4 * m * k, cudaMemcpyDeviceToHost)); cudaMemcpy(b.data(), db, 4 * k * n, cudaMemcpyDeviceToHost);
    cublasHandle_t h; cublasCreate(&h);
    float one = 1, zero = 0;
    cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, da, m, db, k, &zero, dc, m);
    twice<<<1, 64>>>(dc, m * n);
    getLastCudaError("twice");
    cublasGetMatrix(m, n, 4, dc, m, c.data(), m);
    float dot; cublasSdot(h, m * k, da, 1, da, 1, &dot); float want = 0; for (float x : a) want += x * x;
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) { float s = 0; for (int l = 0; l < k; l++) s += a[i + l * m] * b[l + j * k]; d[i + j * m] = s * 2; }
    cublasDestroy(h); cudaFree(da); cudaFree(db); cudaFree(dc); curandDestroyGenerator(g);
    return !(sdkCompareL2fe(d.data(), c.data(), m * n, 1e-6f) && fabs(dot - want) < 1e-4 && omp_get_max_threads() == 1);
}
