// A wrong kernel for puzzle 25, to be stepped through: see ../stepping.md.
constexpr int TILE = 32;
constexpr int HEIGHT = 8;

extern "C" __global__ void transpose(const float* input, float* output, int rows, int columns) {
    __shared__ float square[TILE * TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    for (int i = 0; i < TILE; i += HEIGHT) {
        if (row + i < rows && column < columns) {
            square[threadIdx.y * TILE + threadIdx.x] = input[(row + i) * columns + column];
        }
    }
    __syncthreads();
    int down = blockIdx.x * TILE + threadIdx.y, across = blockIdx.y * TILE + threadIdx.x;
    for (int i = 0; i < TILE; i += HEIGHT) {
        if (down + i < columns && across < rows) {
            output[(down + i) * rows + across] = square[threadIdx.x * TILE + threadIdx.y + i];
        }
    }
}
