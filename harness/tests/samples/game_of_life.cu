// Conway's game on a torus, cells as bits of 32-bit words: whole-word logic, one word per thread.

__device__ unsigned word(const unsigned* grid, int x, int y, int words, int height) {
    return grid[(y + height) % height * words + (x + words) % words];
}

extern "C" __global__ void game_of_life(const unsigned* grid, unsigned* next, int words, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= words || y >= height) return;
    unsigned ones = 0, twos = 0, fours = 0, self = word(grid, x, y, words, height);
    for (int dy = -1; dy <= 1; dy++) {
        unsigned w = word(grid, x, y + dy, words, height);
        unsigned l = __funnelshift_l(word(grid, x - 1, y + dy, words, height), w, 1);
        unsigned r = __funnelshift_r(w, word(grid, x + 1, y + dy, words, height), 1);
        unsigned three[] = {l, dy == 0 ? 0u : w, r};
#pragma unroll
        for (int i = 0; i < 3; i++) {
            unsigned carry = ones & three[i], carry2 = twos & carry;
            ones ^= three[i];
            twos ^= carry;
            fours |= carry2;
        }
    }
    next[y * words + x] = twos & ~fours & (ones | self);
}
