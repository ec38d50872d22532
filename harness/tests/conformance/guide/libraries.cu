#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
#include <cuda_awbarrier_primitives.h>
#include <cuda/std/array>
#include <cuda/std/tuple>
#include <cuda/std/utility>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/variant>
#include <cuda/std/atomic>
#include <cuda/std/complex>
#include <cuda/std/limits>
#include <cuda/std/bit>
#include <cuda/std/type_traits>
#include <cuda/std/algorithm>
#include <cuda/std/chrono>
#include <cuda/atomic>
#include <cuda/latch>
#include <cuda/semaphore>
#include <tuple>
#include <array>
#include <utility>

//# libcu++

//: cuda::std::array = t % 4 + 4
TEST(int, library_array) { cuda::std::array<int, 4> a{0, 1, 2, 3}; out[t] = a[t % 4] + a.size(); }

//: cuda::std::tuple and get = t + 3
TEST(int, library_tuple) { auto [a, b] = cuda::std::make_tuple(t, 3); out[t] = a + b; }

//: cuda::std::pair and swap = t - 1
TEST(int, library_pair) { cuda::std::pair<int, int> p(1, t); cuda::std::swap(p.first, p.second); out[t] = p.first - p.second; }

//: cuda::std::optional = np.where(t % 2, t, -1)
__device__ cuda::std::optional<int> odd(int x) { if (x % 2) return x; return cuda::std::nullopt; }
TEST(int, library_optional) { out[t] = odd(t).value_or(-1); }

//: cuda::std::span = t + 10
TEST(int, library_span) { int xs[4] = {1, 2, 3, 4}; int sum = t; for (int x : cuda::std::span<int>(xs, 4)) sum += x; out[t] = sum; }

//: cuda::std::variant and visit = np.where(t % 2, t, 2 * t)
TEST(int, library_variant) {
    cuda::std::variant<int, float> v;
    if (t % 2) v = t; else v = 2.0f * t;
    out[t] = cuda::std::visit([](auto x) { return int(x); }, v);
}

//: cuda::atomic and cuda::atomic_ref = 64 + 0 * t
TEST(int, library_atomic) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> a;
    __shared__ int b;
    if (t == 0) { a.store(0); b = 0; }
    __syncthreads();
    a.fetch_add(1, cuda::std::memory_order_relaxed);
    cuda::atomic_ref<int, cuda::thread_scope_block>(b).fetch_add(1);
    __syncthreads();
    out[t] = a.load() + b;
}

//: cuda::std::atomic compare_exchange = 32 + 0 * t
TEST(int, library_exchange) {
    __shared__ cuda::std::atomic<int> a;
    if (t == 0) a = 0;
    __syncthreads();
    int seen = a.load();
    while (!a.compare_exchange_weak(seen, seen + 1)) {}
    __syncthreads();
    out[t] = a;
}

//: cuda::std::complex = 2.0 * t
TEST(float, library_complex) { cuda::std::complex<float> z(t, 1); out[t] = (z + conj(z)).real(); }

//: cuda::std::numeric_limits and bit functions = 31 + 127 + 0 * t
TEST(int, library_limits) { out[t] = cuda::std::numeric_limits<int>::digits + cuda::std::numeric_limits<signed char>::max() + cuda::std::popcount(0u); }

//: type traits = 3 + 0 * t
TEST(int, library_traits) { out[t] = cuda::std::is_same_v<int, decltype(t)> + 2 * cuda::std::is_floating_point_v<float>; }

//: cuda::std::min, max, sort-free algorithms = np.maximum(t, 7)
TEST(int, library_algorithms) { int xs[2] = {t, 7}; out[t] = *cuda::std::max_element(xs, xs + 2); }

//: std:: names after <tuple>, <array>, <utility> = t + 6
TEST(int, library_std) { std::array<int, 3> a{1, 2, 3}; int sum = t; for (int x : a) sum += x; out[t] = std::get<0>(std::make_tuple(sum)); }

//: cuda::std::mdspan-free fences: cuda::atomic_thread_fence = t
TEST(int, library_fence) { out[t] = t; cuda::atomic_thread_fence(cuda::std::memory_order_seq_cst, cuda::thread_scope_device); }

//: cuda::std::byte_cast and chrono = 1 + 0 * t
TEST(int, library_chrono) { auto a = cuda::std::chrono::system_clock::now(); out[t] = cuda::std::chrono::system_clock::now() >= a; }

