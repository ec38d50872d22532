//# CUDA dynamic parallelism

//: a launch from a kernel refused "a kernel that launches kernels (dynamic parallelism) is not supported here"
extern "C" __global__ void child(int* out) { out[threadIdx.x] = 1; }
TEST(int, launch_from_kernel) { child<<<1, 32>>>(out); }

//: the runtime called from a kernel refused "CUDA's runtime functions are for the host"
TEST(int, runtime_from_kernel) { cudaGetDevice(out); }

//# Texture functions

//: a texture reference refused "CUDA 12 has no texture references: pass a cudaTextureObject_t to the kernel"
texture<float, 2> reference;
TEST(float, texture_reference) { out[t] = tex2D(reference, t, 0); }

//# Surface functions

//: a formatted store refused "the virtual GPU does not support formatted stores to surfaces"
TEST(int, formatted_store, cudaSurfaceObject_t image) { asm volatile("sust.p.1d.b32.trap [%0, {%1}], {%1};" ::"l"(image), "r"(t)); }

//# Warp vote functions

//: __all without _sync refused "write __any_sync(0xffffffff, ...)"
TEST(int, old_vote) { out[t] = __all(t < 32); }

//: vote without .sync refused "votes without a mask of lanes"
TEST(int, old_vote_in_ptx) { asm volatile("{.reg .pred p; vote.all.pred p, 1;}"); out[t] = t; }

//# Warp shuffle functions

//: __shfl without _sync refused "GPUs since Volta have no __shfl(): write __shfl_sync(0xffffffff, ...)"
TEST(int, old_shuffle) { out[t] = __shfl(t, 0); }

//# Launch bounds

//: __block_size__ refused "it needs compute capability 9.0"
extern "C" __global__ void __block_size__((32, 1, 1)) sized(int* out) { out[t] = t; }

//# Alloca function

//: alloca refused "NVRTC has no alloca(): write an array of the largest size that is needed"
TEST(int, stack) { int* room = (int*)alloca(4 * t + 4); room[0] = t; out[t] = room[0]; }

//# C++ language support

//: exceptions refused "device code does not support exception handling"
TEST(int, exceptions) { try { out[t] = t; } catch (int) { out[t] = 0; } }

//: dynamic_cast refused "write a virtual function, or keep what the type is in the object"
struct P { virtual __device__ int f() { return 1; } };
struct Q : P { __device__ int f() override { return 2; } };
TEST(int, dynamic_type) { Q q; P* p = &q; out[t] = dynamic_cast<Q*>(p) != nullptr; }

//: typeid refused "typeid cannot be used"
TEST(int, type_identity) { out[t] = typeid(int) == typeid(float); }

//: thread_local refused "without memory space annotations"
thread_local int own;
TEST(int, thread_storage) { out[t] = own; }

//: a function that is declared and not defined refused "missing() is called here, but nothing in this file says what it does"
__device__ int missing(int);
TEST(int, undefined_function) { out[t] = missing(t); }

//: an extern "C" function that is not defined refused "elsewhere() is called here"
extern "C" __device__ int elsewhere(int);
TEST(int, undefined_c_function) { out[t] = elsewhere(t); }

//: a variable-length array refused "write the largest length that is needed"
TEST(int, variable_array) { int n = t + 1; int xs[n]; xs[0] = t; out[t] = xs[0]; }

//: a host function called by a kernel refused "write __device__ before a function that a kernel calls"
int on_the_host(int x) { return x; }
TEST(int, host_call) { out[t] = on_the_host(t); }
