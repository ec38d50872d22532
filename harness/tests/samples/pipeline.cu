// A moving sum over rows with cuda::pipeline: the next row is on its way while this one is used.

#include <cooperative_groups.h>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

constexpr int STAGES = 2, WIDTH = 128;

extern "C" __global__ void pipeline(const float* rows, float* out, int count) {
    __shared__ alignas(16) float stage[STAGES][WIDTH];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> shared_state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &shared_state);
    float sum = 0.0f;
    for (int use = 0, load = 0; use < count; use++) {
        for (; load < count && load < use + STAGES; load++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, stage[load % STAGES], rows + load * WIDTH, cuda::aligned_size_t<16>(sizeof(float) * WIDTH), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += stage[use % STAGES][(threadIdx.x + use) % WIDTH];
        out[use * WIDTH + threadIdx.x] = sum;
        pipe.consumer_release();
    }
}
