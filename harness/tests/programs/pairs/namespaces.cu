// Kernels in namespaces without a name and static ones, which each compiler calls differently; managed memory begins with zeros.
namespace {
struct S { int x; };
__constant__ int c[2];
__global__ void k(int* a, S s) { a[threadIdx.x] += s.x + c[1]; }
template <int N> __global__ void t(int* a) { a[threadIdx.x] += N; }
}
namespace outer { namespace { __global__ void w(int* a) { atomicAdd(a, 1); } } }
static __global__ void n(int* a) { a[threadIdx.x]++; }

int main() {
    int h[2] = {1, 2}, *m;
    cudaMemcpyToSymbol(c, h, sizeof(h));
    cudaMallocManaged(&m, 32 * sizeof(int));
    k<<<1, 32>>>(m, S{5});
    t<3><<<1, 32>>>(m);
    outer::w<<<1, 32>>>(m);
    n<<<1, 32>>>(m);
    cudaDeviceSynchronize();
    int first = m[0], sixth = m[5];
    cudaFree(m);
    return first == 43 && sixth == 11 ? 0 : 1;
}
