// Exit status 0 if the sums of rows are right.
#include <cstdio>
#include <vector>

__global__ void row_sums(const float* x, float* sums, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int i = 0; i < columns; i++) sum += x[row * columns + i];
    sums[row] = sum;
}

int main() {
    const int rows = 100, columns = 7;
    std::vector<float> x(rows * columns), sums(rows);
    for (int i = 0; i < rows * columns; i++) x[i] = i % 13;
    float *d_x, *d_sums;
    cudaMalloc(&d_x, x.size() * sizeof(float));
    cudaMalloc(&d_sums, sums.size() * sizeof(float));
    cudaMemcpy(d_x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
    row_sums<<<(rows + 63) / 64, 64>>>(d_x, d_sums, rows, columns);
    cudaMemcpy(sums.data(), d_sums, sums.size() * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(d_x);
    cudaFree(d_sums);
    int wrong = 0;
    for (int row = 0; row < rows; row++) {
        float sum = 0;
        for (int i = 0; i < columns; i++) sum += x[row * columns + i];
        wrong += sum != sums[row];
    }
    printf("%d of %d rows are wrong\n", wrong, rows);
    return wrong > 0;
}
