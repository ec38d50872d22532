// The four largest of every row, with their indices: insertion in registers, then a tournament between lanes.

constexpr int K = 4;

struct Best {
    float value[K];
    int index[K];
    __device__ Best() {
        for (int i = 0; i < K; i++) value[i] = -INFINITY, index[i] = -1;
    }
    __device__ void insert(float v, int at) {
        for (int i = 0; i < K; i++) {
            bool better = v > value[i] || (v == value[i] && (unsigned)at < (unsigned)index[i]);
            float old_value = value[i];
            int old_index = index[i];
            if (better) {
                value[i] = v, index[i] = at;
                v = old_value, at = old_index;
            }
        }
    }
};

extern "C" __global__ void top_k(const float* x, float* values, int* indices, int columns) {
    Best best;
    for (int i = threadIdx.x; i < columns; i += 32) best.insert(x[blockIdx.x * columns + i], i);
    for (int step = 16; step > 0; step /= 2) {
        Best other = best;
        for (int i = 0; i < K; i++) {
            float v = __shfl_xor_sync(~0u, best.value[i], step);
            int at = __shfl_xor_sync(~0u, best.index[i], step);
            if (at >= 0) other.insert(v, at);
        }
        best = other;
    }
    if (threadIdx.x < K) {
        float v = 0;
        int at = 0;
        for (int i = 0; i < K; i++)
            if (i == threadIdx.x) v = best.value[i], at = best.index[i];
        values[blockIdx.x * K + threadIdx.x] = v;
        indices[blockIdx.x * K + threadIdx.x] = at;
    }
}
