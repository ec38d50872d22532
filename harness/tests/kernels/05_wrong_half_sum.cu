// Wrong: the exps are added up in half precision, which has 11 bits.
// expect: wrong, half
#include <cuda_fp16.h>

extern "C" __global__ void softmax_cross_entropy_forward(
    const float* logits, const int* labels, float* losses, int batch, int classes) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    const float* row = logits + b * classes;
    float largest = row[0];
    __half total = __float2half(0.0f);
    for (int k = 1; k < classes; k++) largest = fmaxf(largest, row[k]);
    for (int k = 0; k < classes; k++) total = __hadd(total, __float2half(expf(row[k] - largest)));
    losses[b] = logf(__half2float(total)) + largest - row[labels[b]];
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
