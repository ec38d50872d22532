// Rows added up at the places that tokens name: float atomics, double atomics made of compare-and-swap, a float maximum.

__device__ double add_double(double* address, double value) {
    unsigned long long* bits = (unsigned long long*)address;
    unsigned long long old = *bits, seen;
    do {
        seen = old;
        old = atomicCAS(bits, seen, __double_as_longlong(value + __longlong_as_double(seen)));
    } while (old != seen);
    return __longlong_as_double(old);
}

__device__ void max_float(float* address, float value) {
    if (value >= 0) atomicMax((int*)address, __float_as_int(value));
    else atomicMin((unsigned*)address, __float_as_uint(value));
}

extern "C" __global__ void embedding_gradient(const int* tokens, const float* rows, float* table, double* sums, float* largest,
                                              int count, int width) {
    int token = blockIdx.x;
    if (token >= count) return;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float g = rows[token * width + i];
        atomicAdd(&table[tokens[token] * width + i], g);
        add_double(&sums[tokens[token]], g);
        max_float(&largest[tokens[token]], g);
    }
}
