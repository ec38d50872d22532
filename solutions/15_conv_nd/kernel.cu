// Puzzle 15: the convolution of sound, images and video, and its two gradients.
//
// What to do: write the kernels of puzzle 14 with a third direction, the depth, in
// front of rows and columns: D, T taps, stride_d, pad_d, dilation_d. Sound has
// D = H = 1, an image D = 1: the same kernels serve all three. There is no bias.
// You will write about 80 lines.
//
// Check: backwarp grade 15    Stuck: backwarp hint 15    Start again: backwarp reset 15

__device__ int positions(int size, int taps, int stride, int pad, int dilation) {
    return (size + 2 * pad - dilation * (taps - 1) - 1) / stride + 1;
}

extern "C" __global__ void conv_nd_forward(
    const float* input,    // [batch, C_in, D, H, W]
    const float* weights,  // [C_out, C_in / groups, T, R, S]
    float* output,         // [batch, C_out, D_out, H_out, W_out], yours to fill
    int batch, int C_in, int D, int H, int W, int C_out, int T, int R, int S,
    int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w,
    int dilation_d, int dilation_h, int dilation_w, int groups) {
    int D_out = positions(D, T, stride_d, pad_d, dilation_d);
    int H_out = positions(H, R, stride_h, pad_h, dilation_h);
    int W_out = positions(W, S, stride_w, pad_w, dilation_w);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(1): one thread per output element (b, k, o, p, q): the sum over c, t, r, s.
    // BEGIN SOLUTION
    if (idx >= batch * C_out * D_out * H_out * W_out) return;
    int q = idx % W_out;
    int p = idx / W_out % H_out;
    int o = idx / (W_out * H_out) % D_out;
    int k = idx / (W_out * H_out * D_out) % C_out;
    int b = idx / (W_out * H_out * D_out * C_out);
    int channels = C_in / groups;
    int group = k / (C_out / groups);
    float sum = 0.0f;
    for (int c = 0; c < channels; c++) {
        for (int t = 0; t < T; t++) {
            for (int r = 0; r < R; r++) {
                for (int s = 0; s < S; s++) {
                    int d = o * stride_d - pad_d + t * dilation_d;
                    int h = p * stride_h - pad_h + r * dilation_h;
                    int w = q * stride_w - pad_w + s * dilation_w;
                    if (d < 0 || d >= D || h < 0 || h >= H || w < 0 || w >= W) continue;
                    int plane = (b * C_in + group * channels + c) * D + d;
                    float x = input[(plane * H + h) * W + w];
                    float weight = weights[(((k * channels + c) * T + t) * R + r) * S + s];
                    sum += weight * x;
                }
            }
        }
    }
    output[idx] = sum;
    // END SOLUTION
}

extern "C" __global__ void conv_nd_backward_input(
    const float* grad_output, const float* weights,
    float* grad_input,  // [batch, C_in, D, H, W], yours to fill
    int batch, int C_in, int D, int H, int W, int C_out, int T, int R, int S,
    int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w,
    int dilation_d, int dilation_h, int dilation_w, int groups) {
    int D_out = positions(D, T, stride_d, pad_d, dilation_d);
    int H_out = positions(H, R, stride_h, pad_h, dilation_h);
    int W_out = positions(W, S, stride_w, pad_w, dilation_w);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(2): one thread per input element (b, channel, d, h, w): the sum over k, t, r, s.
    // BEGIN SOLUTION
    if (idx >= batch * C_in * D * H * W) return;
    int w = idx % W;
    int h = idx / W % H;
    int d = idx / (W * H) % D;
    int channel = idx / (W * H * D) % C_in;
    int b = idx / (W * H * D * C_in);
    int channels = C_in / groups;
    int filters = C_out / groups;
    int group = channel / channels;
    int c = channel % channels;
    float sum = 0.0f;
    for (int k = group * filters; k < (group + 1) * filters; k++) {
        for (int t = 0; t < T; t++) {
            for (int r = 0; r < R; r++) {
                for (int s = 0; s < S; s++) {
                    int in = d + pad_d - t * dilation_d;
                    int down = h + pad_h - r * dilation_h;
                    int right = w + pad_w - s * dilation_w;
                    if (in < 0 || in % stride_d || in / stride_d >= D_out) continue;
                    if (down < 0 || down % stride_h || down / stride_h >= H_out) continue;
                    if (right < 0 || right % stride_w || right / stride_w >= W_out) continue;
                    int o = in / stride_d;
                    int p = down / stride_h;
                    int q = right / stride_w;
                    float grad = grad_output[(((b * C_out + k) * D_out + o) * H_out + p) * W_out + q];
                    float weight = weights[(((k * channels + c) * T + t) * R + r) * S + s];
                    sum += grad * weight;
                }
            }
        }
    }
    grad_input[idx] = sum;
    // END SOLUTION
}

extern "C" __global__ void conv_nd_backward_weights(
    const float* grad_output, const float* input,
    float* grad_weights,  // [C_out, C_in / groups, T, R, S], yours to fill
    int batch, int C_in, int D, int H, int W, int C_out, int T, int R, int S,
    int stride_d, int stride_h, int stride_w, int pad_d, int pad_h, int pad_w,
    int dilation_d, int dilation_h, int dilation_w, int groups) {
    int D_out = positions(D, T, stride_d, pad_d, dilation_d);
    int H_out = positions(H, R, stride_h, pad_h, dilation_h);
    int W_out = positions(W, S, stride_w, pad_w, dilation_w);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO(3): one thread per weight (k, c, t, r, s): the sum over b, o, p, q.
    // BEGIN SOLUTION
    int channels = C_in / groups;
    if (idx >= C_out * channels * T * R * S) return;
    int s = idx % S;
    int r = idx / S % R;
    int t = idx / (S * R) % T;
    int c = idx / (S * R * T) % channels;
    int k = idx / (S * R * T * channels);
    int group = k / (C_out / groups);
    float sum = 0.0f;
    for (int b = 0; b < batch; b++) {
        for (int o = 0; o < D_out; o++) {
            for (int p = 0; p < H_out; p++) {
                for (int q = 0; q < W_out; q++) {
                    int d = o * stride_d - pad_d + t * dilation_d;
                    int h = p * stride_h - pad_h + r * dilation_h;
                    int w = q * stride_w - pad_w + s * dilation_w;
                    if (d < 0 || d >= D || h < 0 || h >= H || w < 0 || w >= W) continue;
                    int plane = (b * C_in + group * channels + c) * D + d;
                    float x = input[(plane * H + h) * W + w];
                    float grad = grad_output[(((b * C_out + k) * D_out + o) * H_out + p) * W_out + q];
                    sum += grad * x;
                }
            }
        }
    }
    grad_weights[idx] = sum;
    // END SOLUTION
}
