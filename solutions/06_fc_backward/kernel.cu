// Puzzle 06: the three gradients of a fully connected layer.
//
// What to do: every thread computes one element of a gradient: of a weight, of an
// input, or of a bias. It adds up grad_output times what the chain rule leaves of
// the product: the input, the weight, or 1. The launches of the first two have an x
// and a y; x goes with i. You will write about 21 lines.
//
// Check: backwarp grade 06    Stuck: backwarp hint 06    Start again: backwarp reset 06

extern "C" __global__ void fc_backward_weights(
    const float* grad_output,  // [batch, n_out]
    const float* input,        // [batch, n_in]
    float* grad_weights,       // [n_out, n_in], yours to fill
    int batch, int n_in, int n_out) {
    // TODO(1): one thread per weight (o, i): add up its gradient over the batch.
    // BEGIN SOLUTION
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int o = blockIdx.y * blockDim.y + threadIdx.y;
    if (o >= n_out || i >= n_in) return;
    float sum = 0.0f;
    for (int b = 0; b < batch; b++) {
        sum += grad_output[b * n_out + o] * input[b * n_in + i];
    }
    grad_weights[o * n_in + i] = sum;
    // END SOLUTION
}

extern "C" __global__ void fc_backward_input(
    const float* grad_output,  // [batch, n_out]
    const float* weights,      // [n_out, n_in]
    float* grad_input,         // [batch, n_in], yours to fill
    int batch, int n_in, int n_out) {
    // TODO(2): one thread per input (b, i): add up its gradient over the outputs.
    // BEGIN SOLUTION
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int b = blockIdx.y * blockDim.y + threadIdx.y;
    if (b >= batch || i >= n_in) return;
    float sum = 0.0f;
    for (int o = 0; o < n_out; o++) {
        sum += grad_output[b * n_out + o] * weights[o * n_in + i];
    }
    grad_input[b * n_in + i] = sum;
    // END SOLUTION
}

extern "C" __global__ void fc_backward_bias(const float* grad_output,  // [batch, n_out]
                                            float* grad_bias,          // [n_out], yours to fill
                                            int batch, int n_out) {
    // TODO(3): one thread per output o, in x only: add up its gradient over the batch.
    // BEGIN SOLUTION
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= n_out) return;
    float sum = 0.0f;
    for (int b = 0; b < batch; b++) sum += grad_output[b * n_out + o];
    grad_bias[o] = sum;
    // END SOLUTION
}
