// Puzzle 12: bug_hunt, four kernels with one mistake each.
//
// What to do: all of this compiles, and almost works. Let the grader tell you what is
// wrong, find the line, repair it, and grade again: then it is the next kernel's turn.
// You will write about 4 lines, one in each kernel. Nothing else needs to change.
//
// Check: backwarp grade 12    Stuck: backwarp hint 12    Start again: backwarp reset 12

constexpr int BLOCK = 64;  // threads of a block

// TODO(1): find the mistake. Should be: the sum of grad_output over images, rows and columns.
extern "C" __global__ void bias_gradient(const float* grad_output,  // [batch, C, H, W]
                                         float* grad_bias,          // [C]
                                         int batch, int C, int H, int W) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= C) return;
    float sum = 0.0f;
    for (int b = 0; b < batch; b++) {
        const float* plane = grad_output + (b + c) * H * W;
        for (int i = 0; i < H * W; i++) sum += plane[i];
    }
    grad_bias[c] = sum;
}

// TODO(2): find the mistake. Should be: the mean of every 2 x 2 window.
extern "C" __global__ void average_pool2d(const float* input,  // [batch, C, H, W]
                                          float* output,       // [batch, C, H / 2, W / 2]
                                          int batch, int C, int H, int W) {
    int H_out = H / 2, W_out = W / 2;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C * H_out * W_out) return;
    int q = idx % W_out;
    int p = idx / W_out % H_out;
    const float* plane = input + idx / (W_out * H_out) * H * W;
    const float* corner = plane + 2 * p * H + 2 * q;
    output[idx] = (corner[0] + corner[1] + corner[W] + corner[W + 1]) / 4;
}

// TODO(3): find the mistake. Should be: the mean of loss[i] and its neighbours, one or two.
extern "C" __global__ void smooth(const float* loss,  // [n]
                                  float* smoothed,    // [n]
                                  int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    int count = 0;
    for (int j = i - 1; j <= i + 1; j++) {
        if (j < 0 || j > n) continue;
        sum += loss[j];
        count++;
    }
    smoothed[i] = sum / count;
}

// TODO(4): find the mistake. Should be: the sum of loss[i] and all before it in its block.
extern "C" __global__ void running_sum(const float* loss,  // [n]
                                       float* sums,        // [n]
                                       int n) {
    __shared__ float part[BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) part[threadIdx.x] = loss[i];
    if (i >= n) return;
    float sum = 0.0f;
    for (int t = 0; t <= threadIdx.x; t++) sum += part[t];
    sums[i] = sum;
}
