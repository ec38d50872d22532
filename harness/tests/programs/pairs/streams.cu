#include <cstdio>
#include <cublas_v2.h>
#ifdef WRONG
#define EITHER(wrong, right) wrong
#else
#define EITHER(wrong, right) right
#endif

__global__ void scale(const float* a, float* b, int first, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[first + i] = 2 * a[first + i];
}
__global__ void count(int* total) { atomicAdd(total, 1); }
__global__ void store(int* total) { if (threadIdx.x == 0) *total = 1; }
struct Pair { const float* from; float* to; };
__global__ void through(Pair p, int n) {
    int i = threadIdx.x;
    if (i < n) p.to[i] = p.from[i];
}

static void first_of(void* p) { *(volatile float*)p; }
static void put(void* p) { *(volatile float*)p = 1; }
static void told(cudaStream_t, cudaError_t, void* p) { put(p); }
static void asks(void*) { if (EITHER(1, 0)) cudaDeviceSynchronize(); }    // in-call

int main() {
    const int n = 4096, bytes = n * sizeof(float);
    float *h, *g, *a, *b, *c;
    int* total;
    cudaMallocHost(&h, bytes); cudaMallocHost(&g, bytes);
    cudaMalloc(&a, bytes); cudaMalloc(&b, bytes); cudaMalloc(&c, bytes); cudaMalloc(&total, sizeof(int));
    for (int i = 0; i < n; i++) h[i] = i;
    cudaMemset(a, 0, bytes); cudaMemset(b, 0, bytes); cudaMemset(c, 0, bytes); cudaMemset(total, 0, sizeof(int));
    cudaStream_t s, t, free_;
    cudaStreamCreate(&s); cudaStreamCreate(&t); cudaStreamCreateWithFlags(&free_, cudaStreamNonBlocking);
    cudaEvent_t e;
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    auto wait = [&] { cudaDeviceSynchronize(); };
    wait();

    cudaMemcpyAsync(a, h, bytes, cudaMemcpyHostToDevice, s);
    scale<<<16, 256, 0, EITHER(t, s)>>>(a, b, 0, n);                      // race
    wait();
    scale<<<16, 256, 0, s>>>(a, b, 0, n);
    cudaMemcpyAsync(g, b, bytes, cudaMemcpyDeviceToHost, EITHER(t, s));   // race
    wait();
    scale<<<16, 256, 0, s>>>(a, b, 0, n);
    scale<<<16, 256, 0, t>>>(EITHER(b, a), c, 0, n);                      // race
    wait();
    for (int i = 0; i < 4; i++) {  // each stream has its own part
        cudaStream_t own = i % 2 ? s : t;
        int first = i * n / 4;
        cudaMemcpyAsync(a + first, h + first, bytes / 4, cudaMemcpyHostToDevice, own);
        scale<<<4, 256, 0, own>>>(a, b, EITHER(first / 2, first), n / 4);  // race
        cudaMemcpyAsync(g + first, b + first, bytes / 4, cudaMemcpyDeviceToHost, own);
    }
    wait();
    cudaMemcpyAsync(a, h, bytes, cudaMemcpyHostToDevice, s);
    if (EITHER(0, 1)) cudaEventRecord(e, s);
    cudaStreamWaitEvent(t, e, 0);
    scale<<<16, 256, 0, t>>>(a, b, 0, n);                                 // race
    wait();
    scale<<<16, 256, 0, s>>>(a, b, 0, n);
    cudaEventRecord(e, s);
    if (EITHER(0, 1)) cudaStreamWaitEvent(free_, e, 0);
    cudaMemsetAsync(b, 0, bytes, free_);                                  // race
    wait();
    scale<<<16, 256>>>(a, b, 0, n);
    scale<<<16, 256, 0, EITHER(free_, t)>>>(b, c, 0, n);                  // race
    wait();
    count<<<1, 32, 0, s>>>(total);
    count<<<1, 32, 0, t>>>(total);
    wait();
    count<<<1, 32, 0, s>>>(total);
    store<<<1, 32, 0, EITHER(t, s)>>>(total);                             // race
    wait();
    through<<<1, 64, 0, s>>>(Pair{a, b}, 64);
    through<<<1, 64, 0, t>>>(Pair{EITHER(b, b + 64), c}, 64);             // race
    wait();
    cublasHandle_t blas;
    cublasCreate(&blas);
    cublasSetStream(blas, s);
    float two = 2;
    cublasSscal(blas, n, &two, b, 1);
    cudaMemcpyAsync(g, b, bytes, cudaMemcpyDeviceToHost, EITHER(t, s));   // race
    wait();
    cudaMemcpyAsync(a, h, bytes, cudaMemcpyHostToDevice, s);
    cudaStreamSynchronize(EITHER(t, s));
    scale<<<16, 256, 0, t>>>(a, b, 0, n);                                 // race
    wait();
    cublasDestroy(blas);

    // functions of the host in a stream
    cudaMemcpyAsync(g, a, bytes, cudaMemcpyDeviceToHost, s);
    cudaLaunchHostFunc(EITHER(t, s), first_of, g);                        // race
    wait();
    cudaStreamAddCallback(s, told, h, 0);
    cudaMemcpyAsync(a, h, bytes, cudaMemcpyHostToDevice, EITHER(t, s));   // race
    wait();
    cudaLaunchHostFunc(s, put, h);
    if (EITHER(0, 1)) cudaStreamSynchronize(s);
    float seen = h[0];                                                    // under-way
    cudaLaunchHostFunc(s, asks, nullptr);
    wait();

    // memory that is allocated and freed in the order of a stream
    float* part;
    cudaMallocAsync(&part, bytes, s);
    scale<<<16, 256, 0, EITHER(t, s)>>>(a, part, 0, n);                   // race
    wait();
    scale<<<16, 256, 0, s>>>(a, part, 0, n);
    cudaFreeAsync(part, EITHER(free_, s));                                // race
    wait();
    g[0] = seen;
    cudaFreeHost(h); cudaFreeHost(g);
    cudaFree(a); cudaFree(b); cudaFree(c); cudaFree(total);
}
