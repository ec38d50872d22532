// Components of a graph by hooking and pointer jumping, with cuda::atomic_ref.

#include <cuda/atomic>

using Parent = cuda::atomic_ref<int, cuda::thread_scope_device>;

__device__ int find(int* parent, int v) {
    while (true) {
        int p = Parent(parent[v]).load(cuda::memory_order_relaxed);
        if (p == v) return v;
        v = p;
    }
}

extern "C" __global__ void hook(const int2* edges, int* parent, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int a = find(parent, edges[i].x), b = find(parent, edges[i].y);
    while (a != b) {
        if (a < b) { int t = a; a = b; b = t; }  // the larger root hooks onto the smaller
        int expected = a;
        if (Parent(parent[a]).compare_exchange_strong(expected, b, cuda::memory_order_relaxed)) break;
        a = find(parent, expected);
        b = find(parent, b);
    }
}

extern "C" __global__ void flatten(const int* parent, int* component, int vertices) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices) return;
    int root = v;
    while (parent[root] != root) root = parent[root];
    component[v] = root;
}
