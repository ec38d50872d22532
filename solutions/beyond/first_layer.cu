// LeNet's first layer as a program of your own: 32 images, 6 filters of 5 x 5.
//
// What to do: the kernel and the check are given; `forward` is the host code between them. You will write about 15 lines.
//
// Check: backwarp exec puzzles/beyond/first_layer.cu
#include <cmath>
#include <cstdio>
#include <vector>

__global__ void conv2d_forward(
    const float* input,    // [batch, C_in, H, W]
    const float* weights,  // [C_out, C_in, F, F]
    const float* bias,     // [C_out]
    float* output,         // [batch, C_out, H_out, W_out]
    int batch, int C_in, int H, int W, int C_out, int F) {
    int H_out = H - F + 1, W_out = W - F + 1;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * C_out * H_out * W_out) return;
    int q = idx % W_out, p = idx / W_out % H_out, k = idx / (W_out * H_out) % C_out, b = idx / (W_out * H_out * C_out);
    float sum = bias[k];
    for (int c = 0; c < C_in; c++)
        for (int r = 0; r < F; r++)
            for (int s = 0; s < F; s++)
                sum += weights[((k * C_in + c) * F + r) * F + s] * input[((b * C_in + c) * H + p + r) * W + q + s];
    output[idx] = sum;
}

const int BATCH = 32, SIDE = 28, FILTERS = 6, F = 5, OUT = SIDE - F + 1;

// Fills output, [BATCH, FILTERS, OUT, OUT], on the host. Returns the first error of CUDA's runtime, or cudaSuccess.
cudaError_t forward(const std::vector<float>& input, const std::vector<float>& weights, const std::vector<float>& bias,
                    std::vector<float>& output) {
    // TODO(1): memory on the device for the four arrays. Sizes are bytes.
    // BEGIN SOLUTION
    float *x, *w, *b, *y;
    cudaMalloc(&x, input.size() * sizeof(float));
    cudaMalloc(&w, weights.size() * sizeof(float));
    cudaMalloc(&b, bias.size() * sizeof(float));
    cudaMalloc(&y, output.size() * sizeof(float));
    // END SOLUTION

    // TODO(2): copy the input, the weights and the bias to it.
    // BEGIN SOLUTION
    cudaMemcpy(x, input.data(), input.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(w, weights.data(), weights.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(b, bias.data(), bias.size() * sizeof(float), cudaMemcpyHostToDevice);
    // END SOLUTION

    // TODO(3): launch conv2d_forward: a thread for each output, 128 in a block. Ask whether the launch failed.
    // BEGIN SOLUTION
    int threads = output.size();
    conv2d_forward<<<(threads + 127) / 128, 128>>>(x, w, b, y, BATCH, 1, SIDE, SIDE, FILTERS, F);
    cudaError_t error = cudaGetLastError();
    // END SOLUTION

    // TODO(4): copy the output back, and give all memory back. What does the copy return if the kernel has failed?
    // BEGIN SOLUTION
    if (error == cudaSuccess) error = cudaMemcpy(output.data(), y, output.size() * sizeof(float), cudaMemcpyDeviceToHost);
    for (float* memory : {x, w, b, y}) cudaFree(memory);
    return error;
    // END SOLUTION
    // BEGIN STUB
    // return cudaErrorNotYetImplemented;
    // END STUB
}

int main() {
    std::vector<float> input(BATCH * SIDE * SIDE), weights(FILTERS * F * F), bias(FILTERS), output(BATCH * FILTERS * OUT * OUT);
    for (size_t i = 0; i < input.size(); i++) input[i] = std::sin(0.7f * i);
    for (size_t i = 0; i < weights.size(); i++) weights[i] = std::cos(1.3f * i);
    for (size_t i = 0; i < bias.size(); i++) bias[i] = 0.1f * i;
    if (cudaError_t error = forward(input, weights, bias, output)) {
        printf("forward: %s\n", cudaGetErrorString(error));
        return 1;
    }
    for (size_t i = 0; i < output.size(); i++) {
        int q = i % OUT, p = i / OUT % OUT, k = i / (OUT * OUT) % FILTERS, b = i / (OUT * OUT * FILTERS);
        double sum = bias[k];
        for (int r = 0; r < F; r++)
            for (int s = 0; s < F; s++) sum += double(weights[(k * F + r) * F + s]) * input[(b * SIDE + p + r) * SIDE + q + s];
        if (!(std::fabs(output[i] - sum) < 1e-4)) {
            printf("output[b=%d,k=%d,p=%d,q=%d] is %g, expected %g\n", b, k, p, q, output[i], sum);
            return 1;
        }
    }
    printf("all %zu outputs are right\n", output.size());
}
