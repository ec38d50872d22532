// A hash table with linear probing: keys are claimed with compare-and-swap, values added with atomics, then looked up.

constexpr unsigned EMPTY = 0xffffffffu;

struct Entry {
    unsigned key;
    unsigned value;
};

__device__ unsigned hash(unsigned k) {
    k ^= k >> 16;
    k *= 0x85ebca6b;
    k ^= k >> 13;
    return k;
}

extern "C" __global__ void insert(Entry* table, unsigned capacity, const unsigned* keys, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned slot = hash(keys[i]) % capacity;
    while (true) {
        unsigned old = atomicCAS(&table[slot].key, EMPTY, keys[i]);
        if (old == EMPTY || old == keys[i]) {
            atomicAdd(&table[slot].value, 1u);
            return;
        }
        slot = (slot + 1) % capacity;
    }
}

extern "C" __global__ void lookup(const Entry* table, unsigned capacity, const unsigned* queries, int* counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    counts[i] = 0;
    for (unsigned slot = hash(queries[i]) % capacity; table[slot].key != EMPTY; slot = (slot + 1) % capacity)
        if (table[slot].key == queries[i]) {
            counts[i] = table[slot].value;
            break;
        }
}
