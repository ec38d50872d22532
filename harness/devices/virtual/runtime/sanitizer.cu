// memcheck, initcheck and racecheck: what a checked access calls when the fast path is not sure.
//
// memcheck and initcheck read the shadow (state.py: a byte per 4-byte
// granule); racecheck keeps a Cell per granule: who wrote last, and two different threads that read.

constexpr u32 NOBODY = 0xffffffffu;

static __device__ unsigned char* shadow_of(Env* env, u64 address) { return (unsigned char*)(env->shadow + (address >> 2)); }

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
                record(env, thread, site, FAULT_UNINITIALISED_READ, address + i, info, 0, 0, 0);
                break;  // the thread goes on: the poison that it has read does no harm here
            }
    }
    return 1;
}

// A store of one or two bytes has been allowed: they are written now.
EXPORT int rt_written(Env* env, Thread* thread, u32 site, u64 address, u64 info) {
    if (info & INFO_SHARED) address += env->shared_base;
    unsigned char* shadow = shadow_of(env, address);
    if (*shadow & (PARTIAL | INIT)) return 0;
    u32 bytes = (info & 255) == 1 ? 1 : 3;
    *shadow |= bytes << (4 + (address & 3));
    if (*shadow >> 4 == 15) *shadow |= INIT;
    return 0;
}

// ---- racecheck ------------------------------------------------------------------------------------------

// Whether an access of `thread` and an earlier one of `other` in the same interval are unordered: 0 no, 1 lanes of
// one warp that nothing has brought together since, 2 different warps.
static __device__ int unordered(Thread* thread, u32 other, u32 clock) {
    if (other == NOBODY || other == thread->linear) return 0;
    if (other / 32 != thread->linear / 32) return 2;
    return thread->clock <= clock;
}

static __device__ void race(Env* env, Thread* thread, u32 site, u64 address, u32 info, int how, u32 other_access,
                            u32 other_site, u32 other, u64 other_block) {
    u32 kind = how == 1 ? FAULT_WARP_RACE : FAULT_RACE;
    record(env, thread, site, kind, address, (u64)other_access << 32 | info, other_site, other, other_block);
}

// A store of the value that is there already does no harm, whoever stored it.
static __device__ int same_value(Env* env, u64 address, u32 size, u64 value) {
    u64 host = env->arena + address;
    if (size == 1) return *(unsigned char*)host == (unsigned char)value;
    if (size == 2) return *(unsigned short*)host == (unsigned short)value;
    if (size == 4) return *(u32*)host == (u32)value;
    return *(u64*)host == value;
}

static __device__ void race_granule(Env* env, Thread* t, u32 site, u64 address, u32 info, u32 bytes, int benign) {
    Launch* launch = launch_of(env);
    int shared = address >= env->arena_size / 2;
    Cell* c = (Cell*)env->cells + (address >> 2);
    int write = (info & INFO_WRITE) != 0, atomic = (info & INFO_ATOMIC) != 0, relaxed = info & (INFO_ATOMIC | INFO_VOLATILE);
    int across = !shared && !relaxed && !launch->fenced;  // blocks are ordered by nothing but fences and atomics
    if (benign && write && !shared && c->write_epoch >= launch->first_epoch && c->flags & bytes &&
        (c->writer != t->linear || c->write_block != (u32)env->block))  // harmless, but the same work done twice
        record(env, t, site, FAULT_SAME_WRITE, address, info, c->write_site, c->writer, c->write_block);
    if (c->write_epoch >= launch->first_epoch && c->flags & bytes && !benign) {
        if (c->write_epoch == env->epoch) {
            int both_atomic = atomic && c->flags & INFO_ATOMIC;
            int how = both_atomic ? 0 : unordered(t, c->writer, c->write_clock);
            if (how) race(env, t, site, address, info, how, c->flags & 0xffff, c->write_site, c->writer, env->block);
            else if (!both_atomic && (how = unordered(t, c->writer2, c->write_clock)))
                race(env, t, site, address, info, how, c->flags & 0xffff, c->write_site, c->writer2, env->block);
        } else if (across && c->write_block != (u32)env->block && !(c->flags & (INFO_ATOMIC | INFO_VOLATILE)))
            race(env, t, site, address, info, 2, c->flags & 0xffff, c->write_site, c->writer, c->write_block);
    }
    if (write && c->read_epoch >= launch->first_epoch && c->flags >> 16 & bytes) {
        if (c->read_epoch == env->epoch) {
            int how = unordered(t, c->reader1, c->read1_clock);
            if (how) race(env, t, site, address, info, how, c->flags >> 16, c->read1_site, c->reader1, env->block);
            else if ((how = unordered(t, c->reader2, c->read2_clock)))
                race(env, t, site, address, info, how, c->flags >> 16, c->read2_site, c->reader2, env->block);
        } else if (across && c->read_block != (u32)env->block && !(c->flags >> 16 & INFO_VOLATILE))
            race(env, t, site, address, info, 2, c->flags >> 16, c->read1_site, c->reader1, c->read_block);
    }
    u32 flags = (info & (INFO_WRITE | INFO_ATOMIC | INFO_VOLATILE)) | bytes;
    if (write) {
        c->quiet = 0;
        if (atomic && c->write_epoch == env->epoch && c->flags & INFO_ATOMIC && c->writer != t->linear) {
            c->writer2 = t->linear;
        } else {
            u32 before = c->write_epoch == env->epoch && c->writer == t->linear ? c->flags & 15 : 0;
            c->writer = t->linear; c->writer2 = NOBODY;
            c->flags = (c->flags & 0xffff0000u) | flags | before;
        }
        c->write_epoch = env->epoch; c->write_site = site; c->write_clock = t->clock; c->write_block = (u32)env->block;
    } else if (c->read_epoch != env->epoch) {
        c->read_epoch = env->epoch; c->read_block = (u32)env->block; c->flags = (c->flags & 0xffff) | flags << 16;
        c->reader1 = t->linear; c->read1_site = site; c->read1_clock = t->clock; c->reader2 = NOBODY;
    } else {
        c->flags |= bytes << 16;
        if (c->reader1 == t->linear) { c->read1_site = site; c->read1_clock = t->clock; }
        else {
            c->reader2 = t->linear; c->read2_site = site; c->read2_clock = t->clock;
            if (bytes == 15 && (c->write_epoch < launch->first_epoch || (shared && c->write_epoch != env->epoch)))
                c->quiet = env->epoch;
        }
    }
}

EXPORT int rt_race(Env* env, Thread* thread, u32 site, u64 address, u64 info, u64 value) {
    u32 size = (u32)info & 255;
    if (info & INFO_SHARED) address += env->shared_base;
    u64 in_slots = address - env->arena_size / 2;  // local memory is a thread's own
    if (!env->cells || (address >= env->arena_size / 2 && (in_slots & (SLOT_BYTES - 1)) >= SHARED_WINDOW)) return 0;
    int benign = info & INFO_VALUE && same_value(env, address, size, value);
    for (u32 at = 0; at < size; at += 4) {
        u32 bytes = size >= 4 ? 15 : ((1u << size) - 1) << (address & 3);
        race_granule(env, thread, site, address + at, (u32)info, bytes, benign);
    }
    return 0;
}

EXPORT int rt_uninitialised(Env* env, Thread* thread, u32 site) {
    record(env, thread, site, FAULT_UNINITIALISED_REGISTER, 0, 0, 0, 0, 0);
    return 0;
}

