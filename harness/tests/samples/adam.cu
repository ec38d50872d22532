// A fused step of Adam with decoupled weight decay, four parameters at a time where they are aligned.

struct Step {
    float rate, beta1, beta2, epsilon, decay, correction1, correction2;
};

__device__ __forceinline__ void update(float& w, float g, float& m, float& v, const Step& s) {
    m = s.beta1 * m + (1.0f - s.beta1) * g;
    v = s.beta2 * v + (1.0f - s.beta2) * g * g;
    float step = m / s.correction1 / (sqrtf(v / s.correction2) + s.epsilon);
    w -= s.rate * (step + s.decay * w);
}

extern "C" __global__ void adam(float* w, const float* g, float* m, float* v, int n, Step s) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 4 <= n) {
        float4 w4 = *(float4*)(w + i), g4 = *(const float4*)(g + i), m4 = *(float4*)(m + i), v4 = *(float4*)(v + i);
        update(w4.x, g4.x, m4.x, v4.x, s);
        update(w4.y, g4.y, m4.y, v4.y, s);
        update(w4.z, g4.z, m4.z, v4.z, s);
        update(w4.w, g4.w, m4.w, v4.w, s);
        *(float4*)(w + i) = w4;
        *(float4*)(m + i) = m4;
        *(float4*)(v + i) = v4;
    } else {
        for (; i < n; i++) update(w[i], g[i], m[i], v[i], s);
    }
}
