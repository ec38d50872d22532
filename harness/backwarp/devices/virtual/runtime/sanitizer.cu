// memcheck: what a checked access calls when the fast path is not sure. It reads the shadow (abi.py: a byte per 4-byte
// granule).

constexpr u32 NOBODY = 0xffffffffu;

static __device__ int byte_allowed(Env* env, u64 address, u32 need) {
    if (address >= env->arena_size) return 0;
    u32 shadow = *shadow_of(env, address);
    if ((shadow & need) == need) return 1;
    if (!(shadow & PARTIAL) || (need & WRITE && !(shadow & INIT))) return 0;
    return shadow >> (5 + (address & 3)) != 0;
}

// An access outside all arrays may be to shared memory of a block that has ended, or of a rank that no block has. Reports it.
static __device__ int outside(Env* env, Thread* thread, u32 site, u64 address, u32 info) {
    u64 from = address - leader_of(env)->shared_base, inside = from & (SLOT_BYTES - 1);
    int in_slots = launch_of(env)->clustered && from < (u64)launch_of(env)->cluster * SLOT_BYTES;
    u32 kind = FAULT_OUT_OF_BOUNDS;
    Env* owner = owner_of(env, address);
    if (in_slots && inside >= SHARED_WINDOW && inside < LOCAL_START) kind = FAULT_NO_RANK;
    if (in_slots && !owner->running) kind = FAULT_ENDED_BLOCK;
    record(env, thread, site, kind, address, info, 0, 0, owner->block);
    thread->dead = DEAD_FAULT;
    return 0;
}

// The slow path of a checked access: is it really wrong, and how? Returns 1 to continue. unread: a bit for each byte
// that does not count.
EXPORT int rt_check(Env* env, Thread* thread, u64 address, u32 site, u32 info, u64 unread) {
    u32 size = info & 255, need = (!(info & INFO_WRITE) || info & INFO_ATOMIC ? READ : 0) | (info & INFO_WRITE ? WRITE : 0);
    int allowed = !(info & INFO_SHARED) || address < SHARED_WINDOW, readable = allowed, begins = 0;
    if (info & INFO_SHARED) address += env->shared_base;
    for (u32 i = 0; i < size; i++) {
        allowed = allowed && byte_allowed(env, address + i, need);
        readable = readable && byte_allowed(env, address + i, READ);
        if (i == 0) begins = allowed;
    }
    int misaligned = (address & (size - 1)) != 0;
    if (!allowed && readable && launch_of(env)->guarded) {
        suspect(env, thread, SUSPECT_STORED);
        return 0;
    }
    if (!allowed && !(begins && misaligned))
        return readable ? rt_fault(env, thread, site, FAULT_READ_ONLY, address, info) : outside(env, thread, site, address, info);
    if (misaligned) return rt_fault(env, thread, site, FAULT_MISALIGNED, address, info);
    if (launch_of(env)->check_sync && need & READ && !env->unset)
        for (u32 i = 0; i < size; i++)
            if (!(unread >> i & 1) && !byte_written(env, address + i)) return rt_suspect(env, thread, site);
    return 1;
}

// An access meant for a known array is outside it.
EXPORT int rt_outside(Env* env, Thread* thread, u32 site, u64 address, u64 info) {
    if (info & INFO_SHARED) address += env->shared_base;
    return rt_fault(env, thread, site, FAULT_OUT_OF_BOUNDS, address, info);
}

// A store has been allowed: mark its bytes as written.
EXPORT int rt_written(Env* env, Thread* thread, u32 site, u64 address, u64 info) {
    set_written(env, address + (info & INFO_SHARED ? env->shared_base : 0), (u32)info & 255);
    return 0;
}
