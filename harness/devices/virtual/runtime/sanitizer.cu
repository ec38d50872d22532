// memcheck and initcheck: what a checked access calls when the fast path is not sure. Both read the shadow (state.py: a
// byte per 4-byte granule).

constexpr u32 NOBODY = 0xffffffffu;

static __device__ __forceinline__ unsigned char* shadow_of(Env* env, u64 address) { return (unsigned char*)(env->shadow + (address >> 2)); }

// ---- memcheck and initcheck -----------------------------------------------------------------------------

static __device__ int byte_allowed(Env* env, u64 address, u32 need) {
    if (address >= env->arena_size) return 0;
    u32 shadow = *shadow_of(env, address);
    if ((shadow & need) == need) return 1;
    if (!(shadow & PARTIAL) || (need & WRITE && !(shadow & INIT))) return 0;
    return shadow >> (4 + (address & 3)) & 1;
}

static __device__ int byte_written(Env* env, u64 address) {
    u32 shadow = *shadow_of(env, address);
    return shadow & (INIT | PARTIAL) || shadow >> (4 + (address & 3)) & 1;
}

// Where the copy (cp.async) was started that is going to fill a granule of shared memory in which nothing has been
// written; 0: there is none.
static __device__ u32 written_at(Env* env, u64 address);

static __device__ u32 copy_under_way(Env* env, u64 address) {
    if (!env->cells || address < env->arena_size / 2 || *shadow_of(env, address) >> 4) return 0;
    return written_at(env, address);
}

// The slow path of a checked access: is it really wrong, and how? Returns 1 to go on.
EXPORT int rt_check(Env* env, Thread* thread, u64 address, u32 site, u32 info) {
    u32 size = info & 255, need = (!(info & INFO_WRITE) || info & INFO_ATOMIC ? READ : 0) | (info & INFO_WRITE ? WRITE : 0);
    int allowed = !(info & INFO_SHARED) || address < SHARED_WINDOW, readable = allowed;
    if (info & INFO_SHARED) address += env->shared_base;
    for (u32 i = 0; i < size; i++) {
        allowed = allowed && byte_allowed(env, address + i, need);
        readable = readable && byte_allowed(env, address + i, READ);
    }
    if (!allowed) return rt_fault(env, thread, site, readable ? FAULT_READ_ONLY : FAULT_OUT_OF_BOUNDS, address, info);
    if (address & (size - 1)) return rt_fault(env, thread, site, FAULT_MISALIGNED, address, info);
    int local = address >= env->arena_size / 2 && (address & (SLOT_BYTES - 1)) >= LOCAL_START;
    if (launch_of(env)->check_sync && need & READ && !(info & INFO_COPY && local)) {
        for (u32 i = 0; i < size; i++)
            if (!byte_written(env, address + i)) {
                record(env, thread, site, FAULT_UNINITIALISED_READ, address + i, info, copy_under_way(env, address + i), 0, 0);
                break;  // the thread goes on: the poison that it has read does no harm here
            }
    }
    return 1;
}

// An access to a known array is not in it.
EXPORT int rt_outside(Env* env, Thread* thread, u32 site, u64 address, u64 info) {
    if (info & INFO_SHARED) address += env->shared_base;
    return rt_fault(env, thread, site, FAULT_OUT_OF_BOUNDS, address, info);
}

// Something of a local array has been read that is not written. state: a byte for each granule, INIT where it is.
EXPORT int rt_unwritten(Env* env, Thread* thread, u32 site, u64 address, u64 info, u64 state) {
    while (state & INIT) {
        state >>= 8;
        address += 4;
    }
    record(env, thread, site, FAULT_UNINITIALISED_READ, address, info, 0, 0, 0);
    return 0;
}

// A store has been allowed: its bytes are written now.
EXPORT int rt_written(Env* env, Thread* thread, u32 site, u64 address, u64 info) {
    u32 size = (u32)info & 255;
    if (info & INFO_SHARED) address += env->shared_base;
    unsigned char* shadow = shadow_of(env, address);
    for (u32 i = 0; i < size / 4; i++) shadow[i] |= INIT;
    if (size >= 4 || *shadow & (PARTIAL | INIT)) return 0;
    u32 bytes = size == 1 ? 1 : 3;
    *shadow |= bytes << (4 + (address & 3));
    if (*shadow >> 4 == 15) *shadow |= INIT;
    return 0;
}

EXPORT int rt_uninitialised(Env* env, Thread* thread, u32 site) {
    record(env, thread, site, FAULT_UNINITIALISED_REGISTER, 0, 0, 0, 0, 0);
    return 0;
}
