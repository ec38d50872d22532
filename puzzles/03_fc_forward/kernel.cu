// Puzzle 03: fc_forward, a fully connected layer.
//
// What to do: every thread computes one output of one sample. It starts from
// the output's bias, walks along the sample's inputs and along the output's
// weights, and adds up the products. It is puzzle 02 with a bias, and with the
// second matrix stored the other way round. You will write about 9 lines.
//
// Check: backwarp grade 03    Stuck: backwarp hint 03    Start again: backwarp reset 03

extern "C" __global__ void fc_forward(const float* input,    // [batch, n_in]
                                      const float* weights,  // [n_out, n_in]
                                      const float* bias,     // [n_out]
                                      float* output,         // [batch, n_out], yours to fill
                                      int batch, int n_in, int n_out) {
    // TODO(1): compute o, this thread's number in x over all blocks, and b, in y.
    //          Leave the kernel if there is no such output or no such sample.

    // TODO(2): start from the bias of output o; add input * weight over all inputs i.

    // TODO(3): store the sum as output o of sample b.
}
