// The driver API, with modules of PTX and of what NVRTC compiles; and what goes wrong with it.
#include <cuda.h>
#include <nvrtc.h>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>
#ifdef WRONG
#define EITHER(wrong, right) wrong
#else
#define EITHER(wrong, right) right
#endif
static int failed = 0, wrong = 0;
#define CHECK(call) do { if ((call) != CUDA_SUCCESS) failed++; } while (0)

static const char* twice = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry twice(.param .u64 p, .param .u32 count)
{
    .reg .pred %q;
    .reg .b32 %r<6>;
    .reg .b64 %a<4>;
    ld.param.u64 %a1, [p];
    ld.param.u32 %r1, [count];
    cvta.to.global.u64 %a1, %a1;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r2, %r2, %r3, %r4;
    setp.ge.s32 %q, %r2, %r1;
    @%q bra done;
    mul.wide.s32 %a2, %r2, 4;
    add.s64 %a3, %a1, %a2;
    ld.global.u32 %r5, [%a3];
    shl.b32 %r5, %r5, 1;
    st.global.u32 [%a3], %r5;
done:
    ret;
}
)";
static const char* source = R"(
__constant__ int factor;
extern "C" __global__ void times(int* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] *= factor;
}
template <int N> __global__ void add(int* a) { a[threadIdx.x] += N; }
__global__ void plain(int* a) { a[threadIdx.x]++; }
)";

