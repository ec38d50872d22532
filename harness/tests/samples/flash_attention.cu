// Attention, softmax(Q K^T / sqrt(d)) V, one tile of keys at a time: no score matrix is kept. One thread per query.

constexpr int TILE = 32, DIM = 16;

extern "C" __global__ void flash_attention(const float* q, const float* k, const float* v, float* out, float* logsum,
                                           int length, int causal, float scale) {
    __shared__ float keys[TILE][DIM], values[TILE][DIM];
    size_t head = (size_t)blockIdx.y * length * DIM;
    int row = blockIdx.x * TILE + threadIdx.x;
    float query[DIM], sum[DIM], most = -INFINITY, total = 0.0f, score[TILE];
    for (int d = 0; d < DIM; d++) {
        query[d] = row < length ? q[head + row * DIM + d] * scale : 0.0f;
        sum[d] = 0.0f;
    }
    int last = causal ? min(length, (int)(blockIdx.x + 1) * TILE) : length;
    for (int start = 0; start < last; start += TILE) {
        for (int i = threadIdx.x; i < TILE * DIM; i += TILE) {
            int from = start + i / DIM;
            keys[i / DIM][i % DIM] = from < length ? k[head + start * DIM + i] : 0.0f;
            values[i / DIM][i % DIM] = from < length ? v[head + start * DIM + i] : 0.0f;
        }
        __syncthreads();
        float peak = most;
        for (int j = 0; j < TILE; j++) {
            float dot = 0.0f;
#pragma unroll
            for (int d = 0; d < DIM; d++) dot += query[d] * keys[j][d];
            bool hidden = start + j >= length || (causal && start + j > row);
            score[j] = hidden ? -INFINITY : dot;
            peak = fmaxf(peak, score[j]);
        }
        float shrink = most == -INFINITY ? 0.0f : expf(most - peak);
        total *= shrink;
        for (int d = 0; d < DIM; d++) sum[d] *= shrink;
        for (int j = 0; j < TILE; j++) {
            float weight = score[j] == -INFINITY ? 0.0f : expf(score[j] - peak);
            total += weight;
            for (int d = 0; d < DIM; d++) sum[d] += weight * values[j][d];
        }
        most = peak;
        __syncthreads();
    }
    if (row >= length) return;
    for (int d = 0; d < DIM; d++) out[head + row * DIM + d] = sum[d] / total;
    logsum[blockIdx.y * length + row] = most + logf(total);
}
