// A wrong kernel for puzzle 01, to be stepped through: see ../stepping.md.
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
    int at = threadIdx.x + blockDim.x * blockIdx.x;
    int step = n / (blockDim.x * gridDim.x);
    while (at < n) {
        c[at] = a[at] + b[at];
        at += step;
    }
}
