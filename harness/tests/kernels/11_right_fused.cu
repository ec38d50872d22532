// Right: fused multiply-adds, in another order.

extern "C" __global__ void sgd_step(float* __restrict__ weights, float* __restrict__ velocity,
                                    const float* __restrict__ gradient, const int n, const float learning_rate,
                                    const float momentum, const float weight_decay) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float w = weights[i];
    const float v = fmaf(weight_decay, w, fmaf(momentum, velocity[i], gradient[i]));
    weights[i] = fmaf(-learning_rate, v, w);
    velocity[i] = v;
}
