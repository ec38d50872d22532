// Accelerations of bodies that attract one another: tiles of positions and masses (float4) in shared memory.

constexpr int TILE = 64;

__device__ float3 pull(float3 sum, float4 body, float4 other, float softening) {
    float3 d = make_float3(other.x - body.x, other.y - body.y, other.z - body.z);
    float inverse = rsqrtf(d.x * d.x + d.y * d.y + d.z * d.z + softening);
    float strength = other.w * inverse * inverse * inverse;
    return make_float3(sum.x + d.x * strength, sum.y + d.y * strength, sum.z + d.z * strength);
}

extern "C" __global__ void nbody(const float4* bodies, float3* acceleration, int n, float softening) {
    __shared__ float4 tile[TILE];
    int i = blockIdx.x * TILE + threadIdx.x;
    float4 mine = i < n ? bodies[i] : make_float4(0, 0, 0, 0);
    float3 sum = {0, 0, 0};
    for (int start = 0; start < n; start += TILE) {
        int from = start + threadIdx.x;
        tile[threadIdx.x] = from < n ? bodies[from] : float4{0, 0, 0, 0};
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < TILE; j++) sum = pull(sum, mine, tile[j], softening);
        __syncthreads();
    }
    if (i < n) acceleration[i] = sum;
}
