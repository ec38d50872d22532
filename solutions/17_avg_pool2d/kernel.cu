// Puzzle 17: pooling with every option, by mean and by maximum, forward and backward.
//
// What to do: the mean and the maximum of windows with their own stride, padding and
// dilation; the last window may hang over the edge. The backward pass gathers: a thread finds
// all windows that its input element is in. You will write about 82 lines.
//
// Check: backwarp grade 17    Stuck: backwarp hint 17    Start again: backwarp reset 17

__device__ int windows_along(int size, int window, int stride, int pad, int dilation, int ceil_mode) {
    // TODO(1): how many windows there are along one side.
    // BEGIN SOLUTION
    int spare = size + 2 * pad - (dilation * (window - 1) + 1);
    if (!ceil_mode) return spare / stride + 1;
    int count = (spare + stride - 1) / stride + 1;
    return (count - 1) * stride < size + pad ? count : count - 1;
    // END SOLUTION
    // BEGIN STUB
    // return 0;
    // END STUB
}

__device__ int counted(int p, int size, int window, int stride, int pad, int count_include_pad) {
    // TODO(2): how many rows (or columns) of window p the mean counts; divisor_override comes later.
    // BEGIN SOLUTION
    int first = p * stride - pad;
    int end = min(first + window, size + pad);
    return count_include_pad ? end - first : min(end, size) - max(first, 0);
    // END SOLUTION
    // BEGIN STUB
    // return 0;
    // END STUB
}

extern "C" __global__ void avg_pool2d_forward(
    const float* input,  // [batch, C, H, W]
    float* output,       // [batch, C, H_out, W_out], yours to fill
    int batch, int C, int H, int W, int R, int S, int stride_h, int stride_w, int pad_h, int pad_w,
    int ceil_mode, int count_include_pad, int divisor_override) {
    // TODO(3): one thread per window: the sum of its elements in the input, divided.
    // BEGIN SOLUTION
    int H_out = windows_along(H, R, stride_h, pad_h, 1, ceil_mode);
    int W_out = windows_along(W, S, stride_w, pad_w, 1, ceil_mode);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C * H_out * W_out) return;
    int q = idx % W_out;
    int p = idx / W_out % H_out;
    int plane = idx / (W_out * H_out);
    float sum = 0.0f;
    for (int r = 0; r < R; r++) {
        for (int s = 0; s < S; s++) {
            int h = p * stride_h - pad_h + r;
            int w = q * stride_w - pad_w + s;
            if (h >= 0 && h < H && w >= 0 && w < W) sum += input[(plane * H + h) * W + w];
        }
    }
    int divisor = counted(p, H, R, stride_h, pad_h, count_include_pad) *
                  counted(q, W, S, stride_w, pad_w, count_include_pad);
    output[idx] = sum / (divisor_override ? divisor_override : divisor);
    // END SOLUTION
}

extern "C" __global__ void avg_pool2d_backward(
    const float* grad_output,  // [batch, C, H_out, W_out]
    float* grad_input,         // [batch, C, H, W], yours to fill
    int batch, int C, int H, int W, int R, int S, int stride_h, int stride_w, int pad_h, int pad_w,
    int ceil_mode, int count_include_pad, int divisor_override) {
    // TODO(4): one thread per input element: its share of the gradient of every window it is in.
    // BEGIN SOLUTION
    int H_out = windows_along(H, R, stride_h, pad_h, 1, ceil_mode);
    int W_out = windows_along(W, S, stride_w, pad_w, 1, ceil_mode);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C * H * W) return;
    int w = idx % W;
    int h = idx / W % H;
    int plane = idx / (W * H);
    float sum = 0.0f;
    for (int r = 0; r < R; r++) {
        for (int s = 0; s < S; s++) {
            int top = h + pad_h - r;
            int left = w + pad_w - s;
            if (top < 0 || top % stride_h || left < 0 || left % stride_w) continue;
            int p = top / stride_h;
            int q = left / stride_w;
            if (p >= H_out || q >= W_out) continue;
            int divisor = counted(p, H, R, stride_h, pad_h, count_include_pad) *
                          counted(q, W, S, stride_w, pad_w, count_include_pad);
            float grad = grad_output[(plane * H_out + p) * W_out + q];
            sum += grad / (divisor_override ? divisor_override : divisor);
        }
    }
    grad_input[idx] = sum;
    // END SOLUTION
}

extern "C" __global__ void max_pool2d_general_forward(
    const float* input,  // [batch, C, H, W]
    float* output,       // [batch, C, H_out, W_out], yours to fill
    int* argmax,         // [batch, C, H_out, W_out], yours to fill: places h * W + w
    int batch, int C, int H, int W, int R, int S, int stride_h, int stride_w, int pad_h, int pad_w,
    int dilation_h, int dilation_w, int ceil_mode) {
    // TODO(5): one thread per window: its largest element in the input, and its place.
    // BEGIN SOLUTION
    int H_out = windows_along(H, R, stride_h, pad_h, dilation_h, ceil_mode);
    int W_out = windows_along(W, S, stride_w, pad_w, dilation_w, ceil_mode);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C * H_out * W_out) return;
    int q = idx % W_out;
    int p = idx / W_out % H_out;
    int plane = idx / (W_out * H_out);
    float best = -INFINITY;
    int at = -1;
    for (int r = 0; r < R; r++) {
        for (int s = 0; s < S; s++) {
            int h = p * stride_h - pad_h + r * dilation_h;
            int w = q * stride_w - pad_w + s * dilation_w;
            if (h < 0 || h >= H || w < 0 || w >= W) continue;
            float x = input[(plane * H + h) * W + w];
            if (x > best || isnan(x) || at < 0) {
                best = x;
                at = h * W + w;
            }
        }
    }
    output[idx] = best;
    argmax[idx] = at;
    // END SOLUTION
}

extern "C" __global__ void max_pool2d_general_backward(
    const float* grad_output,  // [batch, C, H_out, W_out]
    const int* argmax,         // [batch, C, H_out, W_out], as the forward pass left it
    float* grad_input,         // [batch, C, H, W], yours to fill
    int batch, int C, int H, int W, int R, int S, int stride_h, int stride_w, int pad_h, int pad_w,
    int dilation_h, int dilation_w, int ceil_mode) {
    // TODO(6): one thread per input element: the gradients of the windows whose maximum it was.
    // BEGIN SOLUTION
    int H_out = windows_along(H, R, stride_h, pad_h, dilation_h, ceil_mode);
    int W_out = windows_along(W, S, stride_w, pad_w, dilation_w, ceil_mode);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C * H * W) return;
    int w = idx % W;
    int h = idx / W % H;
    int plane = idx / (W * H);
    float sum = 0.0f;
    for (int r = 0; r < R; r++) {
        for (int s = 0; s < S; s++) {
            int top = h + pad_h - r * dilation_h;
            int left = w + pad_w - s * dilation_w;
            if (top < 0 || top % stride_h || left < 0 || left % stride_w) continue;
            int p = top / stride_h;
            int q = left / stride_w;
            if (p >= H_out || q >= W_out) continue;
            int window = (plane * H_out + p) * W_out + q;
            float grad = grad_output[window];
            if (argmax[window] == h * W + w) sum += grad;
        }
    }
    grad_input[idx] = sum;
    // END SOLUTION
}
