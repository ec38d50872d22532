// Puzzle 08: max pooling, forward and backward.
//
// What to do: a thread of the first kernel keeps the largest of the 2 x 2 elements of
// one window, and the place where it stood in its plane. A thread of the second
// kernel finds the gradient of one input element: that of its window, or zero.
// You will write about 29 lines.
//
// Check: backwarp grade 08    Stuck: backwarp hint 08    Start again: backwarp reset 08

extern "C" __global__ void max_pool2d_forward(
    const float* input,  // [batch, C, H, W]
    float* output,       // [batch, C, H_out, W_out], yours to fill
    int* argmax,         // [batch, C, H_out, W_out], yours to fill: places h * W + w
    int batch, int C, int H, int W) {
    int H_out = H / 2;
    int W_out = W / 2;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(1): leave the kernel if there is no window idx; split idx into q, p and the plane.

    // TODO(2): go through the window row by row; keep the largest element and its place.
}

extern "C" __global__ void max_pool2d_backward(
    const float* grad_output,  // [batch, C, H_out, W_out]
    const int* argmax,         // [batch, C, H_out, W_out], as the forward pass left it
    float* grad_input,         // [batch, C, H, W], yours to fill
    int batch, int C, int H, int W) {
    int H_out = H / 2;
    int W_out = W / 2;
    // TODO(3): one thread per input element: find its w, h and plane.

    // TODO(4): store the gradient of the window it was the largest of, or zero.
}
