// Cooperative groups for the warp; thread 0 adds up the few slots alone.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void conv2d_backward_bias(const float* grad_output, float* grad_bias, int batch, int C_out, int H_out,
                                     int W_out) {
    __shared__ float slot[32];
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int plane = H_out * W_out;
    float sum = 0;
    for (int i = threadIdx.x; i < batch * plane; i += blockDim.x)
        sum += grad_output[(i / plane * C_out + blockIdx.x) * plane + i % plane];
    for (int step = warp.size() / 2; step; step /= 2) sum += warp.shfl_down(sum, step);
    if (warp.thread_rank() == 0) slot[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < blockDim.x / 32; w++) sum += slot[w];
    grad_bias[blockIdx.x] = sum;
}
