// American put options by a binomial tree, one option per block; the tree shrinks in shared memory, in double.

constexpr int STEPS = 64;

struct Option {
    double spot, strike, years, rate, volatility;
};

extern "C" __global__ void binomial_options(const Option* options, double* prices) {
    __shared__ double value[STEPS + 1];
    const Option o = options[blockIdx.x];
    const double dt = o.years / STEPS, up = exp(o.volatility * sqrt(dt)), down = 1.0 / up;
    const double grow = exp(o.rate * dt), p = (grow - down) / (up - down);
    int i = threadIdx.x;
    value[i] = fmax(o.strike - o.spot * pow(up, 2.0 * i - STEPS), 0.0);
    for (int step = STEPS - 1; step >= 0; step--) {
        __syncthreads();
        double held = i <= step ? (p * value[i + 1] + (1.0 - p) * value[i]) / grow : 0.0;
        __syncthreads();
        if (i <= step) value[i] = fmax(held, o.strike - o.spot * pow(up, 2.0 * i - step));
    }
    if (i == 0) prices[blockIdx.x] = value[0];
}
