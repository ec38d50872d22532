// Puzzle 11: sgd, one step of learning.
//
// What to do: every thread updates one weight and its velocity, in place. The
// velocity keeps a part of what it was and takes in the gradient; the weight
// takes a step against the velocity.
// You will write about 6 lines.
//
// Check: backwarp grade 11    Stuck: backwarp hint 11    Start again: backwarp reset 11

extern "C" __global__ void sgd_step(
    float* weights,         // [n], yours to change
    float* velocity,        // [n], yours to change
    const float* gradient,  // [n]
    int n, float learning_rate, float momentum, float weight_decay) {
    // TODO(1): find the weight i of this thread; leave the kernel if there is none.
    // BEGIN SOLUTION
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    // END SOLUTION

    // TODO(2): compute the new velocity and store it.
    // BEGIN SOLUTION
    float slope = gradient[i] + weight_decay * weights[i];
    float v = momentum * velocity[i] + slope;
    velocity[i] = v;
    // END SOLUTION

    // TODO(3): move the weight against the new velocity.
    // BEGIN SOLUTION
    weights[i] -= learning_rate * v;
    // END SOLUTION
}
