// A warp that loads and three that compute, coupled by named barriers: full and empty for each of two buffers.

constexpr int CHUNK = 96, BUFFERS = 2;

__device__ void sync(int barrier) { asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory"); }
__device__ void arrive(int barrier) { asm volatile("bar.arrive %0, 128;" ::"r"(barrier) : "memory"); }

extern "C" __global__ void warp_specialised(const float* x, float* out, int chunks) {
    __shared__ float buffer[BUFFERS][CHUNK];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) {
        for (int c = 0; c < chunks; c++) {
            int b = c % BUFFERS;
            if (c >= BUFFERS) sync(1 + BUFFERS + b);  // wait until it is empty
            for (int i = lane; i < CHUNK; i += 32) buffer[b][i] = x[c * CHUNK + i];
            __threadfence_block();
            arrive(1 + b);
        }
    } else {
        int i = threadIdx.x - 32;
        float sum = 0.0f;
        for (int c = 0; c < chunks; c++) {
            int b = c % BUFFERS;
            sync(1 + b);  // wait until it is full
            sum += buffer[b][(i + c) % CHUNK];
            if (c + BUFFERS < chunks) arrive(1 + BUFFERS + b);
        }
        out[i] = sum;
    }
}
