// memcheck, initcheck and racecheck: what a checked access calls when the fast path is not sure.
//
// memcheck and initcheck read the shadow (state.py: a byte per 4-byte
// granule); racecheck keeps a Cell per granule: who wrote last, and two different threads that read.

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
static __device__ u32 copy_under_way(Env* env, u64 address) {
    if (!env->cells || address < env->arena_size / 2 || *shadow_of(env, address) >> 4) return 0;
    Cell* c = (Cell*)env->cells + (address >> 2);
    return c->write_epoch >= launch_of(env)->first_epoch && c->write_block == (u32)env->block ? c->write_site : 0;
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

// ---- racecheck ------------------------------------------------------------------------------------------
//
// Accesses of one block in one barrier interval are unordered, unless the lanes of a warp have met since, or the
// earlier thread has handed over: by a fence and then an atomic (or volatile) write, which the later thread has read
// atomically. Time is a count of such events (Launch.now).

constexpr u32 NO_THREAD = 0xffffu;
constexpr u32 NOTED = 1u << 31;  // beside an epoch: quiet, but reads come here to be noted down
constexpr u32 STRONG = INFO_ATOMIC | INFO_VOLATILE;  // what may meet without a race

static __device__ __forceinline__ u32 tick(Env* env) { return ++launch_of(env)->now; }  // one worker only

EXPORT int rt_fence(Env* env, Thread* thread, u32 site, u64 blocks) {
    if (blocks) launch_of(env)->fenced = 1;
    extra_of(env, thread->linear)->fence = tick(env);
    return 0;
}

// Whether an access of `thread` and one that `other` made at `time` in the same interval are unordered: 0 no, 1 lanes
// of one warp, 2 different warps.
static __device__ int unordered(Env* env, Thread* thread, u32 other, u32 time) {
    if (other == NO_THREAD || other == thread->linear) return 0;
    if (extra_of(env, other)->released > time && extra_of(env, thread->linear)->acquired > time) return 0;
    if (other / 32 != thread->linear / 32) return 2;
    return thread->clock <= time || threads_of(env)[other].clock <= time;
}

// Two atomic accesses may meet; two volatile ones in global memory, as threads of different blocks meet there.
static __device__ int compatible(u32 a, u32 b, int shared) {
    return a & STRONG && b & STRONG && (!shared || (a | b) & (INFO_ATOMIC | INFO_RELAXED));
}

// What an atomic access hands over to the thread, and from it.
static __device__ void hand_over(Env* env, Thread* thread, Cell* cell, u32 info) {
    Extra* e = extra_of(env, thread->linear);
    int write = (info & INFO_WRITE) != 0;
    if ((!write || info & INFO_ATOMIC) && cell->released > e->acquired) e->acquired = cell->released;
    if (!write) return;
    if (info & INFO_RELEASE) e->fence = tick(env);
    e->released = e->fence;
    if (e->fence > cell->released) cell->released = e->fence;
}

static __device__ __forceinline__ u32* quiet_of(Env* env, u64 address) { return (u32*)(env->quiet + (address & ~3ull)); }

static __device__ __forceinline__ Mark* mark_of(Env* env, u64 address) {
    return (Mark*)(env->cells + (env->arena_size >> 2) * sizeof(Cell)) + (address >> 2);
}

// One of the two accesses of a race.
struct Side { u32 access, site; u64 block; u32 thread; };

constexpr u32 ACCESS = INFO_WRITE | INFO_ATOMIC;

// The order in which a race names its sides, whichever came first in this schedule: by line, writes before reads, by thread.
static __device__ int before(u32* lines, Side a, Side b) {
    if (lines[a.site] != lines[b.site]) return lines[a.site] < lines[b.site];
    if ((a.access ^ b.access) & ACCESS) return (a.access & ACCESS) == INFO_WRITE || !(b.access & ACCESS);
    return a.block != b.block ? a.block < b.block : a.thread < b.thread;
}

// Keep a race, one for each pair of lines; it names the first threads of all. Its hazards are the bytes on which the two
// lines conflict, each counted once in every barrier interval of a block.
static __device__ __noinline__ void race(Env* env, Thread* thread, u32 site, u64 address, u32 info, u32 bytes, int how,
                                         u32 other_access, u32 other_site, u32 other, u64 other_block) {
    Side a = {info, site, env->block, thread->linear}, b = {other_access, other_site, other_block, other};
    Launch* launch = launch_of(env);
    u32* lines = (u32*)launch->site_lines;
    Fault* records = (Fault*)(launch + 1);
    Side first = before(lines, a, b) ? a : b, last = before(lines, a, b) ? b : a;
    u32 kind = how == 1 ? FAULT_WARP_RACE : FAULT_RACE, i = 0;
    for (; i < launch->kept; i++) {
        Fault* r = &records[i];
        if ((r->kind == FAULT_RACE || r->kind == FAULT_WARP_RACE) && lines[r->site] == lines[last.site] &&
            lines[r->other_site] == lines[first.site] && !((r->extra ^ last.access) & ACCESS) &&
            !((r->extra >> 32 ^ first.access) & ACCESS)) break;
    }
    if (++launch->faults >= STOP_AFTER && launch->stop == 0) launch->stop = 1;
    if (i == MAX_RECORDS) return;
    Fault* r = &records[i];
    int fresh = i == launch->kept, names = fresh;
    if (fresh) {
        launch->kept++;
        r->count = 0;
    } else if (kind != r->kind) names = kind == FAULT_RACE;  // between warps is worse than in one
    else if (last.block != r->block) names = last.block < r->block;
    else if (last.thread != r->thread) names = last.thread < r->thread;
    else if (first.block != r->other_block) names = first.block < r->other_block;
    else if (first.thread != r->other_thread) names = first.thread < r->other_thread;
    else names = address < r->address;
    if (names) {
        r->address = address; r->extra = (u64)first.access << 32 | last.access; r->slot = env->slot; r->kind = kind;
        r->block = last.block; r->site = last.site; r->thread = last.thread;
        r->other_block = first.block; r->other_site = first.site; r->other_thread = first.thread;
    }
    Mark* m = mark_of(env, address);
    if (m->epoch != env->epoch) {
        m->epoch = env->epoch; m->first_writer = NOBODY; m->counted = 0;
    }
    u64 now = i < 16 ? (u64)bytes << 4 * i & ~m->counted : bytes;
    if (i < 16) m->counted |= now;
    r->count += __popcll(now);
}

// A store of the value that is there already does no harm, whoever stored it.
static __device__ int same_value(Env* env, u64 address, u32 size, u64 value) {
    u64 host = env->arena + address;
    if (size == 1) return *(unsigned char*)host == (unsigned char)value;
    if (size == 2) return *(unsigned short*)host == (unsigned short)value;
    if (size == 4) return *(u32*)host == (u32)value;
    return *(u64*)host == value;
}

static __device__ void note_read(Env* env, Thread* t, u32 site, u64 address, u32 info, u32 bytes, int shared, Cell* c) {
    Launch* launch = launch_of(env);
    u32 strength = info & (INFO_VOLATILE | INFO_RELAXED);
    if (c->read_epoch != env->epoch) {
        c->read_epoch = env->epoch; c->read_block = (u32)env->block; c->flags = (c->flags & 0xffff) | (strength | bytes) << 16;
        c->reader1 = t->linear; c->read1_site = site; c->read1_time = launch->now; c->reader2 = NO_THREAD;
        return;
    }
    c->flags |= bytes << 16;
    if (c->reader1 == t->linear) {
        if (strength && !(c->flags >> 16 & STRONG)) return;  // the weaker access is the one to keep
        if (c->read1_site != site && (c->reader2 == NO_THREAD || c->reader2 == t->linear)) {  // room for another line
            c->reader2 = t->linear; c->read2_site = c->read1_site; c->read2_time = c->read1_time;
            c->read2_flags = c->flags >> 16 & (INFO_VOLATILE | INFO_RELAXED);
        }
        c->read1_site = site; c->read1_time = launch->now;
        c->flags = (c->flags & 0x000fffff) | strength << 16;
        return;
    }
    if (strength && c->reader2 != NO_THREAD && c->reader2 != c->reader1 && !(c->read2_flags & STRONG)) return;
    c->reader2 = t->linear; c->read2_site = site; c->read2_time = launch->now; c->read2_flags = strength;
    int written = c->write_epoch >= launch->first_epoch && !(shared && c->write_epoch != env->epoch);
    if (bytes == 15 && !written && !strength && !(c->flags >> 16 & STRONG))
        *quiet_of(env, address) = launch->steps_end ? env->epoch | NOTED : env->epoch;
}

// A thread writes again, in another place: what it wrote first is remembered, unless something may have ordered it since.
static __device__ __noinline__ void first_write(Env* env, u64 address, Cell* c) {
    Mark* m = mark_of(env, address);
    if (m->epoch != env->epoch) m->counted = 0;
    else if (m->first_writer == c->writer && c->write_time == launch_of(env)->now) return;
    m->epoch = env->epoch;
    m->first_writer = c->write_time == launch_of(env)->now ? c->writer : NOBODY;
    m->first_site = c->write_site;
}

static __device__ __noinline__ void race_with_write(Env* env, Thread* t, u32 site, u64 address, u32 info, u32 bytes,
                                                   int how, Cell* c, u32 writer) {
    bytes &= c->flags;
    race(env, t, site, address, info, bytes, how, c->flags & 0xffff, c->write_site, writer, c->write_block);
    Mark* m = mark_of(env, address);
    if (m->epoch == c->write_epoch && m->first_writer == writer)
        race(env, t, site, address, info, bytes, how, c->flags & 0xffff, m->first_site, writer, c->write_block);
}

static __device__ __noinline__ void race_with_reads(Env* env, Thread* t, u32 site, u64 address, u32 info, u32 bytes,
                                                   int how1, int how2, Cell* c) {
    u32 access = c->flags >> 16;
    bytes &= access;
    if (how1) race(env, t, site, address, info, bytes, how1, access, c->read1_site, c->reader1, c->read_block);
    if (how2) race(env, t, site, address, info, bytes, how2, c->read2_flags, c->read2_site, c->reader2, c->read_block);
}

// A plain access of 4 bytes that can meet nobody: its granule has not been written, or not been touched. Returns whether it is one.
static __device__ __forceinline__ int alone(Env* env, Thread* t, u32 site, u64 address, u32 info) {
    Launch* launch = launch_of(env);
    Cell* c = (Cell*)env->cells + (address >> 2);
    u32 epoch = env->epoch, since = address >= env->arena_size / 2 ? epoch : launch->first_epoch;
    if (c->write_epoch >= since) return 0;
    if (info & INFO_WRITE) {
        if (c->read_epoch >= since) return 0;
        *quiet_of(env, address) = 0;
        c->writer = t->linear; c->writer2 = NO_THREAD; c->flags = (c->flags & 0xffff0000u) | INFO_WRITE | 15;
        c->write_epoch = epoch; c->write_site = site; c->write_time = launch->now; c->write_block = (u32)env->block;
    } else if (c->read_epoch != epoch) {
        c->flags = (c->flags & 0xffff) | 15 << 16; c->reader1 = t->linear; c->reader2 = NO_THREAD;
        c->read_epoch = epoch; c->read1_site = site; c->read1_time = launch->now; c->read_block = (u32)env->block;
    } else {
        if (c->reader1 == t->linear || c->reader2 != NO_THREAD || c->flags >> 16 & STRONG) return 0;
        c->flags |= 15 << 16; c->reader2 = t->linear; c->read2_flags = 0;
        c->read2_site = site; c->read2_time = launch->now;
        *quiet_of(env, address) = epoch;
    }
    return 1;
}

// An atomic update of 4 bytes that is only updated atomically in this interval, by this instruction or by other threads.
static __device__ __forceinline__ int one_of_many(Env* env, Thread* t, u32 site, u64 address, u32 info) {
    Launch* launch = launch_of(env);
    Cell* c = (Cell*)env->cells + (address >> 2);
    u32 epoch = env->epoch, since = address >= env->arena_size / 2 ? epoch : launch->first_epoch;
    if (c->write_epoch != epoch || !(c->flags & INFO_ATOMIC) || c->read_epoch >= since) return 0;
    int own = c->writer == t->linear;
    if (own && c->write_site != site) return 0;
    hand_over(env, t, c, info);
    c->writer2 = own ? NO_THREAD : t->linear;
    c->write_site = site; c->write_time = launch->now; c->write_block = (u32)env->block;
    return 1;
}

static __device__ __noinline__ void race_granule(Env* env, Thread* t, u32 site, u64 address, u32 info, u32 bytes, int benign) {
    Launch* launch = launch_of(env);
    int shared = address >= env->arena_size / 2;
    Cell* c = (Cell*)env->cells + (address >> 2);
    int write = (info & INFO_WRITE) != 0, atomic = (info & INFO_ATOMIC) != 0;
    if (!(info & INFO_WRITE) && (*quiet_of(env, address) & ~NOTED) == env->epoch) return;
    int across = !shared && !(info & STRONG) && !launch->fenced;  // blocks are ordered by nothing but fences and atomics
    if (benign && write && !shared && c->write_epoch >= launch->first_epoch && c->flags & bytes &&
        (c->writer != t->linear || c->write_block != (u32)env->block))  // harmless, but the same work done twice
        record(env, t, site, FAULT_SAME_WRITE, address, info, c->write_site, c->writer, c->write_block);
    if (c->write_epoch >= launch->first_epoch && c->flags & bytes && !benign) {
        if (c->write_epoch == env->epoch) {
            if (!compatible(info, c->flags, shared)) {
                int how = unordered(env, t, c->writer, c->write_time), second = !how;
                if (second) how = unordered(env, t, c->writer2, c->write_time);
                if (how) race_with_write(env, t, site, address, info, bytes, how, c, second ? c->writer2 : c->writer);
            }
        } else if (across && c->write_block != (u32)env->block && !(c->flags & STRONG))
            race_with_write(env, t, site, address, info, bytes, 2, c, c->writer);
    }
    if (write && c->read_epoch >= launch->first_epoch && c->flags >> 16 & bytes) {
        if (c->read_epoch == env->epoch) {
            int how1 = compatible(info, c->flags >> 16, shared) ? 0 : unordered(env, t, c->reader1, c->read1_time);
            int how2 = compatible(info, c->read2_flags, shared) ? 0 : unordered(env, t, c->reader2, c->read2_time);
            if (how1 || how2) race_with_reads(env, t, site, address, info, bytes, how1, how2, c);
        } else if (across && c->read_block != (u32)env->block) {
            int how1 = c->flags >> 16 & STRONG ? 0 : 2, how2 = c->reader2 == NO_THREAD || c->read2_flags & STRONG ? 0 : 2;
            if (how1 || how2) race_with_reads(env, t, site, address, info, bytes, how1, how2, c);
        }
    }
    if (info & STRONG) hand_over(env, t, c, info);
    if (!write) return note_read(env, t, site, address, info, bytes, shared, c);
    *quiet_of(env, address) = 0;
    if (atomic && c->write_epoch == env->epoch && c->flags & INFO_ATOMIC && c->writer != t->linear) {
        c->writer2 = t->linear;
    } else {
        int again = c->write_epoch == env->epoch && c->writer == t->linear;
        u32 before = again ? c->flags & 15 : 0;
        if (again && c->write_site != site) first_write(env, address, c);
        c->writer = t->linear; c->writer2 = NO_THREAD;
        c->flags = (c->flags & 0xffff0000u) | (info & (INFO_WRITE | STRONG | INFO_RELAXED)) | bytes | before;
    }
    c->write_epoch = env->epoch; c->write_site = site; c->write_time = launch->now; c->write_block = (u32)env->block;
}

// Keep a step of the launch, while there is room. info: of the access, 0 for a barrier.
static __device__ void note_step(Env* env, u32 site, u32 thread, u64 address, u32 info) {
    Launch* launch = launch_of(env);
    if (launch->steps == launch->steps_end) return;
    Step* s = (Step*)launch->steps;
    s->address = address; s->block = env->block; s->site = site; s->thread = thread; s->epoch = env->epoch; s->info = info;
    launch->steps += sizeof(Step);
}

// An access of any size and kind.
static __device__ __noinline__ int race_anyhow(Env* env, Thread* thread, u32 site, u64 address, u64 info, u64 value) {
    u32 size = (u32)info & 255;
    u64 in_slots = address - env->arena_size / 2;  // local memory is a thread's own
    if (!env->cells || (address >= env->arena_size / 2 && (in_slots & (SLOT_BYTES - 1)) >= SHARED_WINDOW)) return 0;
    note_step(env, site, thread->linear, address, (u32)info);
    int benign = info & INFO_VALUE && same_value(env, address, size, value);
    for (u32 at = 0; at < size; at += 4) {
        u32 bytes = size >= 4 ? 15 : ((1u << size) - 1) << (address & 3);
        race_granule(env, thread, site, address + at, (u32)info, bytes, benign);
    }
    return 0;
}

EXPORT int rt_race(Env* env, Thread* thread, u32 site, u64 address, u64 info, u64 value) {
    if (info & INFO_SHARED) address += env->shared_base;
    u32 kind = (u32)info & ~(INFO_WRITE | INFO_SHARED | INFO_VALUE);
    if (!launch_of(env)->steps_end) {
        if (kind == 4 && alone(env, thread, site, address, (u32)info)) return 0;
        if (kind == (4 | INFO_ATOMIC) && one_of_many(env, thread, site, address, (u32)info)) return 0;
    }
    return race_anyhow(env, thread, site, address, info, value);
}

EXPORT int rt_uninitialised(Env* env, Thread* thread, u32 site) {
    record(env, thread, site, FAULT_UNINITIALISED_REGISTER, 0, 0, 0, 0, 0);
    return 0;
}

