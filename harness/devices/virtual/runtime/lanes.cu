// Full checks of threads that run as lanes of vectors, where compiled code is not sure (emit/lanes/looks.py).
//
// Such a launch only looks whether anything could be wrong. Then it ends, and single threads run again, which tell what is.

// Whether an access of a lane is allowed, and what it reads has been written.
static __device__ int is_good(Env* env, u64 start, u32 size, u32 need, u64 unread) {
    if (start & (size - 1)) return 0;
    for (u32 i = 0; i < size; i++)
        if (!byte_allowed(env, start + i, need) || !(unread >> i & 1 || byte_written(env, start + i))) return 0;
    return 1;
}

// An access of one lane, of any size. Returns 0 where something may be wrong with it.
static __device__ __noinline__ int look_closer(Env* env, Thread* t, u32 site, u64 address, u32 info, u64 unread) {
    u32 size = info & 255, write = info & INFO_WRITE;
    u64 start = address + (info & INFO_SHARED ? env->shared_base : 0);
    int outside = info & INFO_SHARED && address >= SHARED_WINDOW;
    if (outside || !is_good(env, start, size, write ? WRITE : READ, write ? FULL : unread)) suspect(env, t, SUSPECT_LANES);
    else {
        if (write) rt_written(env, t, site, address, info);
        look_at(env, t, start, info & ~INFO_SHARED);
    }
    return !given_up(launch_of(env));
}

// An access of the lanes in a mask, one after the other. places: host address of their addresses. unread: a bit for each
// byte that does not count. Returns 0 where something may be wrong with one. All lanes have the same stamp: barriers of the
// block and collectives of whole warps alone order them.
EXPORT int rt_look(Env* env, Thread* thread, u32 site, u64 places, u64 mask, u64 info, u64 unread) {
    u32 write = info & INFO_WRITE ? 1 : 0, bits = write ? WRITE : READ | INIT, bar = env->bar;
    u32 stamp = thread->clock > bar ? thread->clock : bar, joins = !write && env->symmetric & SYMMETRIC_LANES;
    u64 words = env->words, shadow = env->shadow, own = (u64)stamp << 24 | thread->linear + 1;
    u64 base = info & INFO_SHARED ? env->shared_base : 0, half = env->arena_size / 2, end = base ? base + SHARED_WINDOW : env->arena_size;
    u32 tag = env->global_tag, flags = write ? WORD_WRITTEN : info & INFO_SEEN ? 0 : WORD_UNSEEN;
    for (u32 left = (u32)mask; left; left &= left - 1) {
        u32 lane = __ffs(left) - 1;
        u64 start = ((u64*)places)[lane] + base, mine = own + lane;
        if (!(start & 3) && start < end && start >= base && (info & 255) == 4) {
            unsigned char* known = (unsigned char*)(shadow + (start >> 2));
            if ((*known & bits) == bits) {
                u64 *at = (u64*)(words + 2 * start), word = *at;
                u32 when = (u32)(word >> 32);
                if (word >> 8 == mine && (!write || !(word & WORD_OTHERS) || word & WORD_WRITTEN)) {
                    if (write) *at = word | WORD_WRITTEN;
                } else if (when < (start >= half ? bar : tag)) *at = mine << 8 | flags;
                else if (joins && when == stamp && !(word & WORD_WROTE)) *at = word | WHO_SEVERAL << 8 | flags;
                else when = FULL;
                if (when != FULL) {
                    if (write) *known |= INIT;
                    continue;
                }
            }
        }
        if (!look_closer(env, thread + lane, site, start - base, (u32)info, unread)) return 0;
    }
    return 1;
}

// The lanes of a warp, all of them, have met in a collective.
EXPORT int rt_meet(Env* env, Thread* warp, u32 site) {
    meet_lanes(env, warp, FULL, site);
    return 0;
}
