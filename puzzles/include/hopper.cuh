// Compute capability 9.0 (Hopper): copies of tiles by TMA, barriers that count bytes, and products of four warps.
//
// A copy is one instruction of one thread: the hardware finds the elements, and writes them to shared memory. A
// product is one instruction of 128 threads, a warp group: the hardware reads both tiles from shared memory. None
// of them waits. A barrier says when copies have arrived, a wait for groups when products are complete.
//
// Source: PTX ISA, "mbarrier", "cp.async.bulk.tensor", "Asynchronous Warpgroup Level Matrix Instructions".
#pragma once
#include <cuda_fp16.h>

using Barrier = unsigned long long;     // 8 bytes of shared memory
using Descriptor = unsigned long long;  // says where a tile lies in shared memory, and how

// Shared memory has addresses of its own, of 32 bits.
__device__ inline unsigned in_shared(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// ---- barriers --------------------------------------------------------------------------------------------
//
// A barrier counts two things down to 0: arrivals of threads, and bytes of copies. When both are 0, its phase is
// over, and the next one begins with as many arrivals to come, and 0 bytes. Phases alternate between parity 0 and 1.
//
//   make_barrier(b, 1)              arrivals to come 1   bytes to come     0   in the phase of parity 0
//   arrive_and_expect(b, 16384)                      0               16384
//   a copy of 8,192 bytes lands                      0                8192
//   another one lands                                0                   0   over: now it is that of parity 1
//   so what follows begins with                      1                   0

// For one thread, before any other uses the barrier. arrivals: in each phase.
__device__ inline void make_barrier(Barrier* b, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(in_shared(b)), "r"(arrivals) : "memory");
}

// Shows the new barriers to the hardware that copies. Other threads see them after __syncthreads().
__device__ inline void show_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// An arrival.
__device__ inline void arrive(Barrier* b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(in_shared(b)) : "memory");
}

// An arrival that says first how many bytes are to come in this phase: those of all copies together.
__device__ inline void arrive_and_expect(Barrier* b, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(in_shared(b)), "r"(bytes) : "memory");
}

// Waits until the phase of this parity is over: the latest one that has it. Before the first phase is over, that
// of parity 1 counts as over.
__device__ inline void wait_for_phase(Barrier* b, unsigned parity) {
    asm volatile("{\n.reg .pred over;\n"
                 "AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@over bra DONE;\nbra AGAIN;\nDONE:\n}"
                 :: "r"(in_shared(b)), "r"(parity) : "memory");
}

// ---- copies ----------------------------------------------------------------------------------------------
//
// By one thread. The tensor map has the array's address, shape and strides, the size of the box that one copy brings,
// and the swizzle. Coordinates are those of the box's first element, the innermost axis first. What is outside the
// array arrives as 0, and its bytes count. `to`: aligned to 1,024 bytes, for swizzles of 128.

// A box of rows and columns of a matrix.
__device__ inline void copy_box(void* to, const CUtensorMap* map, int column, int row, Barrier* b) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(in_shared(to)), "l"(map), "r"(column), "r"(row), "r"(in_shared(b)) : "memory");
}

// im2col: channels, from c on, of pixels that a convolution's outputs read at one tap of the filter. (h, w) is where
// the first output's window begins in image n, perhaps in the padding; (r, s) is the tap. For the outputs after it
// the hardware walks on: by the stride along the row, then to the next row, then to the next image.
__device__ inline void copy_pixels(void* to, const CUtensorMap* map, int c, int w, int h, int n, int s, int r,
                                   Barrier* b) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
                 :: "r"(in_shared(to)), "l"(map), "r"(c), "r"(w), "r"(h), "r"(n), "r"(in_shared(b)),
                    "h"(static_cast<short>(s)), "h"(static_cast<short>(r)) : "memory");
}

// ---- clusters --------------------------------------------------------------------------------------------
//
// Blocks of a kernel with __cluster_dims__(x, y) run at the same time in clusters of x * y neighbours in the grid, and reach
// one another's shared memory: while a block runs, and not before it has begun.

// Which block of its cluster this is: from 0 on.
__device__ inline unsigned rank_in_cluster() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// All threads of all blocks of the cluster meet. What they have done before is there for all, barriers too.
__device__ inline void meet_cluster() {
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}

// An arrival at the barrier that another block has in the same place; or at this one's own.
__device__ inline void arrive_in(unsigned rank, Barrier* b) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}"
                 :: "r"(in_shared(b)), "r"(rank) : "memory");
}

// copy_pixels for several blocks: those whose rank is a bit of `ranks`. In each of them the pixels arrive in the place that `to`
// is here, and their bytes count at the barrier that it has where `b` is here.
__device__ inline void copy_pixels_to(unsigned ranks, void* to, const CUtensorMap* map, int c, int w, int h, int n, int s,
                                      int r, Barrier* b) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8}, %9;"
                 :: "r"(in_shared(to)), "l"(map), "r"(c), "r"(w), "r"(h), "r"(n), "r"(in_shared(b)),
                    "h"(static_cast<short>(s)), "h"(static_cast<short>(r)), "h"(static_cast<short>(ranks)) : "memory");
}

// ---- products --------------------------------------------------------------------------------------------

// Of a tile whose rows, of 64 halves, run along K, as a copy with a swizzle of 128 bytes leaves it; `first`: its
// element at row 0 of the step along K. Fields, all in units of 16 bytes but the last:
//
//   bits 0-13   where the tile begins               bits 32-45   from 8 rows to the next 8 (`stride`: bytes)
//   bits 16-29  not used with this swizzle          bits 62-63   the swizzle: 1 is 128 bytes
//
// Chunk c of row r, 16 bytes, is at 128 r + 16 (c ^ r % 8). A row is 64 halves, a product takes 16 of them.
__device__ inline Descriptor tile_at(const __half* first, unsigned stride) {
    return (in_shared(first) & 0x3ffff) >> 4 | 1ull << 16 | static_cast<Descriptor>(stride >> 4) << 32 | 1ull << 62;
}

// Before the first product, and after a thread has touched the sums: products see what was done before.
__device__ inline void fence_sums() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Makes a group of the products since the last call.
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until all groups but the newest `Newest` are complete. Until then the tiles are being read, and no thread may
// touch the sums.
template <int Newest>
__device__ inline void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(Newest) : "memory");
}

// d += A B^T: A has 64 rows, B 64 rows, both of 16 halves. By 128 threads together, whose first is a multiple of 128.
// A thread has 32 of the 64 x 64 sums, as warp = threadIdx.x / 32 % 4 and lane = threadIdx.x % 32:
//
//   d[i] is at row 16 warp + lane / 4 + i / 2 % 2 * 8, column i / 4 * 8 + lane % 4 * 2 + i % 2
//
//   columns         0  1 | 2  3 | 4  5 | 6  7 | 8  9 ...
//   row 0, warp 0   d[0]  lane 0 | lane 1 | lane 2 | lane 3 | d[4] lane 0 ...      each lane two neighbours
//   row 8           d[2]  lane 0 | lane 1 | lane 2 | lane 3 | d[6] lane 0 ...
__device__ inline void wgmma_m64n64k16(float (&d)[32], Descriptor a, Descriptor b) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, add, 1, 1, 0, 0;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b));
}

// ---- registers -------------------------------------------------------------------------------------------
//
// By all warps of a warp group, in a kernel with __launch_bounds__(threads, 1): each of its threads has so many registers
// from here on, a multiple of 8 from 24 to 256. What some give up, others can take; taking waits until there are enough.
template <int Count>
__device__ inline void give_up_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(Count)); }

template <int Count>
__device__ inline void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(Count)); }
