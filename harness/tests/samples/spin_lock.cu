// An update that no atomic offers, under a lock: all threads of all blocks, each bucket with a lock of its own.

struct Bucket {
    int lock, count;
    float least, most;
};

__device__ void acquire(int* lock) {
    while (atomicCAS(lock, 0, 1) != 0) __nanosleep(20);
    __threadfence();
}

__device__ void release(int* lock) {
    __threadfence();
    atomicExch(lock, 0);
}

extern "C" __global__ void spin_lock(const float* x, const int* keys, Bucket* buckets, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Bucket* bucket = &buckets[keys[i]];
    acquire(&bucket->lock);
    bucket->least = bucket->count ? fminf(bucket->least, x[i]) : x[i];
    bucket->most = bucket->count ? fmaxf(bucket->most, x[i]) : x[i];
    bucket->count++;
    release(&bucket->lock);
}
