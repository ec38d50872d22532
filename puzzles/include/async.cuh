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

// Makes a group of the copies that this thread has started since the last call; it may be empty.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all of this thread's groups have arrived, except the newest `Newest`.
template <int Newest>
__device__ inline void wait_copies() {
    asm volatile("cp.async.wait_group %0;" :: "n"(Newest) : "memory");
}
