// LeNet, trained on the kernels of part 1 of Backwarp, as a program for nvcc; written by `backwarp export --cuda`.
//
//     nvcc -O3 -arch=native -o @NAME@ @NAME@.cu && ./@NAME@ @NAME@.bin
//
// @NAME@.bin, beside this file, holds the first parameters and the digits. @ORIGINS@
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
@INCLUDES@
// ---- kernels ---------------------------------------------------------------------------------------------
@KERNELS@
// ---- errors ----------------------------------------------------------------------------------------------

// Every call of CUDA's runtime says whether it worked. A launch does not; cudaGetLastError() says it after it.
#define CHECK(call) check((call), #call, __LINE__)

static void check(cudaError_t error, const char* what, int line) {
    if (error == cudaSuccess) return;
    fprintf(stderr, "@NAME@.cu:%d: %s: %s\n", line, what, cudaGetErrorString(error));
    exit(1);
}

static void expect(bool holds, const char* what) {
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

// ---- arrays on the device --------------------------------------------------------------------------------

const int BATCH = @BATCH@, EPOCHS = @EPOCHS@, PIXELS = 28 * 28, CLASSES = 10;

template <typename T>
static T* on_device(size_t count) {
    T* made = nullptr;
    CHECK(cudaMalloc((void**)&made, count * sizeof(T)));
    return made;
}

// Parameters, what is computed from them, and the gradients; the shapes are in the comments.
struct Net {
@FIELDS@
};

static Net allocate() {
    Net net;
@ALLOCATE@
    return net;
}

static void release(const Net& net) {
@RELEASE@
}

// ---- a step ----------------------------------------------------------------------------------------------

// The launches follow one another on one stream, so each finds what the one before it has stored.
static void forward(const Net& net, const float* images, const int* labels, cudaStream_t stream) {
@FORWARD@
}

static void backward(const Net& net, const float* images, const int* labels, cudaStream_t stream) {
@BACKWARD@
}

static void update(const Net& net, float rate, cudaStream_t stream) {
@UPDATE@
}

// Puzzle 38's: up in the first tenth of the steps, then down along half a cosine.
static float learning_rate(int step, int steps) {
    const float peak = 0.02f;
    int warm_up = steps / 10 > 1 ? steps / 10 : 1;
    if (step < warm_up) return peak * (step + 1) / warm_up;
    float done = float(step - warm_up) / float(steps - warm_up);
    return peak * (1 + cosf(3.14159265f * done)) / 2;
}

// ---- data ------------------------------------------------------------------------------------------------

struct Digits {
    int trained, tested;
    float *parameters, *train_images, *test_images;
    int *train_labels, *test_labels;
};

// Pinned memory: the device can copy from it while the host goes on.
template <typename T>
static T* read_pinned(FILE* file, size_t count) {
    T* made = nullptr;
    CHECK(cudaMallocHost((void**)&made, count * sizeof(T)));
    expect(fread(made, sizeof(T), count, file) == count, "the data file is too short");
    return made;
}

static Digits read_digits(const char* path) {
    FILE* file = fopen(path, "rb");
    expect(file != nullptr, "the data file cannot be opened; it is the program's argument");
    int header[3];
    expect(fread(header, sizeof(int), 3, file) == 3 && header[0] == @PARAMETERS@, "this is no data file of LeNet");
    Digits d;
    d.trained = header[1];
    d.tested = header[2];
    d.parameters = read_pinned<float>(file, header[0]);
    d.train_images = read_pinned<float>(file, size_t(d.trained) * PIXELS);
    d.train_labels = read_pinned<int>(file, d.trained);
    d.test_images = read_pinned<float>(file, size_t(d.tested) * PIXELS);
    d.test_labels = read_pinned<int>(file, d.tested);
    fclose(file);
    return d;
}

static void set_parameters(const Net& net, const float* values) {
@SET_PARAMETERS@
}

// ---- training --------------------------------------------------------------------------------------------

// A batch has two places on the device: while the kernels work on one, the next batch is copied to the other.
struct Batches {
    float* images[2];
    int* labels[2];
    cudaEvent_t filled[2], used[2];
    cudaStream_t copies;
};

static Batches make_batches() {
    Batches b;
    CHECK(cudaStreamCreate(&b.copies));
    for (int i = 0; i < 2; i++) {
        b.images[i] = on_device<float>(size_t(BATCH) * PIXELS);
        b.labels[i] = on_device<int>(BATCH);
        CHECK(cudaMemset(b.images[i], 0, BATCH * PIXELS * sizeof(float)));
        CHECK(cudaMemset(b.labels[i], 0, BATCH * sizeof(int)));
        CHECK(cudaEventCreateWithFlags(&b.filled[i], cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&b.used[i], cudaEventDisableTiming));
    }
    return b;
}

static void release(Batches& b) {
    for (int i = 0; i < 2; i++) {
        CHECK(cudaFree(b.images[i]));
        CHECK(cudaFree(b.labels[i]));
        CHECK(cudaEventDestroy(b.filled[i]));
        CHECK(cudaEventDestroy(b.used[i]));
    }
    CHECK(cudaStreamDestroy(b.copies));
}

// Starts the copy of `count` images to place i as soon as the kernels before have used it; `stream` waits for it.
static void fill(Batches& b, int i, const float* images, const int* labels, int count, cudaStream_t stream) {
    CHECK(cudaStreamWaitEvent(b.copies, b.used[i], 0));
    CHECK(cudaMemcpyAsync(b.images[i], images, size_t(count) * PIXELS * sizeof(float), cudaMemcpyHostToDevice, b.copies));
    CHECK(cudaMemcpyAsync(b.labels[i], labels, count * sizeof(int), cudaMemcpyHostToDevice, b.copies));
    CHECK(cudaEventRecord(b.filled[i], b.copies));
    CHECK(cudaStreamWaitEvent(stream, b.filled[i], 0));
}

// One epoch; the loss of every step goes to `losses`, in pinned memory. The host does not wait for any of it.
static void train(const Net& net, Batches& b, const Digits& d, int epoch, float* losses, cudaStream_t stream) {
    int steps = d.trained / BATCH;
    for (int step = 0; step < steps; step++) {
        size_t first = size_t(step) * BATCH;
        int i = step % 2;
        fill(b, i, d.train_images + first * PIXELS, d.train_labels + first, BATCH, stream);
        forward(net, b.images[i], b.labels[i], stream);
        backward(net, b.images[i], b.labels[i], stream);
        CHECK(cudaEventRecord(b.used[i], stream));
        update(net, learning_rate(epoch * steps + step, EPOCHS * steps), stream);
        CHECK(cudaMemcpyAsync(&losses[step], net.loss, sizeof(float), cudaMemcpyDeviceToHost, stream));
    }
}

// The number of test images that are read correctly.
static int count_right(const Net& net, Batches& b, const Digits& d, float* logits, cudaStream_t stream) {
    int right = 0;
    for (int first = 0, i = 0; first < d.tested; first += BATCH, i = 1 - i) {
        int count = d.tested - first < BATCH ? d.tested - first : BATCH;
        fill(b, i, d.test_images + size_t(first) * PIXELS, d.test_labels + first, count, stream);
        forward(net, b.images[i], b.labels[i], stream);
        CHECK(cudaEventRecord(b.used[i], stream));
        CHECK(cudaMemcpyAsync(logits, net.logits, BATCH * CLASSES * sizeof(float), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));  // the host reads the logits
        for (int n = 0; n < count; n++) {
            int best = 0;
            for (int c = 1; c < CLASSES; c++)
                if (logits[n * CLASSES + c] > logits[n * CLASSES + best]) best = c;
            right += best == d.test_labels[first + n];
        }
    }
    return right;
}

int main(int argc, char** argv) {
    Digits digits = read_digits(argc > 1 ? argv[1] : "@NAME@.bin");
    Net net = allocate();
    set_parameters(net, digits.parameters);
    Batches batches = make_batches();
    cudaStream_t stream;
    cudaEvent_t start, stop;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    int steps = digits.trained / BATCH;
    float *losses = nullptr, *logits = nullptr;
    CHECK(cudaMallocHost((void**)&losses, steps * sizeof(float)));
    CHECK(cudaMallocHost((void**)&logits, BATCH * CLASSES * sizeof(float)));

    CHECK(cudaDeviceSynchronize());  // memory has been set on the default stream
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        CHECK(cudaEventRecord(start, stream));
        train(net, batches, digits, epoch, losses, stream);
        CHECK(cudaEventRecord(stop, stream));
        CHECK(cudaEventSynchronize(stop));  // the host waits here; a fault in a kernel shows here at the latest
        float ms = 0, sum = 0;
        CHECK(cudaEventElapsedTime(&ms, start, stop));
        for (int step = 0; step < steps; step++) sum += losses[step];
        int right = count_right(net, batches, digits, logits, stream);
        printf("epoch %d: mean loss %.4f, %d of %d right, %.3f ms per step\n", epoch + 1, sum / steps, right, digits.tested,
               ms / steps);
    }

    release(batches);
    release(net);
    float* pinned[] = {digits.parameters, digits.train_images, digits.test_images, losses, logits};
    for (float* array : pinned) CHECK(cudaFreeHost(array));
    CHECK(cudaFreeHost(digits.train_labels));
    CHECK(cudaFreeHost(digits.test_labels));
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    CHECK(cudaStreamDestroy(stream));
    return 0;
}
