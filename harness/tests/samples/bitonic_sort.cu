// Keys with values, sorted by a bitonic network: small strides in shared memory, large ones in global memory.
// The length is a power of two; the caller pads with the largest key.

constexpr int TILE = 256;

__device__ void order(unsigned& key, int& value, unsigned& other_key, int& other_value, bool up) {
    if ((key > other_key) == up) {
        unsigned k = key; key = other_key; other_key = k;
        int v = value; value = other_value; other_value = v;
    }
}

// All steps of `size` with a stride below TILE; all sizes up to TILE when `size` is 0.
extern "C" __global__ void sort_shared(unsigned* keys, int* values, unsigned size) {
    __shared__ unsigned k[TILE];
    __shared__ int v[TILE];
    unsigned base = blockIdx.x * TILE;
    for (unsigned i = threadIdx.x; i < TILE; i += blockDim.x) {
        k[i] = keys[base + i];
        v[i] = values[base + i];
    }
    for (unsigned s = size ? size : 2; s <= (size ? size : TILE); s *= 2)
        for (unsigned stride = min(s, TILE) / 2; stride > 0; stride /= 2) {
            __syncthreads();
            unsigned i = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
            order(k[i], v[i], k[i + stride], v[i + stride], ((base + i) & s) == 0);
        }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < TILE; i += blockDim.x) {
        keys[base + i] = k[i];
        values[base + i] = v[i];
    }
}

extern "C" __global__ void sort_global(unsigned* keys, int* values, unsigned size, unsigned stride) {
    unsigned t = blockIdx.x * blockDim.x + threadIdx.x, i = 2 * t - (t & (stride - 1));
    order(keys[i], values[i], keys[i + stride], values[i + stride], (i & size) == 0);
}
