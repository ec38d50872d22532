// A wrong kernel for puzzle 07, to be stepped through: see ../stepping.md.
extern "C" __global__ void conv2d_forward(const float* input, const float* weights, const float* bias,
                                          float* output, int batch, int C_in, int H, int W, int C_out, int F) {
    int P = H - F + 1, Q = W - F + 1;
    int at = threadIdx.x + blockDim.x * blockIdx.x;
    if (at >= batch * C_out * P * Q) return;
    int across = at % Q, down = at / Q % P, to = at / (P * Q) % C_out, image = at / (P * Q * C_out);
    float total = bias[to];
    for (int from = 0; from < C_in; ++from) {
        const float* plane = input + (image * C_in + from) * H * W;
        const float* filter = weights + (to * C_in + from) * F * F;
        for (int i = 0; i <= F; ++i) {
            for (int j = 0; j < F; ++j) total += plane[(down + i) * W + across + j] * filter[i * F + j];
        }
    }
    output[at] = total;
}
