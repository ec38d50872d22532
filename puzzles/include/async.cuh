// Copies from global to shared memory that a thread starts and does not wait for.
//
// Start copies with copy_async, close a group of them with __pipeline_commit(), and wait for all but
// the newest n groups with __pipeline_wait_prior(n); both are CUDA's own.
#pragma once
#include <cuda_pipeline.h>

// Starts the copy of the float at `from` (global memory) to `to` (shared memory). Where `exists` is
// false nothing is read, wherever `from` points to, and `to` becomes 0: the number of bytes to read
// is an operand of the instruction, 4 or 0, so there is no branch. (__pipeline_memcpy_async takes the
// number of bytes to fill as well, and branches between two instructions.)
__device__ inline void copy_async(float* to, const float* from, bool exists) {
    unsigned inside = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :: "r"(inside), "l"(from), "r"(exists ? 4 : 0) : "memory");
}
