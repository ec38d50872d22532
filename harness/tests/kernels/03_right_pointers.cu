// Right: two pointers walk along two rows; the bias comes last.

extern "C" __global__ void fc_forward(const float* input, const float* weights, const float* bias,
                                      float* output, int batch, int n_in, int n_out) {
    const unsigned o = threadIdx.x + blockDim.x * blockIdx.x, b = threadIdx.y + blockDim.y * blockIdx.y;
    if (o < n_out && b < batch) {
        const float *x = input + b * n_in, *w = weights + o * n_in;
        float sum = 0;
        for (const float* end = x + n_in; x != end;) sum = fmaf(*x++, *w++, sum);
        output[b * n_out + o] = bias[o] + sum;
    }
}
