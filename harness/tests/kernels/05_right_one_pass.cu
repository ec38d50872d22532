// Right: largest and sum in one pass (the sum is rescaled when the largest changes), and the fast exp and log.

struct Row { float largest, sum; };

__device__ Row look_at(const float* row, int classes) {
    Row r = {row[0], 1.0f};
    for (int k = 1; k < classes; k++) {
        float z = row[k];
        if (z > r.largest) {
            r.sum = r.sum * __expf(r.largest - z) + 1.0f;
            r.largest = z;
        } else {
            r.sum += __expf(z - r.largest);
        }
    }
    return r;
}

extern "C" __global__ void softmax_cross_entropy_forward(
    const float* logits, const int* labels, float* losses, int batch, int classes) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    Row r = look_at(logits + b * classes, classes);
    losses[b] = __logf(r.sum) - (logits[b * classes + labels[b]] - r.largest);
}

extern "C" __global__ void mean_loss(const float* losses, float* mean, int batch) {
    float sum = 0.0f;
    for (int b = 0; b < batch; b++) sum += losses[b] / batch;
    mean[0] = sum;
}

extern "C" __global__ void softmax_cross_entropy_backward(
    const float* logits, const int* labels, float* grad_logits, int batch, int classes) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    const float* row = logits + b * classes;
    float* grad = grad_logits + b * classes;
    Row r = look_at(row, classes);
    for (int k = 0; k < classes; k++) grad[k] = __expf(row[k] - r.largest) / r.sum / batch;
    grad[labels[b]] -= 1.0f / batch;
}
