// CUDA arrays, textures and surfaces: all copies and ways to read, with results that are known; and what goes wrong with them.
#include <cmath>
#include <cstdio>
#include <vector>
#ifdef WRONG
#define EITHER(wrong, right) wrong
#else
#define EITHER(wrong, right) right
#endif
static int failed = 0, wrong = 0;
#define CHECK(call) do { if ((call) != cudaSuccess) failed++; } while (0)

__global__ void read2D(cudaTextureObject_t t, float* out, int w, int h) {
    int x = threadIdx.x, y = threadIdx.y;
    if (x < w && y < h) out[y * w + x] = tex2D<float>(t, x + 0.5f, y + 0.5f);
}
__global__ void blend(cudaTextureObject_t t, float* out, int w, int h) {
    int x = threadIdx.x, y = threadIdx.y;
    if (x < w && y < h) out[y * w + x] = tex2D<float>(t, (x + 1.0f) / w, (y + 0.5f) / h);
}
__global__ void fetch(cudaTextureObject_t t, int* out, int n) { int i = threadIdx.x; if (i < n) out[i] = tex1Dfetch<int>(t, n - 1 - i); }
__global__ void read3D(cudaTextureObject_t t, float* out) {
    out[(threadIdx.z * 3 + threadIdx.y) * 4 + threadIdx.x] = tex3D<float>(t, threadIdx.x + 0.5f, threadIdx.y + 0.5f, threadIdx.z + 0.5f);
}
__global__ void colours(cudaTextureObject_t t, float4* out) { out[threadIdx.x] = tex1D<float4>(t, threadIdx.x + 0.5f); }
__global__ void turn(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int w, int h) {
    int x = threadIdx.x, y = threadIdx.y;
    if (x < w && y < h) { float v; surf2Dread(&v, from, x * 4, y); surf2Dwrite(v + 1, to, y * 4, x); }
}
__global__ void share(cudaTextureObject_t t, const float* in, float* out, int* total) {
    atomicAdd(total, 1);
    float sum = tex2D<float>(t, 0.5f, 0.5f);
    for (int i = 0; i < 8; i++) sum += in[i];
    out[threadIdx.x] = sum;
}
struct Both { int n; cudaTextureObject_t image; };
__global__ void inside(Both b, float* out) { out[threadIdx.x] = tex2D<float>(b.image, threadIdx.x + 0.5f, 0.5f); }

static cudaTextureObject_t texture_of(cudaArray_t a, cudaTextureFilterMode filter, bool normal, cudaTextureAddressMode mode, cudaTextureReadMode read = cudaReadModeElementType) {
    cudaResourceDesc r{};
    r.resType = cudaResourceTypeArray; r.res.array.array = a;
    cudaTextureDesc d{};
    for (auto& m : d.addressMode) m = mode;
    d.filterMode = filter; d.readMode = read; d.normalizedCoords = normal;
    cudaTextureObject_t t = 0;
    CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    return t;
}
static cudaResourceDesc linear(void* p, cudaChannelFormatDesc f, size_t bytes) {
    cudaResourceDesc r{};
    r.resType = cudaResourceTypeLinear; r.res.linear.devPtr = p; r.res.linear.desc = f; r.res.linear.sizeInBytes = bytes;
    return r;
}

