// A wrong kernel for puzzle 19, to be stepped through: see ../stepping.md.
extern "C" __global__ void conv2d_backward_bias(const float* grad_output, float* grad_bias,
                                                int batch, int C_out, int H_out, int W_out) {
    extern __shared__ float part[];
    int me = threadIdx.x, area = H_out * W_out, count = batch * area;
    float own = 0;
    for (int at = me; at < count; at += blockDim.x) {
        own += grad_output[(at / area * C_out + blockIdx.x) * area + at % area];
    }
    part[me] = own;
    if (me == 0) {
        float all = 0;
        for (int other = 0; other < blockDim.x; ++other) all += part[other];
        grad_bias[blockIdx.x] = all;
    }
}
