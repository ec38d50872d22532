// Puzzle 17: pooling with every option, by mean and by maximum, forward and backward.
//
// What to do: the mean and the maximum of windows with their own stride, padding and
// dilation; the last window may hang over the edge. The backward pass gathers: a thread finds
// all windows that its input element is in. You will write about 82 lines.
//
// Check: backwarp grade 17    Stuck: backwarp hint 17    Start again: backwarp reset 17

__device__ int windows_along(int size, int window, int stride, int pad, int dilation, int ceil_mode) {
    // TODO(1): how many windows there are along one side.
    return 0;
}

__device__ int counted(int p, int size, int window, int stride, int pad, int count_include_pad) {
    // TODO(2): how many rows (or columns) of window p the mean counts; divisor_override comes later.
    return 0;
}

extern "C" __global__ void avg_pool2d_forward(
    const float* input,  // [batch, C, H, W]
    float* output,       // [batch, C, H_out, W_out], yours to fill
    int batch, int C, int H, int W, int R, int S, int stride_h, int stride_w, int pad_h, int pad_w,
    int ceil_mode, int count_include_pad, int divisor_override) {
    // TODO(3): one thread per window: the sum of its elements in the input, divided.
}

extern "C" __global__ void avg_pool2d_backward(
    const float* grad_output,  // [batch, C, H_out, W_out]
    float* grad_input,         // [batch, C, H, W], yours to fill
    int batch, int C, int H, int W, int R, int S, int stride_h, int stride_w, int pad_h, int pad_w,
    int ceil_mode, int count_include_pad, int divisor_override) {
    // TODO(4): one thread per input element: its share of the gradient of every window it is in.
}

extern "C" __global__ void max_pool2d_general_forward(
    const float* input,  // [batch, C, H, W]
    float* output,       // [batch, C, H_out, W_out], yours to fill
    int* argmax,         // [batch, C, H_out, W_out], yours to fill: places h * W + w
    int batch, int C, int H, int W, int R, int S, int stride_h, int stride_w, int pad_h, int pad_w,
    int dilation_h, int dilation_w, int ceil_mode) {
    // TODO(5): one thread per window: its largest element in the input, and its place.
}

extern "C" __global__ void max_pool2d_general_backward(
    const float* grad_output,  // [batch, C, H_out, W_out]
    const int* argmax,         // [batch, C, H_out, W_out], as the forward pass left it
    float* grad_input,         // [batch, C, H, W], yours to fill
    int batch, int C, int H, int W, int R, int S, int stride_h, int stride_w, int pad_h, int pad_w,
    int dilation_h, int dilation_w, int ceil_mode) {
    // TODO(6): one thread per input element: the gradients of the windows whose maximum it was.
}
