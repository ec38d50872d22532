// Windows as ranges: first and last window of an element, first and last element of a window; no test in a loop.

struct Side {
    int size, window, stride, pad, dilation, count;

    __device__ Side(int size, int window, int stride, int pad, int dilation, int ceil_mode)
        : size(size), window(window), stride(stride), pad(pad), dilation(dilation) {
        int last = size + 2 * pad - dilation * (window - 1) - 1 + (ceil_mode ? stride - 1 : 0);
        count = min(last / stride, (size + pad - 1) / stride) + 1;
    }
    __device__ int first(int p) const { return max(p * stride - pad, 0); }
    __device__ int end(int p) const { return min(p * stride - pad + window, size); }
    __device__ int counted(int p, int with_padding) const {
        return with_padding ? min(p * stride - pad + window, size + pad) - (p * stride - pad) : end(p) - first(p);
    }
    // windows that may hold x
    __device__ int first_window(int x) const {
        int reach = dilation * (window - 1) + 1;
        return x + pad < reach ? 0 : (x + pad - reach) / stride + 1;
    }
    __device__ int end_window(int x) const { return min((x + pad) / stride + 1, count); }
};

__global__ void avg_pool2d_forward(
    const float* input, float* output, int batch, int C, int H, int W, int R, int S, int stride_h, int stride_w,
    int pad_h, int pad_w, int ceil_mode, int count_include_pad, int divisor_override) {
    Side down(H, R, stride_h, pad_h, 1, ceil_mode), across(W, S, stride_w, pad_w, 1, ceil_mode);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C * down.count * across.count) return;
    int q = idx % across.count, p = idx / across.count % down.count;
    const float* plane = input + idx / (across.count * down.count) * H * W;
    float sum = 0;
    for (int h = down.first(p); h < down.end(p); h++)
        for (int w = across.first(q); w < across.end(q); w++) sum += plane[h * W + w];
    if (!divisor_override)
        divisor_override = down.counted(p, count_include_pad) * across.counted(q, count_include_pad);
    output[idx] = sum / divisor_override;
}

__global__ void avg_pool2d_backward(
    const float* grad_output, float* grad_input, int batch, int C, int H, int W, int R, int S, int stride_h,
    int stride_w, int pad_h, int pad_w, int ceil_mode, int count_include_pad, int divisor_override) {
    Side down(H, R, stride_h, pad_h, 1, ceil_mode), across(W, S, stride_w, pad_w, 1, ceil_mode);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C * H * W) return;
    int w = idx % W, h = idx / W % H;
    const float* plane = grad_output + idx / (W * H) * down.count * across.count;
    float sum = 0;
    for (int p = down.first_window(h); p < down.end_window(h); p++)
        for (int q = across.first_window(w); q < across.end_window(w); q++) {
            int divisor = down.counted(p, count_include_pad) * across.counted(q, count_include_pad);
            sum += plane[p * across.count + q] / (divisor_override ? divisor_override : divisor);
        }
    grad_input[idx] = sum;
}

__global__ void max_pool2d_general_forward(
    const float* input, float* output, int* argmax, int batch, int C, int H, int W, int R, int S, int stride_h,
    int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int ceil_mode) {
    Side down(H, R, stride_h, pad_h, dilation_h, ceil_mode), across(W, S, stride_w, pad_w, dilation_w, ceil_mode);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C * down.count * across.count) return;
    int q = idx % across.count, p = idx / across.count % down.count;
    const float* plane = input + idx / (across.count * down.count) * H * W;
    int top = p * stride_h - pad_h, left = q * stride_w - pad_w;
    int h_end = min(top + (R - 1) * dilation_h + 1, H), w_end = min(left + (S - 1) * dilation_w + 1, W);
    while (top < 0) top += dilation_h;
    while (left < 0) left += dilation_w;
    int at = top * W + left;
    for (int h = top; h < h_end; h += dilation_h)
        for (int w = left; w < w_end; w += dilation_w)
            if (plane[h * W + w] > plane[at] || isnan(plane[h * W + w])) at = h * W + w;
    output[idx] = plane[at];
    argmax[idx] = at;
}

__global__ void max_pool2d_general_backward(
    const float* grad_output, const int* argmax, float* grad_input, int batch, int C, int H, int W, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int ceil_mode) {
    Side down(H, R, stride_h, pad_h, dilation_h, ceil_mode), across(W, S, stride_w, pad_w, dilation_w, ceil_mode);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C * H * W) return;
    int place = idx % (W * H), first = idx / (W * H) * down.count * across.count;
    float sum = 0;
    for (int p = down.first_window(place / W); p < down.end_window(place / W); p++)
        for (int q = across.first_window(place % W); q < across.end_window(place % W); q++)
            if (argmax[first + p * across.count + q] == place) sum += grad_output[first + p * across.count + q];
    grad_input[idx] = sum;
}
