#include <cstdio>
#ifdef WRONG
#define EITHER(wrong, right) wrong
#else
#define EITHER(wrong, right) right
#endif

__global__ void add(float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] += 1;
}
template <typename F> float first(F use) { return use(0); }
static float total(const float* a, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += a[i];  // under-way
    return sum;
}

int main() {
    const int n = 5000, bytes = n * sizeof(float);
    float *m, *k, *d, *h, *g;
    cudaMallocManaged(&m, bytes); cudaMallocManaged(&k, bytes);
    cudaMalloc(&d, bytes);
    cudaMallocHost(&h, bytes); cudaHostAlloc(&g, bytes, cudaHostAllocDefault);
    for (int i = 0; i < n; i++) m[i] = k[i] = h[i] = g[i] = 1;
    cudaStream_t s, t;
    cudaStreamCreate(&s); cudaStreamCreate(&t);
    cudaEvent_t done;
    cudaEventCreate(&done);

    add<<<20, 256>>>(m, n);
    k[0] = 1;
    if (EITHER(0, 1)) cudaDeviceSynchronize();
    printf("%g\n", m[70]);                                          // under-way
    add<<<20, 256>>>(m, n);
    if (EITHER(0, 1)) cudaStreamSynchronize(0);
    m[3] = 7;                                                       // under-way
    add<<<20, 256, 0, s>>>(m, n);
    cudaStreamSynchronize(EITHER(t, s));
    printf("%g\n", total(m, n));
    cudaDeviceSynchronize();
    add<<<20, 256, 0, s>>>(m, n);
    cudaEventRecord(done, s);
    if (EITHER(0, 1)) cudaEventSynchronize(done);
    printf("%g\n", first([&](int i) { return m[i]; }));             // under-way

    cudaMemcpyAsync(d, h, bytes, cudaMemcpyHostToDevice, s);
    printf("may be read: %g\n", h[1]);
    if (EITHER(0, 1)) cudaStreamSynchronize(s);
    h[2] = 5;                                                       // under-way
    cudaStreamSynchronize(s);
    cudaMemcpyAsync(g, d, bytes, cudaMemcpyDeviceToHost, t);
    if (EITHER(0, 1)) cudaStreamSynchronize(t);
    printf("%g\n", g[80]);                                          // under-way
    cudaDeviceSynchronize();
    cudaMemcpyAsync(g, d, bytes, cudaMemcpyDeviceToHost, s);
    if (EITHER(1, 0)) cudaMemcpyAsync(g, d, bytes, cudaMemcpyDeviceToHost, t);    // race
    cudaDeviceSynchronize();
    cudaMemcpyAsync(d, h, bytes, cudaMemcpyHostToDevice, s);
    cudaEventRecord(done, s);
    if (EITHER(0, 1)) cudaStreamWaitEvent(t, done, 0);
    cudaMemcpyAsync(g, d, bytes, cudaMemcpyDeviceToHost, t);                      // race
    cudaDeviceSynchronize();

    cudaEvent_t never, other;
    cudaEventCreate(&never); cudaEventCreate(&other);
    cudaEventRecord(other);
    if (EITHER(0, 1)) cudaEventRecord(never);
    cudaEventSynchronize(other);
    float ms;
    cudaEventElapsedTime(&ms, other, never);                                      // event
    if (EITHER(1, 0)) cudaEventDestroy(other);
    cudaEventRecord(other, s);                                                    // handle
    if (EITHER(1, 0)) cudaStreamDestroy(t);
    add<<<20, 256, 0, t>>>(d, n);                                                 // handle
    cudaDeviceSynchronize();
    cudaFree(m); cudaFree(k); cudaFree(d); cudaFreeHost(h); cudaFreeHost(g);
}
