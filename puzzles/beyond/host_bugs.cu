// Ten mistakes of host code, one in each function: `backwarp exec host_bugs.cu 1` runs the first. The kernels are right.
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void twice(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 2 * x[i];
}

const int n = 1000, bytes = n * sizeof(float);

void bug1(std::vector<float>& h, float* d) {
    cudaMemcpy(d, h.data(), bytes, cudaMemcpyHostToDevice);
    twice<<<(n + 255) / 256, 256>>>(d, n);
    cudaMemcpy(h.data(), d, bytes, cudaMemcpyHostToDevice);
}

void bug2(std::vector<float>& h, float*) {
    float* d;
    cudaMalloc(&d, n);
    cudaMemcpy(d, h.data(), bytes, cudaMemcpyHostToDevice);
    cudaFree(d);
}

void bug3(std::vector<float>& h, float* d) {
    cudaMemcpy(d, h.data(), bytes, cudaMemcpyHostToDevice);
    twice<<<(n + 255) / 256, 256>>>(d, n);
    cudaDeviceSynchronize();
    printf("%g\n", d[0]);
}

void bug4(std::vector<float>& h, float* d) {
    cudaMemcpy(d, h.data(), bytes, cudaMemcpyHostToDevice);
    twice<<<n / 1024, 1024>>>(d, n);
    cudaMemcpy(h.data(), d, bytes, cudaMemcpyDeviceToHost);
}

void bug5(std::vector<float>& h, float*) {
    twice<<<(n + 255) / 256, 256>>>(h.data(), n);
    cudaDeviceSynchronize();
}

void bug6(std::vector<float>& h, float*) {
    float* d;
    cudaMalloc(&d, bytes);
    cudaMemcpy(d, h.data(), bytes, cudaMemcpyHostToDevice);
    twice<<<(n + 255) / 256, 256>>>(d, n);
    cudaFree(d);
    cudaMemcpy(h.data(), d, bytes, cudaMemcpyDeviceToHost);
}

void bug7(std::vector<float>&, float*) {
    float *a, *b;
    cudaMalloc(&a, bytes);
    cudaMalloc(&b, bytes);
    cudaFree(a);
    cudaFree(a);
}

void bug8(std::vector<float>&, float*) {
    float* m;
    cudaMallocManaged(&m, bytes);
    for (int i = 0; i < n; i++) m[i] = i;
    twice<<<(n + 255) / 256, 256>>>(m, n);
    printf("%g\n", m[1]);
    cudaDeviceSynchronize();
    cudaFree(m);
}

void bug9(std::vector<float>&, float* d) {
    float* pinned;
    cudaMallocHost(&pinned, bytes);
    for (int batch = 0; batch < 2; batch++) {
        for (int i = 0; i < n; i++) pinned[i] = batch + i;
        cudaMemcpyAsync(d, pinned, bytes, cudaMemcpyHostToDevice);
        twice<<<(n + 255) / 256, 256>>>(d, n);
    }
    cudaDeviceSynchronize();
    cudaFreeHost(pinned);
}

void bug10(std::vector<float>&, float* d) {
    float* pinned;
    cudaMallocHost(&pinned, bytes);
    for (int i = 0; i < n; i++) pinned[i] = i;
    cudaStream_t copies, kernels;
    cudaEvent_t copied;
    cudaStreamCreate(&copies);
    cudaStreamCreate(&kernels);
    cudaEventCreate(&copied);
    cudaEventRecord(copied, copies);
    cudaMemcpyAsync(d, pinned, bytes, cudaMemcpyHostToDevice, copies);
    cudaStreamWaitEvent(kernels, copied);
    twice<<<(n + 255) / 256, 256, 0, kernels>>>(d, n);
    cudaDeviceSynchronize();
    cudaEventDestroy(copied);
    cudaStreamDestroy(kernels);
    cudaStreamDestroy(copies);
    cudaFreeHost(pinned);
}

int main(int count, char** words) {
    void (*bugs[])(std::vector<float>&, float*) = {bug1, bug2, bug3, bug4, bug5, bug6, bug7, bug8, bug9, bug10};
    int which = count > 1 ? atoi(words[1]) : 0;
    if (which < 1 || which > 10) {
        printf("which of the ten?\n");
        return 1;
    }
    std::vector<float> h(n, 1.0f);
    float* d;
    cudaMalloc(&d, bytes);
    bugs[which - 1](h, d);
    cudaFree(d);
}
