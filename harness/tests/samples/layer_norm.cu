// Layer normalisation: mean and variance of a row by Welford's method, merged over lanes and warps.

struct Moments {
    float mean = 0.0f, m2 = 0.0f, count = 0.0f;
    __device__ void add(float x) {
        count += 1.0f;
        float delta = x - mean;
        mean += delta / count;
        m2 += delta * (x - mean);
    }
    __device__ void merge(const Moments& other) {
        if (other.count == 0.0f) return;
        float total = count + other.count, delta = other.mean - mean;
        mean += delta * (other.count / total);
        m2 += other.m2 + delta * delta * (count * other.count / total);
        count = total;
    }
};

__device__ void merge_lanes(Moments& m) {
    for (int step = 16; step > 0; step /= 2) {
        Moments other;
        other.mean = __shfl_down_sync(0xffffffff, m.mean, step);
        other.m2 = __shfl_down_sync(0xffffffff, m.m2, step);
        other.count = __shfl_down_sync(0xffffffff, m.count, step);
        m.merge(other);
    }
}

extern "C" __global__ void layer_norm(const float* x, const float* gain, const float* bias, float* out, int columns, float epsilon) {
    __shared__ float warps[3][32];
    __shared__ float mean, scale;
    const float* row = x + blockIdx.x * columns;
    Moments m;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) m.add(row[i]);
    merge_lanes(m);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) {
        warps[0][warp] = m.mean;
        warps[1][warp] = m.m2;
        warps[2][warp] = m.count;
    }
    __syncthreads();
    if (warp == 0) {
        Moments all;
        if (lane < blockDim.x / 32) {
            all.mean = warps[0][lane];
            all.m2 = warps[1][lane];
            all.count = warps[2][lane];
        }
        merge_lanes(all);
        if (lane == 0) {
            mean = all.mean;
            scale = rsqrtf(all.m2 / all.count + epsilon);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out[blockIdx.x * columns + i] = (row[i] - mean) * scale * gain[i] + bias[i];
}
