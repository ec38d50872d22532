// Puzzle 04: ReLU, which makes negative numbers zero: forward, in place, backward.
//
// What to do: every thread handles one element i, as in puzzle 01. Forward,
// it keeps x or makes it 0. The second kernel does the same in one array that is
// input and output. Backward, it lets the gradient pass or stops it. Mind 0, and
// mind NaN: no comparison with NaN is true. You will write about 10 lines.
//
// Check: backwarp grade 04    Stuck: backwarp hint 04    Start again: backwarp reset 04

extern "C" __global__ void relu_forward(const float* input,  // [n]
                                        float* output,       // [n], yours to fill
                                        int n) {
    // TODO(1): store input i, but 0 where it is negative. NaN stays NaN.
}

extern "C" __global__ void relu_inplace(float* data,  // [n], read and changed
                                        int n) {
    // TODO(2): the same in place: what is not negative can stay as it is.
}

extern "C" __global__ void relu_backward(const float* grad_output,  // [n]
                                         const float* input,        // [n], as it was in the forward pass
                                         float* grad_input,         // [n], yours to fill
                                         int n) {
    // TODO(3): store gradient i where the input was above 0, and 0 elsewhere, also at 0.
}
