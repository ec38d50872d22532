// Image after image, and a tree whose steps are powers of two: the first one folds what is beyond the largest.
extern "C" __global__ void conv2d_backward_bias(const float* grad_output, float* grad_bias, int batch, int C_out,
                                                int H_out, int W_out) {
    extern __shared__ float part[];
    const int t = threadIdx.x, threads = blockDim.x, plane = H_out * W_out;
    float sum = 0;
    for (int b = 0; b < batch; ++b) {
        const float* row = grad_output + (b * C_out + blockIdx.x) * plane;
        for (int i = t; i < plane; i += threads) sum += row[i];
    }
    part[t] = sum;
    int stride = 1;
    while (2 * stride < threads) stride *= 2;
    for (; stride > 0; stride /= 2) {
        __syncthreads();
        if (t < stride && t + stride < threads) part[t] += part[t + stride];
    }
    if (t == 0) grad_bias[blockIdx.x] = part[0];
}
