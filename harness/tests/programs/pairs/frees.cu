#include <cstdio>
#include <cstdlib>
#ifdef WRONG
#define EITHER(wrong, right) wrong
#else
#define EITHER(wrong, right) right
#endif

struct Buffer {
    float* p;
    Buffer() { cudaMalloc(&p, 400); }
    ~Buffer() { cudaFree(p); }  // freed-twice
};

int main() {
    float *a, *b, *pinned, *host = (float*)malloc(400);
    cudaMalloc(&a, 400);
    cudaMalloc(&b, 400);
    cudaMallocHost(&pinned, 400);
    {
        Buffer one;
        if (EITHER(1, 0)) cudaFree(one.p);
    }
    if (EITHER(1, 0)) cudaFree(host);                                // free-host
    cudaFree(EITHER(a + 1, a));                                      // free-inside
    if (EITHER(1, 0)) cudaFree(a);
    if (EITHER(1, 0)) cudaFreeHost(b); else cudaFree(b);             // free-host
    if (EITHER(1, 0)) cudaFree(pinned); else cudaFreeHost(pinned);   // free-host
    cudaFree(nullptr);
    free(host);
    float* kept;
    cudaMalloc(&kept, 800);                                          // leak
    if (EITHER(0, 1)) cudaFree(kept);
    printf("end\n");
}
