// Puzzle 13: the convolution with stride, padding and dilation, and its three gradients.
//
// What to do: start from your kernels of puzzles 07, 10 and 09. A thread still has
// one element to compute; its number is already split. What changes is which input
// element lies under a tap: the filter steps by the stride, starts outside of the
// image by the padding, and its taps are a dilation apart. Rows (_h) and columns
// (_w) have their own numbers. You will write about 50 lines.
//
// Check: backwarp grade 13    Stuck: backwarp hint 13    Start again: backwarp reset 13

extern "C" __global__ void conv2d_forward(
    const float* input,    // [batch, C_in, H, W]
    const float* weights,  // [C_out, C_in, R, S]
    const float* bias,     // [C_out]
    float* output,         // [batch, C_out, H_out, W_out], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C_out * H_out * W_out) return;
    int q = idx % W_out, p = idx / W_out % H_out;
    int k = idx / (W_out * H_out) % C_out, b = idx / (W_out * H_out * C_out);

    // TODO(1): start from the bias of channel k; add weight * input over all c, r, s for which
    //          there is an input element; store the sum as output element idx.
    // BEGIN SOLUTION
    float sum = bias[k];
    for (int c = 0; c < C_in; c++) {
        for (int r = 0; r < R; r++) {
            for (int s = 0; s < S; s++) {
                int h = p * stride_h - pad_h + r * dilation_h;
                int w = q * stride_w - pad_w + s * dilation_w;
                if (h < 0 || h >= H || w < 0 || w >= W) continue;
                float pixel = input[((b * C_in + c) * H + h) * W + w];
                float weight = weights[((k * C_in + c) * R + r) * S + s];
                sum += weight * pixel;
            }
        }
    }
    output[idx] = sum;
    // END SOLUTION
}

extern "C" __global__ void conv2d_backward_input(
    const float* grad_output, const float* weights,
    float* grad_input,  // [batch, C_in, H, W], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C_in * H * W) return;
    int w = idx % W, h = idx / W % H;
    int c = idx / (W * H) % C_in, b = idx / (W * H * C_in);

    // TODO(2): add up grad_output * weight over all k, r, s whose position exists; store the
    //          sum as input element idx.
    // BEGIN SOLUTION
    float sum = 0.0f;
    for (int k = 0; k < C_out; k++) {
        for (int r = 0; r < R; r++) {
            for (int s = 0; s < S; s++) {
                int down = h + pad_h - r * dilation_h;  // p * stride_h
                int right = w + pad_w - s * dilation_w;  // q * stride_w
                if (down < 0 || down % stride_h != 0) continue;
                if (right < 0 || right % stride_w != 0) continue;
                int p = down / stride_h;
                int q = right / stride_w;
                if (p >= H_out || q >= W_out) continue;
                float grad = grad_output[((b * C_out + k) * H_out + p) * W_out + q];
                float weight = weights[((k * C_in + c) * R + r) * S + s];
                sum += grad * weight;
            }
        }
    }
    grad_input[idx] = sum;
    // END SOLUTION
}

extern "C" __global__ void conv2d_backward_weights(
    const float* grad_output, const float* input,
    float* grad_weights,  // [C_out, C_in, R, S], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= C_out * C_in * R * S) return;
    int s = idx % S, r = idx / S % R;
    int c = idx / (S * R) % C_in, k = idx / (S * R * C_in);

    // TODO(3): add up grad_output * input over all b, p, q for which there is an input element;
    //          store the sum as weight idx.
    // BEGIN SOLUTION
    float sum = 0.0f;
    for (int b = 0; b < batch; b++) {
        for (int p = 0; p < H_out; p++) {
            for (int q = 0; q < W_out; q++) {
                int h = p * stride_h - pad_h + r * dilation_h;
                int w = q * stride_w - pad_w + s * dilation_w;
                if (h < 0 || h >= H || w < 0 || w >= W) continue;
                float grad = grad_output[((b * C_out + k) * H_out + p) * W_out + q];
                float pixel = input[((b * C_in + c) * H + h) * W + w];
                sum += grad * pixel;
            }
        }
    }
    grad_weights[idx] = sum;
    // END SOLUTION
}

extern "C" __global__ void conv2d_backward_bias(
    const float* grad_output, float* grad_bias,  // [C_out], yours to fill
    int batch, int C_out, int H_out, int W_out) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(4): leave if there is no channel k; add up its grad_output; store the sum as bias k.
    // BEGIN SOLUTION
    if (k >= C_out) return;
    float sum = 0.0f;
    for (int b = 0; b < batch; b++) {
        for (int i = 0; i < H_out * W_out; i++) {
            float grad = grad_output[(b * C_out + k) * H_out * W_out + i];
            sum += grad;
        }
    }
    grad_bias[k] = sum;
    // END SOLUTION
}
