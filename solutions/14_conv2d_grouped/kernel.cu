// Puzzle 14: the convolution in groups, down to one channel each, and its gradients.
//
// What to do: start from your kernels of puzzle 13. The channels of the input and
// the filters are divided into `groups` equal parts, in order; the filters of a
// group see the input channels of the same group and no others, so they have only
// C_in / groups slices. One launch computes all groups: each thread works out which
// group its element belongs to. You will write about 50 lines.
//
// Check: backwarp grade 14    Stuck: backwarp hint 14    Start again: backwarp reset 14

extern "C" __global__ void conv2d_forward(
    const float* input,    // [batch, C_in, H, W]
    const float* weights,  // [C_out, C_in / groups, R, S]
    const float* bias,     // [C_out]
    float* output,         // [batch, C_out, H_out, W_out], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C_out * H_out * W_out) return;
    int q = idx % W_out, p = idx / W_out % H_out;
    int k = idx / (W_out * H_out) % C_out, b = idx / (W_out * H_out * C_out);

    // TODO(1): find the group of filter k; start from its bias; add weight * input over the
    //          channels of the group and all r, s; store the sum as output element idx.
    // BEGIN SOLUTION
    int group = k / (C_out / groups);
    int channels = C_in / groups;
    float sum = bias[k];
    for (int c = 0; c < channels; c++) {
        for (int r = 0; r < R; r++) {
            for (int s = 0; s < S; s++) {
                int h = p * stride_h - pad_h + r * dilation_h;
                int w = q * stride_w - pad_w + s * dilation_w;
                if (h < 0 || h >= H || w < 0 || w >= W) continue;
                float pixel = input[((b * C_in + group * channels + c) * H + h) * W + w];
                float weight = weights[((k * channels + c) * R + r) * S + s];
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
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C_in * H * W) return;
    int w = idx % W, h = idx / W % H;
    int channel = idx / (W * H) % C_in, b = idx / (W * H * C_in);

    // TODO(2): find the group of the channel; add up grad_output * weight over the filters of
    //          the group and all r, s whose position exists; store the sum.
    // BEGIN SOLUTION
    int channels = C_in / groups;
    int filters = C_out / groups;
    int group = channel / channels;
    int c = channel % channels;
    float sum = 0.0f;
    for (int k = group * filters; k < (group + 1) * filters; k++) {
        for (int r = 0; r < R; r++) {
            for (int s = 0; s < S; s++) {
                int down = h + pad_h - r * dilation_h;
                int right = w + pad_w - s * dilation_w;
                if (down < 0 || down % stride_h != 0) continue;
                if (right < 0 || right % stride_w != 0) continue;
                int p = down / stride_h;
                int q = right / stride_w;
                if (p >= H_out || q >= W_out) continue;
                float grad = grad_output[((b * C_out + k) * H_out + p) * W_out + q];
                float weight = weights[((k * channels + c) * R + r) * S + s];
                sum += grad * weight;
            }
        }
    }
    grad_input[idx] = sum;
    // END SOLUTION
}

extern "C" __global__ void conv2d_backward_weights(
    const float* grad_output, const float* input,
    float* grad_weights,  // [C_out, C_in / groups, R, S], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= C_out * (C_in / groups) * R * S) return;
    int s = idx % S, r = idx / S % R;
    int c = idx / (S * R) % (C_in / groups), k = idx / (S * R * (C_in / groups));

    // TODO(3): find the channel of the input that slice c of filter k sees; add up
    //          grad_output * input over all b, p, q; store the sum as weight idx.
    // BEGIN SOLUTION
    int group = k / (C_out / groups);
    int channel = group * (C_in / groups) + c;
    float sum = 0.0f;
    for (int b = 0; b < batch; b++) {
        for (int p = 0; p < H_out; p++) {
            for (int q = 0; q < W_out; q++) {
                int h = p * stride_h - pad_h + r * dilation_h;
                int w = q * stride_w - pad_w + s * dilation_w;
                if (h < 0 || h >= H || w < 0 || w >= W) continue;
                float grad = grad_output[((b * C_out + k) * H_out + p) * W_out + q];
                float pixel = input[((b * C_in + channel) * H + h) * W + w];
                sum += grad * pixel;
            }
        }
    }
    grad_weights[idx] = sum;
    // END SOLUTION
}
