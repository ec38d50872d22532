// Puzzle 16: the transposed convolution, which makes images larger, and its gradients.
//
// What to do: the input gradient of puzzle 14 becomes a layer: every input element
// stamps its multiple of the filter onto the output, stamps a stride apart, taps a
// dilation apart. Input element (h, w) and tap (r, s) meet at output row
// h * stride_h - pad_h + r * dilation_h. Write it as a gather, one thread per
// output element. You will write about 55 lines.
//
// Check: backwarp grade 16    Stuck: backwarp hint 16    Start again: backwarp reset 16

extern "C" __global__ void conv_transpose2d_forward(
    const float* input,    // [batch, C_in, H, W]
    const float* weights,  // [C_in, C_out / groups, R, S]
    const float* bias,     // [C_out]
    float* output,         // [batch, C_out, H_out, W_out], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w,
    int out_pad_h, int out_pad_w, int groups) {
    int H_out = (H - 1) * stride_h - 2 * pad_h + dilation_h * (R - 1) + out_pad_h + 1;
    int W_out = (W - 1) * stride_w - 2 * pad_w + dilation_w * (S - 1) + out_pad_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C_out * H_out * W_out) return;
    int q = idx % W_out, p = idx / W_out % H_out;
    int channel = idx / (W_out * H_out) % C_out, b = idx / (W_out * H_out * C_out);

    // TODO(1): start from the bias of the channel; add input * weight over the input channels of
    //          its group and all r, s that an element (h, w) brings to (p, q); store the sum.
    // BEGIN SOLUTION
    int channels = C_in / groups;
    int filters = C_out / groups;
    int group = channel / filters;
    int k = channel % filters;
    float sum = bias[channel];
    for (int c = group * channels; c < (group + 1) * channels; c++) {
        for (int r = 0; r < R; r++) {
            for (int s = 0; s < S; s++) {
                int down = p + pad_h - r * dilation_h;  // h * stride_h
                int right = q + pad_w - s * dilation_w;  // w * stride_w
                if (down < 0 || down % stride_h != 0) continue;
                if (right < 0 || right % stride_w != 0) continue;
                int h = down / stride_h;
                int w = right / stride_w;
                if (h >= H || w >= W) continue;
                float pixel = input[((b * C_in + c) * H + h) * W + w];
                float weight = weights[((c * filters + k) * R + r) * S + s];
                sum += pixel * weight;
            }
        }
    }
    output[idx] = sum;
    // END SOLUTION
}

extern "C" __global__ void conv_transpose2d_backward_input(
    const float* grad_output, const float* weights,
    float* grad_input,  // [batch, C_in, H, W], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w,
    int out_pad_h, int out_pad_w, int groups) {
    int H_out = (H - 1) * stride_h - 2 * pad_h + dilation_h * (R - 1) + out_pad_h + 1;
    int W_out = (W - 1) * stride_w - 2 * pad_w + dilation_w * (S - 1) + out_pad_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C_in * H * W) return;
    int w = idx % W, h = idx / W % H;
    int c = idx / (W * H) % C_in, b = idx / (W * H * C_in);

    // TODO(2): add up grad_output * weight over the output channels of the group of c and all
    //          r, s whose (p, q) is an element of the output; store the sum.
    // BEGIN SOLUTION
    int filters = C_out / groups;
    int first = c / (C_in / groups) * filters;
    float sum = 0.0f;
    for (int k = 0; k < filters; k++) {
        for (int r = 0; r < R; r++) {
            for (int s = 0; s < S; s++) {
                int p = h * stride_h - pad_h + r * dilation_h;
                int q = w * stride_w - pad_w + s * dilation_w;
                if (p < 0 || p >= H_out || q < 0 || q >= W_out) continue;
                float grad = grad_output[((b * C_out + first + k) * H_out + p) * W_out + q];
                float weight = weights[((c * filters + k) * R + r) * S + s];
                sum += grad * weight;
            }
        }
    }
    grad_input[idx] = sum;
    // END SOLUTION
}

extern "C" __global__ void conv_transpose2d_backward_weights(
    const float* grad_output, const float* input,
    float* grad_weights,  // [C_in, C_out / groups, R, S], yours to fill
    int batch, int C_in, int H, int W, int C_out, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w,
    int out_pad_h, int out_pad_w, int groups) {
    int H_out = (H - 1) * stride_h - 2 * pad_h + dilation_h * (R - 1) + out_pad_h + 1;
    int W_out = (W - 1) * stride_w - 2 * pad_w + dilation_w * (S - 1) + out_pad_w + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= C_in * (C_out / groups) * R * S) return;
    int s = idx % S, r = idx / S % R;
    int k = idx / (S * R) % (C_out / groups), c = idx / (S * R * (C_out / groups));

    // TODO(3): add up grad_output * input over all b, h, w; store the sum as weight idx.
    // BEGIN SOLUTION
    int channel = c / (C_in / groups) * (C_out / groups) + k;
    float sum = 0.0f;
    for (int b = 0; b < batch; b++) {
        for (int h = 0; h < H; h++) {
            for (int w = 0; w < W; w++) {
                int p = h * stride_h - pad_h + r * dilation_h;
                int q = w * stride_w - pad_w + s * dilation_w;
                if (p < 0 || p >= H_out || q < 0 || q >= W_out) continue;
                float grad = grad_output[((b * C_out + channel) * H_out + p) * W_out + q];
                float pixel = input[((b * C_in + c) * H + h) * W + w];
                sum += grad * pixel;
            }
        }
    }
    grad_weights[idx] = sum;
    // END SOLUTION
}
