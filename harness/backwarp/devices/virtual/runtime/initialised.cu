// initcheck: is what a kernel computes with set?
//
// Ordinary code only detects that something unset is read; the launch is then run again with code that follows the
// value (instrument/initialised.py), since merely copying it is not a mistake. In that run every byte of memory has a
// byte that says which of its bits are unset, and every granule a Trace.

static __device__ __forceinline__ unsigned char* shadow_of(Env* env, u64 address) { return (unsigned char*)(env->shadow + (address >> 2)); }
static __device__ __forceinline__ unsigned char* unset_of(Env* env, u64 address) { return (unsigned char*)(env->unset + address); }
static __device__ __forceinline__ Trace* trace_of(Env* env, u64 address) { return (Trace*)env->traces + (address >> 2); }

static __device__ u64 origin(u32 kind, u32 site, u64 address) { return (u64)site << ORIGIN_SITE | (u64)kind << ORIGIN_KIND | address; }

// End the launch, to run it again. why: SUSPECT_*.
static __device__ void suspect(Env* env, Thread* thread, u32 why) {
    Launch* launch = launch_of(env);
    if (!given_up(launch)) launch->suspect = why;
    launch->stop = GIVEN_UP;
    thread->dead = DEAD_FAULT;
}

EXPORT int rt_suspect(Env* env, Thread* thread, u32 site) {
    suspect(env, thread, SUSPECT_UNSET);
    return 0;
}

// Whether a byte has been written, in code that does not follow values. In the last granule of an array, whose bits
// say which of its bytes are written, the highest bit only marks how many bytes there are.
static __device__ int byte_written(Env* env, u64 address) {
    u32 shadow = *shadow_of(env, address);
    return (shadow & (INIT | PARTIAL)) == INIT || shadow >> (4 + (address & 3)) & 1;
}

// Bytes that have been written: 1 or 2 of a granule, or whole granules.
static __device__ __forceinline__ void set_written(Env* env, u64 address, u32 size) {
    unsigned char* shadow = shadow_of(env, address);
    for (u32 i = 0; i < size / 4; i++) shadow[i] |= INIT;
    if (size >= 4) return;
    *shadow |= (size == 1 ? 1 : 3) << (4 + (address & 3));
    if (*shadow >> 4 == 15 && !(*shadow & PARTIAL)) *shadow |= INIT;
}

// Where an unset value that has just been loaded comes from. used: a bit for each byte that counts.
EXPORT u64 rt_unset_loaded(Env* env, Thread* thread, u32 site, u64 address, u64 size, u64 used) {
    u32 i = 0;
    while (i + 1 < size && !(used >> i & 1 && *unset_of(env, address + i))) i++;
    Trace* t = trace_of(env, address + i);
    int copying = (t->origin >> ORIGIN_KIND & 15) == ORIGIN_COPYING && trace_of(env, t->origin & ORIGIN_ADDRESS) == t;
    if (t->origin && !copying) return t->origin;
    return origin(copying ? ORIGIN_COPYING : ORIGIN_MEMORY, site, address + i);
}

// Unset bits have been stored. from: their origin. A Trace describes the first byte of its granule that has any.
EXPORT int rt_unset_stored(Env* env, Thread* thread, u32 site, u64 address, u64 size, u64 from) {
    for (u64 at = address; at < address + size; at++) {
        u32 below = *(u32*)unset_of(env, at & ~3ull) & (1u << 8 * (at & 3)) - 1;
        if (!*unset_of(env, at) || below) continue;
        Trace* t = trace_of(env, at);
        t->origin = from; t->block = env->block; t->site = site; t->thread = thread->linear;
    }
    return 0;
}

// An unset value is used in a way that matters.
EXPORT int rt_unset_used(Env* env, Thread* thread, u32 site, u64 how, u64 from) {
    u32 copied = 0;
    if (((from >> ORIGIN_KIND) & 15) == ORIGIN_COPYING) copied = trace_of(env, from & ORIGIN_ADDRESS)->copy_site;
    record(env, thread, site, FAULT_UNINITIALISED_READ, how, from, copied, 0, 0);
    return 0;
}

// The padding of structs in fresh memory: copying it is no mistake, so it counts as set. which: the first of the launch's
// paddings, and in the lower 16 bits how many.
static __device__ __noinline__ void set_padding(Env* env, u64 address, u64 which) {
    Padding* p = (Padding*)launch_of(env)->paddings + (which >> 16);
    for (Padding* end = p + (which & 0xffff); p < end; p++)
        for (u64 at = address + p->offset, last = at + (u64)p->stride * p->count; at < last; at += p->stride)
            for (u64 i = at; i < at + p->nbytes; i++) {
                if (env->unset) *unset_of(env, i) &= ~p->bits;
                if (p->bits == 255) set_written(env, i, 1);
            }
}

// Fresh memory: nothing in it is set. size: a multiple of 4.
static __device__ void unset_all(Env* env, u64 address, u64 size) {
    for (u64 at = address; at < address + size; at += 4) {
        *(u32*)unset_of(env, at) = FULL;
        trace_of(env, at)->origin = 0;
    }
}
