#include <cublas_v2.h>
#include <cufft.h>
#include <curand.h>
#include <helper_cuda.h>
#include <helper_functions.h>
#include <omp.h>
#include <cooperative_groups.h>
#include <wb.h>
namespace cg = cooperative_groups;
__global__ void twice(float* a, int n) { auto g = cg::this_thread_block(); int i = g.thread_rank(); if (i < n) a[i] *= 2; }
static bool transforms() {
    const int n = 12;
    cufftComplex h[n], *d;
    for (int i = 0; i < n; i++) h[i] = make_cuComplex(i, 1);
    cudaMalloc(&d, sizeof h);
    cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
    cufftHandle plan, none;
    bool right = !cufftPlan1d(&plan, n, CUFFT_C2C, 1) && cufftPlan1d(&none, 0, CUFFT_C2C, 1) == CUFFT_INVALID_SIZE;
    right &= !cufftExecC2C(plan, d, d, CUFFT_FORWARD) && cufftExecR2C(plan, (float*)d, d) == CUFFT_INVALID_TYPE;
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    right &= fabs(h[0].x - 66) < 1e-4 && fabs(h[0].y - 12) < 1e-4 && fabs(h[6].x + 6) < 1e-4;
    right &= !cufftExecC2C(plan, d, d, CUFFT_INVERSE);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    cudaFree(d);
    return right && fabs(h[5].x - 60) < 1e-3 && !cufftDestroy(plan) && cufftDestroy(plan) == CUFFT_INVALID_PLAN;
}
/// With the files that the command line names, as programs of ECE408 do.
static bool course(int argc, char** argv) {
    wbArg_t args = wbArg_read(argc, argv);
    int rows, columns, length;
    wbTime_start(Generic, "Importing");
    float* a = (float*)wbImport(wbArg_getInputFile(args, 0), &rows, &columns);
    int* b = (int*)wbImport(wbArg_getInputFile(args, 1), &length, "Integer");
    wbImage_t image = wbImport(wbArg_getInputFile(args, 2));
    wbTime_stop(Generic, "Importing");
    wbLog(TRACE, "The dimensions are ", rows, " x ", columns);
    bool right = rows == 2 && columns == 3 && length == 4 && b[3] == -7 && wbImage_getWidth(image) == 2 && wbImage_getData(image)[5] == 1;
    for (int i = 0; i < 6; i++) a[i] *= 2;
    right &= wbSolution(args, a, rows, columns);
    a[5] += 1;
    return right && !wbSolution(args, a, rows, columns) && !wbSolution(args, a, columns, rows);
}
int main(int argc, char** argv) {
    if (!transforms() || !course(argc, argv)) return 2;
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
