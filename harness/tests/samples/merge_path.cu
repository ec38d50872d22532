// Two sorted arrays become one: every thread finds its diagonal of the merge path by bisection and merges a piece.

constexpr int PER_THREAD = 5;

__device__ int split(const int* a, int na, const int* b, int nb, int diagonal) {
    int low = max(0, diagonal - nb), high = min(diagonal, na);
    while (low < high) {
        int middle = (low + high) / 2;
        if (a[middle] <= b[diagonal - 1 - middle]) low = middle + 1;
        else high = middle;
    }
    return low;
}

extern "C" __global__ void merge_path(const int* a, int na, const int* b, int nb, int* out) {
    int from = (blockIdx.x * blockDim.x + threadIdx.x) * PER_THREAD, end = min(from + PER_THREAD, na + nb);
    if (from >= na + nb) return;
    int i = split(a, na, b, nb, from), j = from - i;
    for (int at = from; at < end; at++) out[at] = j >= nb || (i < na && a[i] <= b[j]) ? a[i++] : b[j++];
}
