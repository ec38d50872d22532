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
}

extern "C" __global__ void fc_backward_input(
    const float* grad_output,  // [batch, n_out]
    const float* weights,      // [n_out, n_in]
    float* grad_input,         // [batch, n_in], yours to fill
    int batch, int n_in, int n_out) {
    // TODO(2): one thread per input (b, i): add up its gradient over the outputs.
}

extern "C" __global__ void fc_backward_bias(const float* grad_output,  // [batch, n_out]
                                            float* grad_bias,          // [n_out], yours to fill
                                            int batch, int n_out) {
    // TODO(3): one thread per output o, in x only: add up its gradient over the batch.
}
