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
    // BEGIN SOLUTION
    if (idx >= batch * C * H_out * W_out) return;
    int q = idx % W_out;
    int p = idx / W_out % H_out;
    int plane = idx / (W_out * H_out);
    // END SOLUTION

    // TODO(2): go through the window row by row; keep the largest element and its place.
    // BEGIN SOLUTION
    float best = -INFINITY;
    int at = 2 * p * W + 2 * q;
    for (int r = 0; r < 2; r++) {
        for (int s = 0; s < 2; s++) {
            int place = (2 * p + r) * W + 2 * q + s;
            float x = input[plane * H * W + place];
            if (x > best || isnan(x)) {
                best = x;
                at = place;
            }
        }
    }
    output[idx] = best;
    argmax[idx] = at;
    // END SOLUTION
}

extern "C" __global__ void max_pool2d_backward(
    const float* grad_output,  // [batch, C, H_out, W_out]
    const int* argmax,         // [batch, C, H_out, W_out], as the forward pass left it
    float* grad_input,         // [batch, C, H, W], yours to fill
    int batch, int C, int H, int W) {
    int H_out = H / 2;
    int W_out = W / 2;
    // TODO(3): one thread per input element: find its w, h and plane.
    // BEGIN SOLUTION
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C * H * W) return;
    int w = idx % W;
    int h = idx / W % H;
    int plane = idx / (W * H);
    // END SOLUTION

    // TODO(4): store the gradient of the window it was the largest of, or zero.
    // BEGIN SOLUTION
    float grad = 0.0f;
    if (h / 2 < H_out && w / 2 < W_out) {
        int window = (plane * H_out + h / 2) * W_out + w / 2;
        if (argmax[window] == h * W + w) grad = grad_output[window];
    }
    grad_input[idx] = grad;
    // END SOLUTION
}
