// Inclusive sums in one pass over memory: a block takes a number, and looks back at what the blocks before it
// have published, their own sum or already the sum up to them.

constexpr int THREADS = 128;
constexpr unsigned NOTHING = 0, PARTIAL = 1, INCLUSIVE = 2;

__device__ unsigned next_tile = 0;

__device__ unsigned long long pack(unsigned flag, int value) { return (unsigned long long)flag << 32 | (unsigned)value; }

extern "C" __global__ void lookback_scan(const int* x, int* out, volatile unsigned long long* status, int n) {
    __shared__ int sums[THREADS / 32], tile, before;
    if (threadIdx.x == 0) tile = atomicAdd(&next_tile, 1);
    __syncthreads();
    int i = tile * THREADS + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int value = i < n ? x[i] : 0;
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(~0u, value, step);
        if (lane >= step) value += other;
    }
    if (lane == 31) sums[warp] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        int total = 0;
        for (int w = 0; w < THREADS / 32; w++) {
            int s = sums[w];
            sums[w] = total;
            total += s;
        }
        status[tile] = pack(tile == 0 ? INCLUSIVE : PARTIAL, total);
        int sum = 0;
        for (int back = tile - 1; back >= 0;) {
            unsigned long long seen = status[back];
            unsigned flag = seen >> 32;
            if (flag == NOTHING) continue;
            sum += (int)seen;
            if (flag == INCLUSIVE) break;
            back--;
        }
        if (tile > 0) status[tile] = pack(INCLUSIVE, sum + total);
        before = sum;
    }
    __syncthreads();
    if (i < n) out[i] = before + sums[warp] + value;
    if (threadIdx.x == 0 && tile == gridDim.x - 1) next_tile = 0;
}
