// CUDA's runtime and C's files for a host program that runs as one device thread. Kernels, and copies from the device,
// happen at once; copies to the device as late as is legal: when something waits for an event after them.
typedef int emuError_t;
typedef int emuStream_t;
typedef int emuEvent_t;  // how many of the copies had been asked for when it was recorded
enum { emuSuccess, emuMemcpyHostToDevice, emuMemcpyDeviceToHost, emuEventDisableTiming };

__device__ uint3 emu_thread, emu_block;
__device__ dim3 emu_threads, emu_blocks;
__device__ const unsigned char* emu_file;
__device__ long long emu_at, emu_bytes, emu_allocated;
__device__ int emu_exits;

struct FILE {};
#define stderr 0

template <class... T>
__device__ int fprintf(int, const char* format, T... values) {
    return printf("no");
}
__device__ void exit(int) { emu_exits++; }
__device__ FILE* fopen(const char*, const char*) { return (FILE*)emu_file; }
__device__ void fclose(FILE*) {}
__device__ size_t fread(void* to, size_t size, size_t count, FILE*) {
    size_t left = (emu_bytes - emu_at) / size;
    count = count < left ? count : left;
    memcpy(to, emu_file + emu_at, size * count);
    emu_at += size * count;
    return count;
}

__device__ int emuMalloc(void** made, size_t bytes) {
    *made = malloc(bytes);
    emu_allocated++;
    return *made == nullptr;
}
__device__ int emuMallocHost(void** made, size_t bytes) { return emuMalloc(made, bytes); }
__device__ int emuFree(void* array) {
    free(array);
    emu_allocated--;
    return 0;
}
__device__ int emuFreeHost(void* array) { return emuFree(array); }
__device__ int emuMemset(void* to, int value, size_t bytes) {
    memset(to, value, bytes);
    return 0;
}
__device__ int emuMemcpy(void* to, const void* from, size_t bytes, int) {
    memcpy(to, from, bytes);
    return 0;
}
struct Copy {
    void* to;
    const void* from;
    size_t bytes;
};
__device__ Copy emu_copies[1024];
__device__ int emu_asked, emu_made;

__device__ int emuMemcpyAsync(void* to, const void* from, size_t bytes, int kind, int) {
    if (kind == emuMemcpyDeviceToHost) return emuMemcpy(to, from, bytes, kind);
    emu_copies[emu_asked++] = Copy{to, from, bytes};
    return 0;
}
__device__ int emuEventRecord(emuEvent_t& event, int) {
    event = emu_asked;
    return 0;
}
__device__ int emuStreamWaitEvent(int, emuEvent_t event, int) {
    for (; emu_made < event; emu_made++) memcpy(emu_copies[emu_made].to, emu_copies[emu_made].from, emu_copies[emu_made].bytes);
    return 0;
}
__device__ int emuEventCreate(emuEvent_t* event) {
    *event = 0;
    return 0;
}
__device__ int emuEventCreateWithFlags(emuEvent_t* event, int) { return emuEventCreate(event); }
template <class... T>
__device__ int emuNothing(T...) {
    return 0;
}
#define emuStreamCreate emuNothing
#define emuStreamDestroy emuNothing
#define emuStreamSynchronize emuNothing
#define emuEventDestroy emuNothing
#define emuEventSynchronize emuNothing
#define emuDeviceSynchronize emuNothing
#define emuGetLastError emuNothing
__device__ int emuEventElapsedTime(float* ms, int, int) {
    *ms = 1;
    return 0;
}
__device__ const char* emuGetErrorString(int) { return ""; }

template <class Kernel>
__device__ void emu_launch(dim3 blocks, dim3 threads, int, int, Kernel kernel) {
    emu_blocks = blocks;
    emu_threads = threads;
    for (unsigned z = 0; z < blocks.z; z++)
        for (unsigned y = 0; y < blocks.y; y++)
            for (unsigned x = 0; x < blocks.x; x++)
                for (unsigned c = 0; c < threads.z; c++)
                    for (unsigned b = 0; b < threads.y; b++)
                        for (unsigned a = 0; a < threads.x; a++) {
                            emu_block = make_uint3(x, y, z);
                            emu_thread = make_uint3(a, b, c);
                            kernel();
                        }
}
