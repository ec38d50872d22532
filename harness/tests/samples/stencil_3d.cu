// A seven-point stencil in three dimensions: a plane with its halo in shared memory, the planes around it in registers.

constexpr int BX = 16, BY = 8;

extern "C" __global__ void stencil_3d(const float* in, float* out, int nx, int ny, int nz, float centre, float side) {
    __shared__ float plane[BY + 2][BX + 2];
    int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    bool exists = x < nx && y < ny;
    auto at = [&](int i, int j, int k) {
        return i >= 0 && i < nx && j >= 0 && j < ny && k >= 0 && k < nz ? in[(k * ny + j) * nx + i] : 0.0f;
    };
    float below = 0.0f, here = at(x, y, 0);
    for (int z = 0; z < nz; z++) {
        float above = at(x, y, z + 1);
        plane[ty][tx] = here;
        if (threadIdx.x == 0) plane[ty][0] = at(x - 1, y, z);
        if (threadIdx.x == BX - 1) plane[ty][BX + 1] = at(x + 1, y, z);
        if (threadIdx.y == 0) plane[0][tx] = at(x, y - 1, z);
        if (threadIdx.y == BY - 1) plane[BY + 1][tx] = at(x, y + 1, z);
        __syncthreads();
        if (exists)
            out[(z * ny + y) * nx + x] =
                centre * here + side * (plane[ty][tx - 1] + plane[ty][tx + 1] + plane[ty - 1][tx] + plane[ty + 1][tx] + below + above);
        below = here;
        here = above;
        __syncthreads();
    }
}
