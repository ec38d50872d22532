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

// The granules of one lane's access from `start`, which is aligned and allowed if all have these bits. Returns 0 where the words
// do not show that nothing is wrong.
template <bool write>
static __device__ __forceinline__ int look_quickly(u64 words, u64 shadow, u64 start, u32 size, u64 mine, u32 oldest, u32 flags, u32 joined, u32 bits, u32 bar, u32 full) {
    for (u64 at = start; at < start + size; at += 4) {
        unsigned char* known = (unsigned char*)(shadow + (at >> 2));
        u64 *place = (u64*)(words + 2 * at), word = *place;
        u32 when = (u32)(word >> 32);
        if ((*known & bits) != bits) return 0;
        if (when < oldest) *place = mine << 8 | flags;
        else if (word >> 8 == mine) {
            if (write && (word & (WORD_OTHERS | WORD_WRITTEN)) == WORD_OTHERS) return 0;
            if (write) *place = word | WORD_WRITTEN;
        } else if (!write && when == joined && !(word & WORD_WROTE)) *place = word | WHO_SEVERAL << 8 | flags;
        else if (!write && joined == FULL && when >= bar && !(word & WORD_WROTE)) {  // as word_after
            u32 who = who_of(word), warp = (((u32)mine & WHO_SEVERAL) - 1) / 32, stamp = (u32)(mine >> 24);
            int of_warp = who < WHO_WARP ? (who - 1) / 32 == warp : who == WHO_WARP + warp;
            u32 kept = (u32)word & (WORD_OTHERS | WORD_UNSEEN) | flags;
            if (of_warp && when < full) *place = mine << 8 | kept;
            else *place = word_with(stamp > when ? stamp : when, of_warp ? WHO_WARP + warp : WHO_SEVERAL, kept);
        } else return 0;
        if (write) *known |= INIT;
    }
    return 1;
}

// rt_look for reads, or writes. joined: the time in which threads that only read may do so together.
template <bool write>
static __device__ __forceinline__ int look_at_lanes(Env* env, Thread* thread, u32 site, u64* places, u32 mask, u32 info, u64 unread, u32 count) {
    u32 size = info & 255, bits = write ? WRITE : READ | INIT, bar = env->bar, tag = env->global_tag;
    u32 stamp = thread->clock > bar ? thread->clock : bar, joined = env->symmetric & SYMMETRIC_LANES ? stamp : FULL;
    u32 flags = write ? WORD_WRITTEN : info & INFO_SEEN ? 0 : WORD_UNSEEN, odd = size < 4 ? FULL : size - 1;
    u64 words = env->words, shadow = env->shadow, mine = (u64)stamp << 24 | thread->linear + 1, half = env->arena_size / 2;
    u32 full = env->full[thread->linear / 32];  // when its warp has last met
    u64 base = info & INFO_SHARED ? env->shared_base : 0, end = (base ? base + SHARED_WINDOW : env->arena_size) - size;
    for (; mask; mask >>= 1, places++, mine++, thread++) {
        if (!(mask & 1)) continue;
        u64 start = *places + base;
        for (u32 left = count; left; left--, start += size) {
            int quick = !((u32)start & odd) && start <= end && start >= base;
            if (quick && look_quickly<write>(words, shadow, start, size, mine, start >= half ? bar : tag, flags, joined, bits, bar, full)) continue;
            if (!look_closer(env, thread, site, start - base, info, unread)) return 0;
        }
    }
    return 1;
}

// Accesses of the lanes in a mask, one lane after the other. places: host address of their addresses. unread: a bit for each
// byte that does not count. count: how many accesses of each lane, one behind the other. Returns 0 where something may be wrong
// with one. All lanes have the same stamp: barriers of the block and collectives of whole warps alone order them.
EXPORT int rt_look(Env* env, Thread* thread, u32 site, u64 places, u64 mask, u64 info, u64 unread, u64 count) {
    if (info & INFO_WRITE) return look_at_lanes<true>(env, thread, site, (u64*)places, (u32)mask, (u32)info, unread, (u32)count);
    return look_at_lanes<false>(env, thread, site, (u64*)places, (u32)mask, (u32)info, unread, (u32)count);
}

// cp.async of the lanes in a mask (see emit/lanes/copies.py). entry: host address of where each copies from (64 bits), and behind
// them to (32 bits, in the window) and how many bytes are read (32 bits). A copy may arrive at once: nobody may use the place any
// more when it is started. lands: it arrives now, at a wait. Returns 0 where something may be wrong.
EXPORT int rt_look_copies(Env* env, Thread* thread, u32 site, u64 entry, u64 mask, u64 size, u64 width, u64 lands) {
    u64* from = (u64*)entry;
    u32 *to = (u32*)(entry + 8 * width), *bytes = (u32*)(entry + 12 * width), write = (u32)size | INFO_WRITE | INFO_SHARED;
    for (u32 lane = 0; lane < width; lane++) {
        if (!(mask >> lane & 1)) continue;
        u64 start = to[lane];
        if (lands) {
            if (bytes[lane] & 3) suspect(env, thread, SUSPECT_LANES);
            for (u32 k = 0; k < bytes[lane]; k += 4) {
                u64 at = from[lane] + k, place = (u64)&at;
                if ((*shadow_of(env, at) & (READ | WRITE | INIT)) == (READ | INIT)) continue;  // nobody may write it
                if (!look_at_lanes<false>(env, thread + lane, site, (u64*)place, 1, 4 | INFO_SEEN, 0, 1)) return 0;
            }
        }
        if (!look_at_lanes<true>(env, thread + lane, site, &start, 1, write, FULL, 1)) return 0;
        unsigned char* shadow = shadow_of(env, env->shared_base + start);
        for (u32 k = 0; k < size >> 2 && !lands; k++) shadow[k] &= READ | WRITE;
    }
    return !given_up(launch_of(env));
}

// The lanes of a warp, all of them, have met in a collective. As meet_lanes: nothing but that and barriers orders threads here.
EXPORT int rt_meet(Env* env, Thread* warp, u32 site) {
    u32 now = tick(env);
    for (u32 i = 0; i < 32; i++) warp[i].clock = now;
    env->full[warp->linear / 32] = now;
    return 0;
}