int main() {
    const int w = 5, h = 3, n = w * h;
    std::vector<float> in(n), out(n);
    for (int i = 0; i < n; i++) in[i] = i * i;
    auto same = [&](float* d) {
        CHECK(cudaMemcpy(out.data(), d, n * 4, cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; i++) wrong += out[i] != in[i];
    };
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
    float* d;
    CHECK(cudaMalloc(&d, n * 4));
    const dim3 block(8, 8);

    // a texture of an array: exact, and between two texels with addresses that wrap
    cudaArray_t image;
    CHECK(cudaMallocArray(&image, &f, w, h));
    CHECK(cudaMemcpy2DToArray(image, 0, 0, in.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
    cudaTextureObject_t t = texture_of(image, cudaFilterModePoint, false, cudaAddressModeClamp);
    read2D<<<1, block>>>(t, d, w, h);
    same(d);
    cudaTextureObject_t twin = texture_of(image, cudaFilterModePoint, false, cudaAddressModeClamp);
    CHECK(cudaDestroyTextureObject(t));
    read2D<<<1, block>>>(twin, d, w, h);
    same(d);
    CHECK(cudaDestroyTextureObject(twin));
    t = texture_of(image, cudaFilterModeLinear, true, cudaAddressModeWrap);
    blend<<<1, block>>>(t, d, w, h);
    CHECK(cudaMemcpy(out.data(), d, n * 4, cudaMemcpyDeviceToHost));
    for (int y = 0; y < h; y++) for (int x = 0; x < w; x++) wrong += std::fabs(out[y * w + x] - (in[y * w + x] + in[y * w + (x + 1) % w]) / 2) > 0.5;
    CHECK(cudaDestroyTextureObject(t));

    // of linear memory, and of rows
    int *ints, *back, got[256];
    CHECK(cudaMalloc(&ints, 256 * 4)); CHECK(cudaMalloc(&back, 256 * 4));
    for (int i = 0; i < 256; i++) got[i] = i * 7;
    CHECK(cudaMemcpy(ints, got, 256 * 4, cudaMemcpyHostToDevice));
    for (int half = 0; half < 2; half++) {
        cudaResourceDesc r = linear(ints + 128 * half, cudaCreateChannelDesc<int>(), 32 * 4);
        cudaTextureDesc how{};
        CHECK(cudaCreateTextureObject(&t, &r, &how, NULL));
        fetch<<<1, 32>>>(t, back, 32);
        CHECK(cudaMemcpy(got, back, 32 * 4, cudaMemcpyDeviceToHost));
        for (int i = 0; i < 32; i++) wrong += got[i] != (128 * half + 31 - i) * 7;
        CHECK(cudaDestroyTextureObject(t));
    }
    float* rows; size_t pitch;
    CHECK(cudaMallocPitch(&rows, &pitch, w * 4, h));
    CHECK(cudaMemcpy2D(rows, pitch, in.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
    cudaResourceDesc p{};
    p.resType = cudaResourceTypePitch2D; p.res.pitch2D.devPtr = rows; p.res.pitch2D.desc = f;
    p.res.pitch2D.width = w; p.res.pitch2D.height = h; p.res.pitch2D.pitchInBytes = pitch;
    cudaTextureDesc plain{};
    CHECK(cudaCreateTextureObject(&t, &p, &plain, NULL));
    read2D<<<1, block>>>(t, d, w, h);
    same(d);
    CHECK(cudaDestroyTextureObject(t));

    // three dimensions, a part of them, and four channels of a byte
    cudaArray_t volume, row;
    cudaExtent e = make_cudaExtent(4, 3, 2);
    CHECK(cudaMalloc3DArray(&volume, &f, e));
    std::vector<float> cube(24), seen(24);
    for (int i = 0; i < 24; i++) cube[i] = 100 - i;
    cudaMemcpy3DParms c{};
    c.srcPtr = make_cudaPitchedPtr(cube.data(), 4 * 4, 4, 3); c.dstArray = volume; c.extent = e; c.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&c));
    float* v;
    CHECK(cudaMalloc(&v, 24 * 4));
    t = texture_of(volume, cudaFilterModePoint, false, cudaAddressModeBorder);
    read3D<<<1, dim3(4, 3, 2)>>>(t, v);
    CHECK(cudaMemcpy(seen.data(), v, 24 * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 24; i++) wrong += seen[i] != cube[i];
    CHECK(cudaDestroyTextureObject(t));
    cudaMemcpy3DParms part{};
    part.srcArray = volume; part.srcPos = make_cudaPos(1, 1, 1); part.dstPtr = make_cudaPitchedPtr(seen.data(), 2 * 4, 2, 2);
    part.extent = make_cudaExtent(2, 2, 1); part.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&part));
    for (int i = 0; i < 4; i++) wrong += seen[i] != cube[(3 + 1 + i / 2) * 4 + 1 + i % 2];
    cudaChannelFormatDesc u4 = cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
    CHECK(cudaMallocArray(&row, &u4, 4));
    uchar4 pixels[4] = {{0, 51, 102, 255}, {1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
    CHECK(cudaMemcpyToArray(row, 0, 0, pixels, 16, cudaMemcpyHostToDevice));
    t = texture_of(row, cudaFilterModePoint, false, cudaAddressModeClamp, cudaReadModeNormalizedFloat);
    float4 *d4, h4[4];
    CHECK(cudaMalloc(&d4, 64));
    colours<<<1, 4>>>(t, d4);
    CHECK(cudaMemcpy(h4, d4, 64, cudaMemcpyDeviceToHost));
    wrong += std::fabs(h4[0].y - 0.2f) > 1e-6 || h4[0].w != 1;
    CHECK(cudaDestroyTextureObject(t));

    // surfaces, and copies from arrays
    cudaArray_t one, two;
    CHECK(cudaMallocArray(&one, &f, w, h, cudaArraySurfaceLoadStore));
    CHECK(cudaMallocArray(&two, &f, h, w, cudaArraySurfaceLoadStore));
    CHECK(cudaMemcpy2DArrayToArray(one, 0, 0, image, 0, 0, w * 4, h));
    cudaSurfaceObject_t from, to;
    cudaResourceDesc r{};
    r.res.array.array = one;
    CHECK(cudaCreateSurfaceObject(&from, &r));
    r.res.array.array = two;
    CHECK(cudaCreateSurfaceObject(&to, &r));
    turn<<<1, block>>>(from, to, w, h);
    CHECK(cudaMemcpy2DFromArray(out.data(), h * 4, two, 0, 0, h * 4, w, cudaMemcpyDeviceToHost));
    for (int y = 0; y < h; y++) for (int x = 0; x < w; x++) wrong += out[x * h + y] != in[y * w + x] + 1;
    cudaExtent about; unsigned flags;
    CHECK(cudaArrayGetInfo(&f, &about, &flags, two));
    wrong += about.width != h || about.height != w || flags != cudaArraySurfaceLoadStore || f.x != 32 || f.f != cudaChannelFormatKindFloat;

    // what goes wrong
    CHECK(cudaMemcpy2DToArray(image, 0, 0, in.data(), w * 4, w * EITHER(8, 4), h, cudaMemcpyHostToDevice));             // array-part
    CHECK(cudaMemcpy2DToArray(image, EITHER(4, 0), 0, in.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));             // array-part
    CHECK(cudaMemcpy2DToArray(image, 0, EITHER(1, 0), in.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));             // array-part
    CHECK(cudaMemcpyToArray(image, 0, 0, in.data(), n * 4 + EITHER(4, 0), cudaMemcpyHostToDevice));                     // array-part
    c.extent.width = EITHER(4 * 4, 4);
    CHECK(cudaMemcpy3D(&c));                                                                                            // array-part
    CHECK(cudaMemcpy2DToArray(image, 0, 0, in.data(), w * 4, w * 4, h, EITHER(cudaMemcpyDeviceToHost, cudaMemcpyHostToDevice)));  // direction
    CHECK(cudaMemcpy2DToArray(EITHER((cudaArray_t)d, image), 0, 0, in.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));  // no-array
    CHECK(cudaMemcpy(EITHER((void*)image, d), in.data(), n * 4, cudaMemcpyHostToDevice));                               // array-plain
    CHECK(EITHER(cudaFree(row), cudaFreeArray(row)));                                                                   // free-host
    p.res.pitch2D.pitchInBytes = EITHER(w * 4, pitch);
    CHECK(cudaCreateTextureObject(&t, &p, &plain, NULL));                                                               // image
    if (EITHER(0, 1)) CHECK(cudaDestroyTextureObject(t));
    r = linear(ints, cudaCreateChannelDesc<int>(), EITHER(1024 * 4, 256 * 4));
    CHECK(cudaCreateTextureObject(&t, &r, &plain, NULL));                                                               // too-long
    if (EITHER(0, 1)) CHECK(cudaDestroyTextureObject(t));
    r = linear(ints + EITHER(1, 0), cudaCreateChannelDesc<int>(), 128);
    CHECK(cudaCreateTextureObject(&t, &r, &plain, NULL));                                                               // image
    if (EITHER(0, 1)) CHECK(cudaDestroyTextureObject(t));
    r = {};
    r.res.array.array = EITHER(image, one);
    CHECK(cudaCreateSurfaceObject(&t, &r));                                                                             // image
    if (EITHER(0, 1)) CHECK(cudaDestroySurfaceObject(t));
    cudaChannelFormatDesc three = cudaCreateChannelDesc(32, 32, EITHER(32, 0), 0, cudaChannelFormatKindFloat);
    cudaArray_t pairs;
    CHECK(cudaMallocArray(&pairs, &three, 4, 4));                                                                       // image
    CHECK(cudaFreeArray(pairs));
    CHECK(cudaDestroySurfaceObject(from));
    CHECK(cudaDestroySurfaceObject(EITHER(from, to)));                                                                  // destroyed-twice

    // streams: a copy into what a kernel of another one reads
    cudaStream_t s, other;
    CHECK(cudaStreamCreate(&s)); CHECK(cudaStreamCreate(&other));
    t = texture_of(image, cudaFilterModePoint, false, cudaAddressModeClamp);
    float* pinned;
    CHECK(cudaMallocHost(&pinned, n * 4));
    for (int i = 0; i < n; i++) pinned[i] = in[i];
    CHECK(cudaMemcpy2DToArrayAsync(image, 0, 0, pinned, w * 4, w * 4, h, cudaMemcpyHostToDevice, s));
    read2D<<<1, block, 0, EITHER(other, s)>>>(t, d, w, h);                                                              // race
    CHECK(cudaDeviceSynchronize());
    inside<<<1, w, 0, s>>>(Both{1, t}, d);
    CHECK(cudaMemcpy2DToArrayAsync(image, 0, 0, pinned, w * 4, w * 4, h, cudaMemcpyHostToDevice, EITHER(other, s)));    // race
    CHECK(cudaDeviceSynchronize());

    float* sums;
    CHECK(cudaMalloc(&sums, 256 * 4));
    share<<<1, 128, 0, s>>>(t, d, sums, back);  // both read what is in d, and count
    share<<<1, 128, 0, other>>>(t, d, sums + EITHER(0, 128), back);                                                           // race
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(sums));

    // what is gone
    if (EITHER(1, 0)) cudaFreeArray(image);
    inside<<<1, w>>>(Both{1, t}, d);                                                                                    // gone-image
    cudaDeviceSynchronize();
    CHECK(cudaDestroyTextureObject(t));
    if (EITHER(0, 1)) cudaFreeArray(image);
    CHECK(cudaStreamDestroy(s)); CHECK(cudaStreamDestroy(other)); CHECK(cudaFreeHost(pinned));
    for (cudaArray_t a : {volume, one, two}) CHECK(cudaFreeArray(a));
    for (void* a : {(void*)d, (void*)ints, (void*)back, (void*)rows, (void*)v, (void*)d4}) CHECK(cudaFree(a));
    return wrong || failed;
}
