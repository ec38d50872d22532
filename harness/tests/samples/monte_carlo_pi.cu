// Points in a quarter of a circle, counted: a counter-based generator (Philox 4x32-10), votes, 64-bit atomics.

__device__ uint4 philox(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; round++) {
        unsigned hi0 = __umulhi(0xd2511f53u, counter.x), lo0 = 0xd2511f53u * counter.x;
        unsigned long long product = (unsigned long long)0xcd9e8d57u * counter.z;
        counter = make_uint4((unsigned)(product >> 32) ^ counter.y ^ key.x, (unsigned)product, hi0 ^ counter.w ^ key.y, lo0);
        key.x += 0x9e3779b9u;
        key.y += 0xbb67ae85u;
    }
    return counter;
}

__device__ bool inside(unsigned x, unsigned y) {
    unsigned long long a = x >> 1, b = y >> 1;
    return a * a + b * b < 1ull << 62;
}

extern "C" __global__ void monte_carlo_pi(unsigned long long* hits, unsigned* samples, int rounds, unsigned seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int count = 0;
    for (int r = 0; r < rounds; r++) {
        uint4 random = philox(make_uint4(i, r, 0, 0), make_uint2(seed, 0));
        if (r == 0) samples[i] = random.x;
        count += inside(random.x, random.y) + inside(random.z, random.w);
    }
    count = __reduce_add_sync(0xffffffff, count);
    if (threadIdx.x % 32 == 0) atomicAdd(hits, (unsigned long long)count);
}
