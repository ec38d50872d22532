// Puzzle 05: softmax and cross entropy: the loss, its mean, and its gradient.
//
// What to do: every thread handles one sample, that is, one row of logits.
// It subtracts the largest logit of the row before it calls expf, so that nothing
// overflows. The kernels store the loss of each sample, the mean of all losses,
// and the gradient of that mean. You will write about 17 lines.
//
// Check: backwarp grade 05    Stuck: backwarp hint 05    Start again: backwarp reset 05

extern "C" __global__ void softmax_cross_entropy_forward(
    const float* logits,  // [batch, classes]
    const int* labels,    // [batch], each the number of a class
    float* losses,        // [batch], yours to fill
    int batch, int classes) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    const float* row = logits + b * classes;  // row[k] is logits[b, k]

    // TODO(1): find the largest logit of the row.
    // BEGIN SOLUTION
    float largest = row[0];
    for (int k = 1; k < classes; k++) largest = fmaxf(largest, row[k]);
    // END SOLUTION

    // TODO(2): add up exp(logit - largest) over the row; store the loss of sample b.
    // BEGIN SOLUTION
    float sum = 0.0f;
    for (int k = 0; k < classes; k++) sum += expf(row[k] - largest);
    losses[b] = logf(sum) + (largest - row[labels[b]]);
    // END SOLUTION
}

extern "C" __global__ void mean_loss(const float* losses,  // [batch]
                                     float* mean,          // [1], yours to fill
                                     int batch) {
    // TODO(3): one thread runs this: add up all losses; store their mean.
    // BEGIN SOLUTION
    float sum = 0.0f;
    for (int b = 0; b < batch; b++) sum += losses[b];
    mean[0] = sum / batch;
    // END SOLUTION
}

extern "C" __global__ void softmax_cross_entropy_backward(
    const float* logits, const int* labels,
    float* grad_logits,  // [batch, classes], yours to fill
    int batch, int classes) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    const float* row = logits + b * classes;

    // TODO(4): find largest and sum as above; store the gradient of every logit of the row.
    // BEGIN SOLUTION
    float largest = row[0];
    for (int k = 1; k < classes; k++) largest = fmaxf(largest, row[k]);

    float sum = 0.0f;
    for (int k = 0; k < classes; k++) sum += expf(row[k] - largest);

    for (int k = 0; k < classes; k++) {
        float probability = expf(row[k] - largest) / sum;
        float right = k == labels[b] ? 1.0f : 0.0f;
        grad_logits[b * classes + k] = (probability - right) / batch;
    }
    // END SOLUTION
}
