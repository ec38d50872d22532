// Right: log(sum exp) of the row first; loss and probabilities come from it.

__device__ float log_sum_exp(const float* row, int classes) {
    float largest = -INFINITY, sum = 0.0f;
    for (int k = 0; k < classes; k++) largest = row[k] > largest ? row[k] : largest;
    for (int k = 0; k < classes; k++) sum += expf(row[k] - largest);
    return largest + logf(sum);
}

extern "C" __global__ void softmax_cross_entropy_forward(
    const float* logits, const int* labels, float* losses, int batch, int classes) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b < batch) losses[b] = log_sum_exp(logits + b * classes, classes) - logits[b * classes + labels[b]];
}

extern "C" __global__ void mean_loss(const float* losses, float* mean, int batch) {
    double sum = 0;
    for (int b = batch; b-- > 0;) sum += losses[b];
    *mean = sum / batch;
}

extern "C" __global__ void softmax_cross_entropy_backward(
    const float* logits, const int* labels, float* grad_logits, int batch, int classes) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    float whole = log_sum_exp(logits + b * classes, classes);
    for (int k = 0; k < classes; k++)
        grad_logits[b * classes + k] = (expf(logits[b * classes + k] - whole) - (k == labels[b])) * (1.0f / batch);
}
