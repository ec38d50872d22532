// Each line with a mark is a mistake in one of the two programs, and right in the other.
#include <cstdio>
#include <vector>
#ifdef WRONG
#define EITHER(wrong, right) wrong
#else
#define EITHER(wrong, right) right
#endif
#define CHECK(call) do { if ((call) != cudaSuccess) seen++; } while (0)

static int seen = 0;
__constant__ float weights[8];
__global__ void use(float* out) { out[threadIdx.x] = weights[threadIdx.x % 8]; }

template <typename T> void upload(T* to, const std::vector<T>& from) {
    CHECK(cudaMemcpy(to, from.data(), from.size() * sizeof(T), EITHER(cudaMemcpyDeviceToHost, cudaMemcpyHostToDevice)));  // direction
}

int main() {
    const int n = 100, bytes = n * sizeof(float);
    std::vector<float> h(n, 1.f);
    float *a, *b, *c, *gone;
    CHECK(cudaMalloc(&a, bytes));
    CHECK(cudaMalloc((void**)&b, EITHER(n, bytes)));
    CHECK(cudaMallocManaged(&c, bytes));
    CHECK(cudaMalloc(&gone, bytes));
    upload(a, h);
    CHECK(cudaMemcpy(h.data(), a, bytes, EITHER(cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost)));  // direction
    CHECK(cudaMemcpy(a, EITHER(h.data(), c), bytes, cudaMemcpyDeviceToDevice));                     // direction
    CHECK(cudaMemcpy(c, h.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(b, h.data(), bytes, cudaMemcpyHostToDevice));                                  // too-long
    CHECK(cudaMemcpy(h.data(), a, EITHER(bytes + 4, bytes), cudaMemcpyDefault));                    // too-long
    CHECK(cudaMemcpy(a + 50, h.data(), EITHER(bytes, bytes / 2), cudaMemcpyHostToDevice));          // too-long
    CHECK(cudaMemset(EITHER(h.data(), a), 0, bytes));                                               // direction
    auto clear = [&](float* p, size_t size) { CHECK(cudaMemset(p, 0, size)); };                     // too-long
    clear(a, EITHER(bytes * 4, bytes));
    float* none = nullptr;
    CHECK(cudaMemcpy(EITHER(none, a), h.data(), bytes, cudaMemcpyHostToDevice));                    // null
    CHECK(cudaMemcpy2D(h.data(), 40, a, 40, EITHER(48, 40), 10, cudaMemcpyDeviceToHost));           // too-long
    CHECK(cudaMemcpyToSymbol(weights, h.data(), EITHER(bytes, 32)));                                // too-long
    use<<<1, 32>>>(a);
    CHECK(cudaGetLastError());
    if (EITHER(1, 0)) CHECK(cudaFree(gone));
    CHECK(cudaMemcpy(h.data(), EITHER(gone, a), bytes, cudaMemcpyDeviceToHost));                    // freed
    if (EITHER(0, 1)) CHECK(cudaFree(gone));
    CHECK(cudaFree(a)); CHECK(cudaFree(b)); CHECK(cudaFree(c));
    printf("%d\n", seen);
}