int main() {
    int count = 0, major, minor;
    CUdevice device;
    CUcontext context;
    if (EITHER(0, 1)) CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));                                       // no-driver
    cuInit(0);
    CUdeviceptr a, b;
    const int n = 1000, bytes = n * 4;
    if (EITHER(0, 1)) CHECK(cuCtxCreate(&context, 0, device));
    CHECK(cuMemAlloc(&a, bytes));                                         // no-context
    if (EITHER(1, 0)) { CHECK(cuCtxCreate(&context, 0, device)); CHECK(cuMemAlloc(&a, bytes)); }
    CHECK(cuDeviceGetCount(&count));
    CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    CHECK(cuDeviceComputeCapability(&major, &minor, device));
    char name[8];
    CHECK(cuDeviceGetName(name, sizeof name, device));
    wrong += count != 1 || major != 8 || strlen(name) != 7;
    const char* text;
    wrong += cuGetErrorName(CUDA_ERROR_NOT_FOUND, &text) || strcmp(text, "CUDA_ERROR_NOT_FOUND") || cuGetErrorString((CUresult)12345, &text) != CUDA_ERROR_INVALID_VALUE;
    CHECK(cuMemAlloc(&b, bytes));

    std::vector<int> h(n);
    for (int i = 0; i < n; i++) h[i] = i;
    CHECK(cuMemcpyHtoD(a, h.data(), bytes + EITHER(4, 0)));               // too-long
    CHECK(cuMemcpyHtoD(EITHER((CUdeviceptr)h.data(), a), h.data(), bytes));  // direction
    CHECK(cuMemcpyHtoD(a, h.data(), bytes));
    CUmodule m, rtc;
    CUfunction f, g;
    std::string ptx = twice;
    if (EITHER(1, 0)) ptx.replace(ptx.find("shl.b32"), 3, "shove");
    CHECK(cuModuleLoadData(&m, ptx.c_str()));                             // module
    if (EITHER(1, 0)) CHECK(cuModuleLoadData(&m, twice));
    CHECK(cuModuleLoadData(&rtc, EITHER("\x7f" "ELF\2\1\1", twice)));     // no-ptx
    CHECK(cuModuleLoad(&rtc, EITHER("nowhere.ptx", "harness/tests/programs/pairs/module.ptx")));  // no-file
    CHECK(cuModuleGetFunction(&f, m, EITHER("Twice", "twice")));          // no-function
    if (EITHER(1, 0)) CHECK(cuModuleGetFunction(&f, m, "twice"));
    void* of_twice[] = {&a, (void*)&n};
    CUstream s, t;
    CHECK(cuStreamCreate(&s, 0)); CHECK(cuStreamCreate(&t, 0));
    CHECK(cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, s, of_twice, nullptr));
    CHECK(cuMemcpyDtoDAsync(b, a, bytes, EITHER(t, s)));                  // race
    CHECK(cuCtxSynchronize());
    CHECK(cuLaunchKernel(f, 4, 1, 1, EITHER(2048, 256), 1, 1, 0, s, of_twice, nullptr));  // launch
    if (EITHER(1, 0)) CHECK(cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, s, of_twice, nullptr));
    CHECK(cuLaunchKernel(EITHER((CUfunction)&n, f), 1, 1, 1, 1, 1, 1, 0, s, of_twice, nullptr));  // handle
    if (EITHER(1, 0)) CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, of_twice, nullptr));

    nvrtcProgram p;
    const char *options[] = {"--gpu-architecture=compute_80", "-DUNUSED"}, *lowered;
    wrong += nvrtcCreateProgram(&p, source, "times.cu", 0, nullptr, nullptr);
    wrong += nvrtcAddNameExpression(p, "add<3>") || nvrtcAddNameExpression(p, "plain");
    wrong += nvrtcCompileProgram(p, 2, options) || nvrtcGetLoweredName(p, "add<3>", &lowered);
    std::string add = lowered, plain;
    nvrtcGetLoweredName(p, "plain", &lowered);
    plain = lowered;
    size_t size;
    wrong += nvrtcGetPTXSize(p, &size);
    std::vector<char> compiled(size);
    wrong += nvrtcGetPTX(p, compiled.data()) || nvrtcDestroyProgram(&p) || nvrtcDestroyProgram(&p) != NVRTC_ERROR_INVALID_PROGRAM;
    CHECK(cuModuleLoadDataEx(&rtc, compiled.data(), 0, nullptr, nullptr));
    CUdeviceptr factor;
    CHECK(cuModuleGetGlobal(&factor, &size, rtc, "factor"));
    const int three = 3;
    CHECK(cuMemcpyHtoD(factor, &three, size));
    CHECK(cuModuleGetFunction(&g, rtc, "times"));
    CHECK(cuLaunchKernel(g, 4, 1, 1, 256, 1, 1, 0, s, of_twice, nullptr));
    CHECK(cuModuleGetFunction(&g, rtc, add.c_str()));
    CHECK(cuLaunchKernel(g, 1, 1, 1, 10, 1, 1, 0, s, of_twice, nullptr));
    CHECK(cuModuleGetFunction(&g, rtc, EITHER("plain", plain.c_str())));  // no-function
    if (EITHER(1, 0)) CHECK(cuModuleGetFunction(&g, rtc, plain.c_str()));
    CHECK(cuLaunchKernel(g, 1, 1, 1, 10, 1, 1, 0, s, of_twice, nullptr));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuMemcpyDtoH(h.data(), a, bytes));
    for (int i = 0; i < n; i++) wrong += h[i] != 12 * i + 4 * (i < 10);
    nvrtcCreateProgram(&p, EITHER("extern \"C\" __global__ void k() { x = 1; }", source), "broken.cu", 0, nullptr, nullptr);
    wrong += nvrtcCompileProgram(p, 0, nullptr);                          // module
    wrong += nvrtcGetProgramLogSize(p, &size) || size < EITHER(10, 1);
    nvrtcDestroyProgram(&p);

    CHECK(cuMemsetD32(a, 0x01020304, n));
    CHECK(cuMemcpyDtoH(h.data(), a, bytes));
    wrong += h[n - 1] != 0x01020304;
    CHECK(cuModuleUnload(rtc));
    CHECK(EITHER(cuModuleUnload(rtc), CUDA_SUCCESS));                     // handle
    CHECK(cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, s, of_twice, nullptr));
    CHECK(cuStreamDestroy(s)); CHECK(cuStreamDestroy(t));
    CHECK(cuMemFree(b));
    if (EITHER(1, 0)) cuMemFree(b);                                       // freed-twice
    CHECK(cuMemFree(a)); CHECK(cuModuleUnload(m)); CHECK(cuCtxDestroy(context));
    return wrong || failed;
}
