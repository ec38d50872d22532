// Copies from global to shared memory that a thread starts and does not wait for (cp.async).
#pragma once

// Starts the copy of the float at `from` (global memory) to `to` (shared memory). Where `exists` is
// false nothing is read, wherever `from` points to, and `to` becomes 0: the number of bytes to read
// is an operand of the instruction, 4 or 0, so this is no branch.
__device__ inline void copy_async(float* to, const float* from, bool exists) {
    unsigned inside = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :: "r"(inside), "l"(from), "r"(exists ? 4 : 0) : "memory");
}

// The copies that this thread has started since the last call are a group; there may be none.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all of this thread's groups but the newest `Newest` have arrived.
template <int Newest>
__device__ inline void wait_copies() {
    asm volatile("cp.async.wait_group %0;" :: "n"(Newest) : "memory");
}
