// MurmurHash3 (32 bits) of strings of any length that lie end to end, one per thread; reads byte by byte.

__device__ __forceinline__ unsigned mix(unsigned k) {
    k *= 0xcc9e2d51u;
    k = __funnelshift_l(k, k, 15);
    return k * 0x1b873593u;
}

extern "C" __global__ void murmur(const unsigned char* text, const int* starts, unsigned* hashes, int count, unsigned seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const unsigned char* p = text + starts[i];
    int length = starts[i + 1] - starts[i];
    unsigned h = seed;
    for (int at = 0; at + 4 <= length; at += 4) {
        unsigned k = p[at] | p[at + 1] << 8 | p[at + 2] << 16 | (unsigned)p[at + 3] << 24;
        h = (h ^ mix(k));
        h = (h << 13 | h >> 19) * 5 + 0xe6546b64u;
    }
    unsigned tail = 0;
    const unsigned char* rest = p + (length & ~3);
    switch (length & 3) {
        case 3: tail ^= rest[2] << 16;  // falls through
        case 2: tail ^= rest[1] << 8;   // falls through
        case 1: tail ^= rest[0]; h ^= mix(tail);
    }
    h ^= length;
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    hashes[i] = h ^ h >> 16;
}
