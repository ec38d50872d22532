// An array in chunks: copied to the device, computed, copied back. `backwarp exec puzzles/beyond/streams.cu WAY`, where WAY is
// one, alternate, engines or forgotten.
#include <cmath>
#include <cstdio>
#include <cstring>

const int CHUNKS = 6, CHUNK = 4096, BYTES = CHUNK * sizeof(float);

__global__ void approach(const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = 0;
    for (int k = 0; k < 24; k++) v = 0.5f * (v + x[i]);  // comes close to x[i]
    y[i] = v;
}

static float *in, *out;        // of the host, pinned: all chunks
static float *x[2], *y[2];     // of the device: two chunks

// One stream: everything in order.
static void one() {
    cudaStream_t s;
    cudaStreamCreate(&s);
    for (int c = 0; c < CHUNKS; c++) {
        cudaMemcpyAsync(x[0], in + c * CHUNK, BYTES, cudaMemcpyHostToDevice, s);
        approach<<<CHUNK / 256, 256, 0, s>>>(x[0], y[0]);
        cudaMemcpyAsync(out + c * CHUNK, y[0], BYTES, cudaMemcpyDeviceToHost, s);
    }
    cudaStreamSynchronize(s);
    cudaStreamDestroy(s);
}

// A stream for every other chunk, each with its own arrays: no event is needed.
static void alternate() {
    cudaStream_t s[2];
    for (auto& each : s) cudaStreamCreate(&each);
    for (int c = 0; c < CHUNKS; c++) {
        int p = c % 2;
        cudaMemcpyAsync(x[p], in + c * CHUNK, BYTES, cudaMemcpyHostToDevice, s[p]);
        approach<<<CHUNK / 256, 256, 0, s[p]>>>(x[p], y[p]);
        cudaMemcpyAsync(out + c * CHUNK, y[p], BYTES, cudaMemcpyDeviceToHost, s[p]);
    }
    cudaDeviceSynchronize();
    for (auto& each : s) cudaStreamDestroy(each);
}

// A stream for each engine; events say what needs what.
static void engines(bool forgotten) {
    cudaStream_t copy, compute, back;
    cudaEvent_t arrived[2], computed[2], sent[2];
    for (auto* s : {&copy, &compute, &back}) cudaStreamCreate(s);
    for (auto* all : {arrived, computed, sent}) for (int p = 0; p < 2; p++) cudaEventCreate(&all[p]);
    for (int c = 0; c < CHUNKS; c++) {
        int p = c % 2;
        if (!forgotten) cudaStreamWaitEvent(copy, computed[p], 0);  // x[p] has been read
        cudaMemcpyAsync(x[p], in + c * CHUNK, BYTES, cudaMemcpyHostToDevice, copy);
        cudaEventRecord(arrived[p], copy);
        cudaStreamWaitEvent(compute, arrived[p], 0);
        cudaStreamWaitEvent(compute, sent[p], 0);  // y[p] has been copied
        approach<<<CHUNK / 256, 256, 0, compute>>>(x[p], y[p]);
        cudaEventRecord(computed[p], compute);
        cudaStreamWaitEvent(back, computed[p], 0);
        cudaMemcpyAsync(out + c * CHUNK, y[p], BYTES, cudaMemcpyDeviceToHost, back);
        cudaEventRecord(sent[p], back);
    }
    cudaDeviceSynchronize();
    for (auto s : {copy, compute, back}) cudaStreamDestroy(s);
    for (auto* all : {arrived, computed, sent}) for (int p = 0; p < 2; p++) cudaEventDestroy(all[p]);
}

int main(int argc, char** argv) {
    const char* way = argc > 1 ? argv[1] : "engines";
    cudaMallocHost(&in, CHUNKS * BYTES);
    cudaMallocHost(&out, CHUNKS * BYTES);
    for (int p = 0; p < 2; p++) { cudaMalloc(&x[p], BYTES); cudaMalloc(&y[p], BYTES); }
    for (int i = 0; i < CHUNKS * CHUNK; i++) in[i] = i % 1000;
    if (!strcmp(way, "one")) one();
    else if (!strcmp(way, "alternate")) alternate();
    else engines(!strcmp(way, "forgotten"));
    int wrong = 0;
    for (int i = 0; i < CHUNKS * CHUNK; i++) wrong += std::fabs(out[i] - in[i]) > 1e-3f;
    printf("%s: %d of %d wrong\n", way, wrong, CHUNKS * CHUNK);
    cudaFreeHost(in); cudaFreeHost(out);
    for (int p = 0; p < 2; p++) { cudaFree(x[p]); cudaFree(y[p]); }
    return wrong != 0;
}
