// Puzzle 07: conv2d_forward, the layer that LeNet is built from.
//
// What to do: every thread computes one output element. It lays the filter of
// its output channel k over the input at (p, q), multiplies each weight by
// the pixel under it, adds everything up over all input channels, and adds bias[k].
// You will write about 15 lines.
//
// Check: backwarp grade 07    Stuck: backwarp hint 07    Start again: backwarp reset 07

extern "C" __global__ void conv2d_forward(
    const float* input,    // [batch, C_in, H, W]
    const float* weights,  // [C_out, C_in, F, F]
    const float* bias,     // [C_out]
    float* output,         // [batch, C_out, H_out, W_out], yours to fill
    int batch, int C_in, int H, int W, int C_out, int F) {
    int H_out = H - F + 1;
    int W_out = W - F + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;

    // TODO(1): leave the kernel if there is no output element idx.

    // TODO(2): split idx into column q (changes fastest), row p, channel k, image b.

    // TODO(3): start from the bias of channel k; add weight * input over all c, r, s.

    // TODO(4): store the sum as output element idx.
}