//: cuda::binary_semaphore = 32 + 0 * t
TEST(int, library_semaphore) {
    __shared__ cuda::binary_semaphore<cuda::thread_scope_block> gate;
    __shared__ volatile int n;
    if (t == 0) { new (&gate) cuda::binary_semaphore<cuda::thread_scope_block>(1); n = 0; }
    __syncthreads();
    gate.acquire();
    n = n + 1;
    gate.release();
    __syncthreads();
    out[t] = n;
}

//: cuda::latch = 1 + 0 * t
TEST(int, library_latch) {
    __shared__ alignas(8) unsigned char room[sizeof(cuda::latch<cuda::thread_scope_block>)];
    auto gate = reinterpret_cast<cuda::latch<cuda::thread_scope_block>*>(room);
    if (t == 0) new (gate) cuda::latch<cuda::thread_scope_block>(32);
    __syncthreads();
    gate->arrive_and_wait();
    out[t] = gate->try_wait();
}

//# Asynchronous barrier

//: cuda::barrier: arrive and wait = 31 - t
TEST(int, barrier_arrive) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int s[32];
    if (t == 0) init(&barrier, 32);
    __syncthreads();
    s[t] = t;
    auto token = barrier.arrive();
    barrier.wait(std::move(token));
    out[t] = s[31 - t];
}

//: arrive_and_wait, twice, and arrive_and_drop = np.where(t < 16, 15 - t, 0)
TEST(int, barrier_phases) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int s[32];
    if (t == 0) init(&barrier, 32);
    __syncthreads();
    s[t] = 0;
    barrier.arrive_and_wait();
    out[t] = s[31 - t];
    if (t >= 16) { barrier.arrive_and_drop(); return; }
    barrier.arrive_and_wait();
    s[t] = t;
    barrier.arrive_and_wait();
    out[t] = s[15 - t];
}

//# Asynchronous data copies

//: memcpy_async of a block with a barrier = 2 * t
__device__ const int evens[32] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
TEST(int, copy_with_barrier) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ alignas(16) int s[32];
    if (t == 0) init(&barrier, 32);
    __syncthreads();
    cuda::memcpy_async(s + t, evens + t, sizeof(int), barrier);
    barrier.arrive_and_wait();
    out[t] = s[31 - (31 - t)];
}

//: a pipeline of one thread's copies = 2 * t
TEST(int, copy_with_pipeline) {
    __shared__ int s[32];
    auto pipe = cuda::make_pipeline();
    pipe.producer_acquire();
    cuda::memcpy_async(s + t, evens + t, sizeof(int), pipe);
    pipe.producer_commit();
    cuda::pipeline_consumer_wait_prior<0>(pipe);
    out[t] = s[t];
    pipe.consumer_release();
}

//: __pipeline_memcpy_async and its commit and wait = 2 * t
TEST(int, copy_with_primitives) {
    __shared__ int s[32];
    __pipeline_memcpy_async(s + t, evens + t, sizeof(int));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[t] = s[t];
}

//: cp.async with zero fill by inline PTX = np.where(t < 16, 2 * t, 0)
TEST(int, copy_with_zeros) {
    __shared__ int s[32];
    unsigned at = __cvta_generic_to_shared(s + t);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(evens + t), "r"(t < 16 ? 4 : 0) : "memory");
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    out[t] = s[t];
}

//: mbarrier primitives = 31 - t
TEST(int, barrier_primitives) {
    __shared__ __mbarrier_t barrier;
    __shared__ int s[32];
    if (t == 0) __mbarrier_init(&barrier, 32);
    __syncthreads();
    s[t] = t;
    __mbarrier_token_t token = __mbarrier_arrive(&barrier);
    while (!__mbarrier_test_wait(&barrier, token)) {}
    out[t] = s[31 - t];
    __syncthreads();
    if (t == 0) __mbarrier_inval(&barrier);
}

//# Tensor memory access

//: cp.async.bulk and a barrier that counts its bytes = 1
TEST(int, bulk_copy) {
    __shared__ alignas(16) int s[32];
    __shared__ alignas(8) unsigned long long barrier;
    unsigned place = (unsigned)__cvta_generic_to_shared(&barrier);
    out[t] = t;
    __syncthreads();
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(place) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" :: "r"(place) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                     :: "r"((unsigned)__cvta_generic_to_shared(s)), "l"(out), "r"(place) : "memory");
    }
    __syncthreads();
    int over = 0;
    while (!over)
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.s32 %0, 1, 0, p;}" : "=r"(over) : "r"(place) : "memory");
    __syncthreads();
    out[t] = s[t] == t;
}
