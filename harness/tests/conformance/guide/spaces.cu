//# Function execution space specifiers

//: a __device__ function = t * t
static __device__ int square(int x) { return x * x; }
TEST(int, device_function) { out[t] = square(t); }

//: a function for host and device = t + 1
__host__ __device__ int next_of(int x) {
#ifdef __CUDA_ARCH__
    return x + 1;
#else
    return x - 1;
#endif
}
TEST(int, host_device_function) { out[t] = next_of(t); }

//: __noinline__ and __forceinline__ = 2 * t + 3
__noinline__ __device__ int twice(int x) { return 2 * x; }
__forceinline__ __device__ int plus_three(int x) { return x + 3; }
TEST(int, inlining) { out[t] = plus_three(twice(t)); }

//: __inline_hint__ = t - 1
__inline_hint__ __device__ int previous(int x) { return x - 1; }
TEST(int, inline_hint) { out[t] = previous(t); }

//: __CUDA_ARCH__ = 800 + 0 * t
TEST(int, architecture) { out[t] = __CUDA_ARCH__; }

//: recursion = np.array([1, 1, 2, 6, 24, 120, 720, 5040])[t % 8]
__device__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }
TEST(int, recursion) { out[t] = factorial(t % 8); }

//: a pointer to a function = np.where(t % 2, t + 1, t * t)
TEST(int, function_pointer) {
    int (*chosen)(int) = t % 2 ? next_of : square;
    out[t] = chosen(t);
}

//: a table of functions in __device__ memory = np.where(t % 2, t + 1, t * t)
__device__ int (*const functions[])(int) = {square, next_of};
TEST(int, function_table) { out[t] = functions[t % 2](t); }

//# Variable memory space specifiers

//: __device__, initialised = 7 + t
__device__ int seven = 7;
TEST(int, device_variable) { out[t] = seven + t; }

//: __device__, zero without an initialiser = t
__device__ int nothing[32];
TEST(int, device_zero) { out[t] = nothing[t] + t; }

//: __constant__, an array = np.array([2, 3, 5, 7])[t % 4]
__constant__ int primes[4] = {2, 3, 5, 7};
TEST(int, constant_array) { out[t] = primes[t % 4]; }

//: __constant__, a struct = t * 1.5 + 2
struct Line { float slope; double offset; };
__constant__ Line line = {1.5f, 2.0};
TEST(float, constant_struct) { out[t] = line.slope * t + float(line.offset); }

//: __shared__ = 31 - t
TEST(int, shared_array) {
    __shared__ int tile[32];
    tile[t] = t;
    __syncthreads();
    out[t] = tile[31 - t];
}

//: dynamic __shared__ @ 1, 32, 128 = 31 - t
TEST(int, dynamic_shared) {
    extern __shared__ int dynamic[];
    dynamic[31 - t] = t;
    __syncthreads();
    out[t] = dynamic[t];
}

//: dynamic __shared__ cut in two @ 1, 32, 384 = 1.5 * (31 - t)
TEST(float, dynamic_parts) {
    extern __shared__ __align__(16) unsigned char parts[];
    double* first = reinterpret_cast<double*>(parts);
    float* second = reinterpret_cast<float*>(first + 32);
    first[t] = 31 - t;
    second[31 - t] = 0.5f * t;
    __syncthreads();
    out[t] = float(first[t]) + second[t];
}

//: __managed__ = t + 40
__managed__ int shared_with_host = 40;
TEST(int, managed_variable) { out[t] = shared_with_host + t; }

//: __restrict__ = 3 * t
__device__ void triple(const int* __restrict__ from, int* __restrict__ to) { to[0] = 3 * from[0]; }
TEST(int, restricted) { int x = t; triple(&x, out + t); }

//: __grid_constant__ = t + 5
struct Five { int values[5]; };
__device__ int last_of(const Five* five) { return five->values[4]; }
extern "C" __global__ void grid_constant_inner(const __grid_constant__ Five five, int* out) {
    out[t] = last_of(&five) + t;
}
TEST(int, grid_constant) { Five five = {{1, 2, 3, 4, 5}}; out[t] = last_of(&five) + t; }

//: a static local of a kernel = 0 * t + 32
TEST(int, static_local) {
    static __shared__ int total;
    if (t == 0) total = 0;
    __syncthreads();
    atomicAdd(&total, 1);
    __syncthreads();
    out[t] = total;
}

//: a static local of a function, in __device__ memory = t * 0 + 9
__device__ int* kept() { static int value = 9; return &value; }
TEST(int, static_device_local) { out[t] = *kept(); }

//: a pointer to a __device__ variable in another = t + 7
__device__ int* to_seven = &seven;
TEST(int, variable_pointer) { out[t] = *to_seven + t; }

//: a local array with a computed index = (t * t + 3) % 8
TEST(int, local_array) {
    int values[8];
    for (int i = 0; i < 8; i++) values[i] = i;
    out[t] = values[(t * t + 3) % 8];
}

//# Built-in variables

//: threadIdx, blockIdx, blockDim, gridDim @ 2, (4, 4), 0 = t
TEST(int, built_in_variables) {
    int block = blockIdx.x + gridDim.x * blockIdx.y;
    out[block * 16 + threadIdx.y * blockDim.x + threadIdx.x] = block * 16 + threadIdx.y * 4 + threadIdx.x;
}

//: warpSize = 32 + 0 * t
TEST(int, warp_size) { out[t] = warpSize; }

//: three dimensions @ (2, 1, 2), (2, 2, 2), 0 = t
TEST(int, three_dimensions) {
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * 8 + thread] = block * 8 + thread;
}

//: %laneid and %warpid by inline PTX = t
TEST(int, lane) {
    unsigned lane, warp;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
    out[t] = lane + 32 * warp;
}
