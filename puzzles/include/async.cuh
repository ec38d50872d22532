// Copies from global to shared memory that a thread starts and does not wait for (cp.async).
#pragma once

// Starts a copy of the float at `from` (global memory) to `to` (shared memory). If `exists` is false,
// nothing is read, wherever `from` points, and `to` becomes 0. That takes no branch: the number of
// bytes to read, 4 or 0, is an operand of the instruction.
__device__ inline void copy_async(float* to, const float* from, bool exists) {
    unsigned inside = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :: "r"(inside), "l"(from), "r"(exists ? 4 : 0) : "memory");
}

// The same for four neighbours, of which the first `exist` are there, 0 to 4; the others become 0. `to` must be
// aligned to 16 bytes. One copy of 16 bytes where `from` is aligned too (`whole`), else one for each float.
__device__ inline void copy4_async(float* to, const float* from, int exist, bool whole) {
    if (whole) {
        unsigned inside = static_cast<unsigned>(__cvta_generic_to_shared(to));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(inside), "l"(from), "r"(4 * exist) : "memory");
        return;
    }
#pragma unroll 1
    for (int i = 0; i < 4; i++) copy_async(to + i, from + i, i < exist);
}

// Makes a group of the copies that this thread has started since the last call; it may be empty.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all of this thread's groups have arrived, except the newest `Newest`.
template <int Newest>
__device__ inline void wait_copies() {
    asm volatile("cp.async.wait_group %0;" :: "n"(Newest) : "memory");
}
