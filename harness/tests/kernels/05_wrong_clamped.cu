// Wrong: the probability is kept above 1e-9 before its logarithm is taken, so large losses stop at 20.7.
// expect: wrong

extern "C" __global__ void softmax_cross_entropy_forward(
    const float* logits, const int* labels, float* losses, int batch, int classes) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    const float* row = logits + b * classes;
    float largest = row[0], sum = 0.0f;
    for (int k = 1; k < classes; k++) largest = fmaxf(largest, row[k]);
    for (int k = 0; k < classes; k++) sum += expf(row[k] - largest);
    losses[b] = -logf(fmaxf(expf(row[labels[b]] - largest) / sum, 1e-9f));
}

extern "C" __global__ void mean_loss(const float* losses, float* mean, int batch) {
    float sum = 0.0f;
    for (int b = 0; b < batch; b++) sum += losses[b];
    mean[0] = sum / batch;
}

extern "C" __global__ void softmax_cross_entropy_backward(
    const float* logits, const int* labels, float* grad_logits, int batch, int classes) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    const float* row = logits + b * classes;
    float largest = row[0], sum = 0.0f;
    for (int k = 1; k < classes; k++) largest = fmaxf(largest, row[k]);
    for (int k = 0; k < classes; k++) sum += expf(row[k] - largest);
    for (int k = 0; k < classes; k++)
        grad_logits[b * classes + k] = (expf(row[k] - largest) / sum - (k == labels[b])) / batch;
}
