// racecheck's first look at a launch: could there be a race at all?
//
// Each granule has one word, the epoch of its last accesses: when, and by whom (FastTrack, Flanagan and Freund 2009).
// Compiled code decides what happens most, that a thread accesses again what it alone has accessed in this interval, or
// reads what several only read. Where the word cannot show that an access is ordered after all that it conflicts with, the
// launch ends and is run again with records (records.cu), which tell a race from what only looks like one. A launch that
// comes to its end has none.
//
// A word: the stamp in its upper half (see stamp_of); below, who (bits 8 to 18), and
// WORD_WRITTEN  the last accesses include a write
// WORD_BEFORE   the block has written here earlier in the launch: for its own threads barriers order that
// WORD_OTHERS   other blocks have read it before; of atomics: have updated it
// WORD_OF_WARP  the warp has written here in this interval, before its last collective
// WORD_UNSEEN   one of the last accesses was not known to find what has been written

constexpr u32 WORD_SHAPE = 15u << 3;  // of atomics, see shape_of
// Who: a thread's number + 1, several lanes of a warp, several warps (all bits), atomics of anybody with one shape, or: each
// byte has a word of its own, in the granule's Cell, which has no other use now (WORD_WRITTEN is set as well).
enum Who { WHO_ATOMIC = WHO_WARP + 32, WHO_BYTES };

static __device__ __forceinline__ u64* word_of(Env* env, u64 address) { return (u64*)(env->words + (address & ~3ull) * 2); }
static __device__ __forceinline__ u32 who_of(u64 word) { return (u32)word >> 8 & WHO_SEVERAL; }
static __device__ __forceinline__ u64 word_with(u32 stamp, u32 who, u32 flags) { return (u64)stamp << 32 | who << 8 | flags; }

// The word after an access; 0: it may be a race. oldest: the time before which everything is ordered for all. write: 0 or
// WORD_WRITTEN. atomic: 0, or the shape of an access that does not race with its like.
static __device__ __forceinline__ u64 word_after(Env* env, Thread* t, u64 word, u32 oldest, u32 write, u32 atomic) {
    u32 when = (u32)(word >> 32), who = who_of(word), flags = (u32)word & 255;
    u32 stamp = stamp_of(env, t), mine = t->linear + 1;
    u32 as_atomic = atomic | WORD_WRITTEN, like = who == WHO_ATOMIC && atomic && (flags & WORD_SHAPE) == atomic;
    if (when < oldest) return atomic ? word_with(stamp, WHO_ATOMIC, as_atomic) : word_with(stamp, mine, write);
    if (when - env->began > env->span) {  // in another block
        if (like && !(flags & WORD_BEFORE)) return word_with(stamp, WHO_ATOMIC, as_atomic | WORD_OTHERS);
        return write | atomic || flags & WORD_WROTE ? 0 : word_with(stamp, mine, WORD_OTHERS);
    }
    u32 others = flags & WORD_OTHERS;
    if (like) return word_with(stamp, WHO_ATOMIC, flags);
    if (others && (write | atomic || who == WHO_ATOMIC)) return 0;
    u32 kept = others | (flags & WORD_WROTE ? WORD_BEFORE : 0);
    if (when < env->bar) return atomic ? word_with(stamp, WHO_ATOMIC, kept | as_atomic) : word_with(stamp, mine, kept | write);
    u32 warp = t->linear / 32, of_warp = who < WHO_WARP ? (who - 1) / 32 == warp : who == WHO_WARP + warp;
    kept = others | (flags & WORD_BEFORE);
    u32 both = flags & (WORD_WRITTEN | WORD_OF_WARP);
    if (of_warp && when < env->full[warp] && !atomic) return word_with(stamp, mine, kept | (both ? WORD_OF_WARP : 0) | write);
    if (who == mine) return word_with(stamp, mine, kept | both | write | (atomic ? WORD_WRITTEN : 0));
    if (write | atomic || who == WHO_ATOMIC || flags & WORD_WRITTEN) return 0;
    u32 last = stamp > when ? stamp : when;
    if (of_warp && !(env->symmetric & SYMMETRIC_LANES)) return word_with(last, WHO_WARP + warp, kept | both);
    return both ? 0 : word_with(last, WHO_SEVERAL, kept);
}

// The same with WORD_UNSEEN; seen: 0 where that is to be set.
static __device__ __forceinline__ u64 next_word(Env* env, Thread* t, u64 word, u32 oldest, u32 write, u32 atomic, u32 seen) {
    u64 next = word_after(env, t, word, oldest, write, atomic);
    if (!next || who_of(next) == WHO_ATOMIC) return next;
    int was = (u32)(word >> 32) >= env->bar && who_of(word) != WHO_ATOMIC && word & WORD_UNSEEN;
    return was || !seen ? next | WORD_UNSEEN : next;
}

// Time before which all accesses are ordered before this one.
static __device__ __forceinline__ u32 oldest_of(Env* env, u64 address) {
    return address >= env->arena_size / 2 ? env->bar : env->global_tag;
}

// An access to some bytes of a granule, or to all where bytes have words of their own. Returns 0 where it may be a race.
static __device__ __noinline__ int look_at_bytes(Env* env, Thread* t, u64 address, u32 bytes, u32 write, u32 atomic) {
    u64 *word = word_of(env, address), *each = (u64*)((Cell*)env->cells + (address >> 2))->record;
    u32 oldest = oldest_of(env, address);
    if ((u32)(*word >> 32) < oldest) *word = 0;
    int apart = who_of(*word) == WHO_BYTES, alike = 1;
    for (u32 i = 0; i < 4; i++) {
        if (!apart) each[i] = *word;
        if (!(bytes >> i & 1)) continue;
        if (!(each[i] = next_word(env, t, each[i], oldest, write, atomic, 0))) return 0;
    }
    for (u32 i = 1; i < 4; i++) alike &= each[i] == each[0];
    *word = alike ? each[0] : word_with(stamp_of(env, t), WHO_BYTES, WORD_WRITTEN);
    return 1;
}

static __device__ void run_with_records(Env* env, Thread* t) {
    suspect(env, t, SUSPECT_RACE);
}

// Any access.
static __device__ __noinline__ int look_at(Env* env, Thread* t, u64 address, u32 info) {
    u32 size = info & 255, write = info & INFO_WRITE ? WORD_WRITTEN : 0, atomic = 0;
    if (info & INFO_FINAL || env->final) extra_of(env, t->linear)->touched = env->bar;
    if (info & STRONG) {
        int far = address < env->arena_size / 2;
        if (far && (info >> SCOPE_SHIFT & 3) < SCOPE_GPU) {
            run_with_records(env, t);
            return 0;
        }
        atomic = (shape_of(address, size) >> 20) + 1 << 3;
    }
    for (u32 at = 0; at < size; at += 4) {
        u64 *word = word_of(env, address + at), next;
        u32 bytes = size == 1 ? 1u << (address & 3) : size == 2 ? 3u << (address & 2) : 15;
        int good = 0;
        if (bytes != 15 || who_of(*word) == WHO_BYTES) good = look_at_bytes(env, t, address + at, bytes, write, atomic);
        else if ((next = next_word(env, t, *word, oldest_of(env, address), write, atomic, info & (INFO_WRITE | INFO_SEEN)))) {
            *word = next;
            good = 1;
        }
        if (!good) {
            run_with_records(env, t);
            return 0;
        }
    }
    return 0;
}
