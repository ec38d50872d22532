// Right: backward, one thread per window writes its four elements; spare threads write the remainder.

extern "C" __global__ void max_pool2d_forward(const float* input, float* output, int* argmax, int batch, int C,
                                              int H, int W) {
    const int rows = H / 2, columns = W / 2;
    for (int idx = blockIdx.x * blockDim.x + threadIdx.x; idx < batch * C * rows * columns;
         idx += gridDim.x * blockDim.x) {
        int q = idx % columns, p = idx / columns % rows;
        const float* plane = input + idx / (rows * columns) * H * W;
        int at = 2 * (p * W + q);
        for (int n = 1; n < 4; n++) {
            int place = 2 * (p * W + q) + n % 2 + n / 2 * W;
            float x = plane[place], best = plane[at];
            if (x > best || x != x) at = place;
        }
        output[idx] = plane[at];
        argmax[idx] = at;
    }
}

extern "C" __global__ void max_pool2d_backward(const float* grad_output, const int* argmax, float* grad_input,
                                               int batch, int C, int H, int W) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int h = idx / W % H, w = idx % W, plane = idx / (H * W);
    if (plane >= batch * C) return;
    bool odd_row = h == H - 1 && H % 2, odd_column = w == W - 1 && W % 2;
    if (odd_row || odd_column) {
        grad_input[idx] = 0;
    } else if (h % 2 == 0 && w % 2 == 0) {
        int window = (plane * (H / 2) + h / 2) * (W / 2) + w / 2;
        for (int n = 0; n < 4; n++) {
            int place = (h + n / 2) * W + w + n % 2;
            grad_input[plane * H * W + place] = place == argmax[window] ? grad_output[window] : 0;
        }
    }
}
