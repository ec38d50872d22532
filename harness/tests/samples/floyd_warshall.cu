// Shortest paths between all pairs. `relax` once per vertex; or blocked, in three phases per diagonal tile.

constexpr int TILE = 16, FAR = 1 << 28;

extern "C" __global__ void relax(int* distance, int n, int via) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= n || i == via || j == via) return;  // these do not change
    int candidate = distance[i * n + via] + distance[via * n + j];
    if (candidate < distance[i * n + j]) distance[i * n + j] = candidate;
}

__device__ int& at(int* distance, int n, int i, int j, int& outside) { return i < n && j < n ? distance[i * n + j] : outside; }

// phase 0: the diagonal tile; 1: tiles in its row and column; 2: all others.
extern "C" __global__ void relax_tiles(int* distance, int n, int tile, int phase) {
    __shared__ int left[TILE][TILE + 1], top[TILE][TILE + 1];
    int bx = blockIdx.x, by = blockIdx.y;
    if (phase == 0) bx = by = tile;
    if (phase == 1) {
        bx = by == 0 ? blockIdx.x : tile;
        by = blockIdx.y == 0 ? tile : blockIdx.x;
        if (bx == tile && by == tile) return;
    }
    if (phase == 2 && (bx == tile || by == tile)) return;
    int y = threadIdx.y, x = threadIdx.x, outside = FAR;
    int& mine = at(distance, n, by * TILE + y, bx * TILE + x, outside);
    int best = mine;
    left[y][x] = at(distance, n, by * TILE + y, tile * TILE + x, outside);
    top[y][x] = at(distance, n, tile * TILE + y, bx * TILE + x, outside);
    __syncthreads();
    for (int k = 0; k < TILE; k++) {
        best = min(best, left[y][k] + top[k][x]);
        if (phase < 2) {
            __syncthreads();
            if (bx == tile) left[y][x] = best;
            if (by == tile) top[y][x] = best;
            __syncthreads();
        }
    }
    mine = best;
}
