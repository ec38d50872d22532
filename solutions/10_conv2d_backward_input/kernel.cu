// Puzzle 10: the gradient of a convolution's input.
//
// What to do: every thread computes the gradient of one input element. It collects
// grad_output * weight from all filters k and all taps (r, s): with tap (r, s) on
// top of it, the filter stood at position (h - r, w - s), if that exists.
// You will write about 20 lines.
//
// Check: backwarp grade 10    Stuck: backwarp hint 10    Start again: backwarp reset 10

extern "C" __global__ void conv2d_backward_input(
    const float* grad_output,  // [batch, C_out, H_out, W_out]
    const float* weights,      // [C_out, C_in, F, F]
    float* grad_input,         // [batch, C_in, H, W], yours to fill
    int batch, int C_in, int H, int W, int C_out, int F) {
    int H_out = H - F + 1;
    int W_out = W - F + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;

    // TODO(1): leave the kernel if there is no input element idx.
    // BEGIN SOLUTION
    if (idx >= batch * C_in * H * W) return;
    // END SOLUTION

    // TODO(2): split idx into column w (changes fastest), row h, channel c, image b.
    // BEGIN SOLUTION
    int w = idx % W;
    int h = idx / W % H;
    int c = idx / (W * H) % C_in;
    int b = idx / (W * H * C_in);
    // END SOLUTION

    // TODO(3): add up grad_output * weight over all k, r, s whose position exists; store the
    //          sum as input element idx.
    // BEGIN SOLUTION
    float sum = 0.0f;
    for (int k = 0; k < C_out; k++) {
        for (int r = 0; r < F; r++) {
            for (int s = 0; s < F; s++) {
                int p = h - r;
                int q = w - s;
                if (p < 0 || p >= H_out || q < 0 || q >= W_out) continue;
                float grad = grad_output[((b * C_out + k) * H_out + p) * W_out + q];
                sum += grad * weights[((k * C_in + c) * F + r) * F + s];
            }
        }
    }
    grad_input[idx] = sum;
    // END SOLUTION
}
