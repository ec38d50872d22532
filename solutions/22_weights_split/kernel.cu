// Puzzle 22: the gradient of the weights, the batch split over several blocks.
//
// What to do: a block of the first kernel has one row of a filter, F weights, and one part
// of the batch. It writes its F sums to a workspace. The second kernel adds up the parts
// of every weight, always in the same order. No atomics.
// You will write about 40 lines.
//
// Check: backwarp grade 22    Stuck: backwarp hint 22    Start again: backwarp reset 22

constexpr int MAX_F = 5;  // the largest F

// Returns in lane 0 the sum of the values of all 32 lanes, as in puzzle 20.
__device__ float warp_sum(float value) {
    // TODO(1): as in puzzle 20.
    // BEGIN SOLUTION
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xffffffff, value, offset);
    }
    // END SOLUTION
    return value;
}

extern "C" __global__ void conv2d_backward_weights_partial(
    const float* grad_output,  // [batch, C_out, H_out, W_out]
    const float* input,        // [batch, C_in, H, W]
    float* partial,            // [parts, C_out, C_in, F, F], yours to fill
    int batch, int C_in, int H, int W, int C_out, int F, int parts) {
    __shared__ float slot[32][MAX_F];  // for every warp, one for every weight of the row
    int row = blockIdx.x, part = blockIdx.y;
    // TODO(2): split row into r, c and k, and find the images of this part.
    // BEGIN SOLUTION
    int r = row % F;
    int c = row / F % C_in;
    int k = row / (F * C_in);
    int images = (batch + parts - 1) / parts;
    int first = part * images;
    int last = min(first + images, batch);
    // END SOLUTION

    // TODO(3): for every position, read grad_output once and add to F sums in registers.
    // BEGIN SOLUTION
    int H_out = H - F + 1;
    int W_out = W - F + 1;
    float sum[MAX_F] = {};
    for (int i = first * H_out * W_out + threadIdx.x; i < last * H_out * W_out; i += blockDim.x) {
        int q = i % W_out;
        int p = i / W_out % H_out;
        int b = i / (W_out * H_out);
        float grad = grad_output[((b * C_out + k) * H_out + p) * W_out + q];
        const float* x = input + ((b * C_in + c) * H + p + r) * W + q;
#pragma unroll
        for (int s = 0; s < MAX_F; s++) {
            if (s < F) sum[s] += grad * x[s];
        }
    }
    // END SOLUTION

    // TODO(4): add up over the block, and store F elements of partial.
    // BEGIN SOLUTION
#pragma unroll
    for (int s = 0; s < MAX_F; s++) {
        float total = warp_sum(sum[s]);
        if (threadIdx.x % 32 == 0) slot[threadIdx.x / 32][s] = total;
    }
    __syncthreads();
    if (threadIdx.x < F) {
        float total = 0.0f;
        for (int w = 0; w < blockDim.x / 32; w++) total += slot[w][threadIdx.x];
        partial[(part * C_out * C_in * F + row) * F + threadIdx.x] = total;
    }
    // END SOLUTION
}

extern "C" __global__ void add_parts(
    const float* partial,  // [parts, C_out, C_in, F, F]
    float* grad_weights,   // [C_out, C_in, F, F], yours to fill
    int parts, int weights) {
    // TODO(5): a thread adds up the parts of one weight; weights is C_out * C_in * F * F.
    // BEGIN SOLUTION
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= weights) return;
    float sum = 0.0f;
    for (int part = 0; part < parts; part++) {
        sum += partial[part * weights + idx];
    }
    grad_weights[idx] = sum;
    // END SOLUTION
}
