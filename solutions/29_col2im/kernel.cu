// Puzzle 29: col2im, from the gradient of the columns to the gradient of the image.
//
// What to do: puzzle 28 wrote an element of the image into several places of the
// matrix. Now the matrix holds a gradient, and the gradient of an element of the
// image is the sum of what is in those places. One thread handles one element: it
// finds the places, and nobody else adds to its sum. You will write about 16 lines.
//
// Check: backwarp grade 29    Stuck: backwarp hint 29    Start again: backwarp reset 29

extern "C" __global__ void col2im(
    const float* grad_columns,  // [C_in * R * S, batch * H_out * W_out]
    float* grad_input,          // [batch, C_in, H, W], zeros, yours to fill
    int batch, int C_in, int H, int W, int R, int S,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w) {
    int H_out = (H + 2 * pad_h - dilation_h * (R - 1) - 1) / stride_h + 1;
    int W_out = (W + 2 * pad_w - dilation_w * (S - 1) - 1) / stride_w + 1;
    int width = batch * H_out * W_out;  // of the matrix
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C_in * H * W) return;
    int w = idx % W, h = idx / W % H;
    int c = idx / (W * H) % C_in, b = idx / (W * H * C_in);

    // TODO(1): for every tap (r, s), find the position (p, q) at which it lies on this element,
    //          if there is one, and add up the matrix elements in the tap's row and the
    //          position's column.
    // BEGIN SOLUTION
    float sum = 0.0f;
    for (int r = 0; r < R; r++) {
        int down = h + pad_h - r * dilation_h;  // p * stride_h
        if (down < 0 || down % stride_h != 0 || down / stride_h >= H_out) continue;
        int p = down / stride_h;
        for (int s = 0; s < S; s++) {
            int right = w + pad_w - s * dilation_w;  // q * stride_w
            if (right < 0 || right % stride_w != 0 || right / stride_w >= W_out) continue;
            int q = right / stride_w;
            int row = (c * R + r) * S + s;
            int column = (b * H_out + p) * W_out + q;
            sum += grad_columns[row * width + column];
        }
    }
    // END SOLUTION

    // TODO(2): store the sum.
    // BEGIN SOLUTION
    grad_input[idx] = sum;
    // END SOLUTION
}
