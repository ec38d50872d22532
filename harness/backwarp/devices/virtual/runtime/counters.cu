// Counters: which lanes of a warp execute an instruction together, and what their accesses cost.
//
// Threads run one after the other, so what a warp does at once has to be pieced together. Every stretch of
// straight-line code (a segment, see instrument/segments.py) has a key made of its place, the iterations of the loops
// around it and the calls that led to it; the lanes of a warp with the same key execute it together. The first of them
// makes an Entry in the warp's Table, and the others find it; each writes the addresses of its accesses there. A lane
// mostly reaches entries in the order in which an earlier lane made them, so the next one is guessed (Extra::cursor)
// and rarely looked up.

constexpr u32 NO_ADDRESS = 0xffffffffu;  // for a lane that did not take part in an access
constexpr u64 GOLDEN = 0x9e3779b97f4a7c15ull;
constexpr u32 SMALLEST_INDEX = 256;

static __device__ Entry* entry_at(u64 address) { return (Entry*)address; }
static __device__ u32* lanes_of(Entry* e, u32 access) { return (u32*)(e + 1) + 32 * access; }

// ---- what an access costs ----------------------------------------------------------------------------------

// Copy the addresses of the lanes in `mask` in ascending order; returns how many.
static __device__ u32 sorted(u32* out, u32* lanes, u32 mask) {
    u32 n = 0;
    for (; mask; mask &= mask - 1) {
        u32 address = lanes[__ffs(mask) - 1], at = n++;
        while (at && out[at - 1] > address) {
            out[at] = out[at - 1];
            at--;
        }
        out[at] = address;
    }
    return n;
}

// All addresses are multiples of the access size, so two lanes have either the same bytes or none in common.
static __device__ void count_global(Total* total, u32* lanes, u32 mask, u32 size) {
    u32 address[32], n = sorted(address, lanes, mask), distinct = 0, sectors = 0, run = 0, longest = 0;
    for (u32 i = 0; i < n; i++) {
        int fresh = !i || address[i] != address[i - 1];
        distinct += fresh;
        sectors += !i || address[i] / 32 != address[i - 1] / 32;
        run = fresh ? 1 : run + 1;
        if (run > longest) longest = run;
    }
    total->sectors += sectors;
    total->sectors_ideal += (distinct * size + 31) / 32;
    total->serial += longest;
}

// Local memory is interleaved: word i of the 32 lanes of a warp is one row of 128 bytes.
static __device__ void count_local(Total* total, Thread* warp, u32* lanes, u32 mask, u32 size) {
    u32 words = size < 4 ? 1 : size / 4, sectors = 0, active = __popc(mask), seen[128];
    for (; mask; mask &= mask - 1) {
        u32 lane = __ffs(mask) - 1, first = (u32)(lanes[lane] - warp[lane].local) / 4;
        for (u32 w = 0; w < words; w++) {
            u32 sector = (first + w) * 4 + lane / 8, i = 0;
            while (i < sectors && seen[i] != sector) i++;
            if (i == sectors) seen[sectors++] = sector;
        }
    }
    total->sectors += sectors;
    total->sectors_ideal += (active * words * 4 + 31) / 32;
}

// 32 banks of 4 bytes, the lanes in groups whose accesses make up 128 bytes. A group takes as many wavefronts as the
// busiest bank has words to deliver; lanes that want the same word share it.
static __device__ void count_shared(Total* total, u32* lanes, u32 mask, u32 size) {
    u32 words = size < 4 ? 1 : size / 4, together = size < 8 ? 32 : 128 / size;
    for (u32 start = 0; start < 32; start += together) {
        u32 group = mask >> start;
        if (together < 32) group &= (1u << together) - 1;
        if (!group) continue;
        u32 wanted[32][32];  // [which][bank]
        unsigned char count[32];
        for (u32 i = 0; i < 32; i++) count[i] = 0;
        u32 most = 0;
        for (; group; group &= group - 1) {
            u32 first = lanes[start + __ffs(group) - 1] / 4;
            for (u32 word = first; word < first + words; word++) {
                u32 bank = word % 32, i = 0;
                while (i < count[bank] && wanted[i][bank] != word) i++;
                if (i < count[bank]) continue;
                wanted[i][bank] = word;
                count[bank]++;
                if (count[bank] > most) most = count[bank];
            }
        }
        total->wavefronts += most;
        total->wavefronts_ideal++;
    }
}

// How many rounds the atomic operations of one instruction need: the lanes that share an address queue up.
static __device__ u32 most_at_one_address(u32* lanes, u32 mask) {
    u32 address[32], n = sorted(address, lanes, mask), run = 0, longest = 0;
    for (u32 i = 0; i < n; i++) {
        run = i && address[i] == address[i - 1] ? run + 1 : 1;
        if (run > longest) longest = run;
    }
    return longest;
}

static __device__ void keep_request(Env* env, Thread* warp, u32 access, u32 space, u32* lanes, u32 mask) {
    Counting* counting = (Counting*)env->counting;
    if (counting->kept == counting->kept_end) return;
    Request* r = (Request*)counting->kept;
    r->access = access; r->space = space; r->block = (u32)env->block; r->warp = warp->linear / 32;
    for (u32 lane = 0; lane < 32; lane++) r->addresses[lane] = mask >> lane & 1 ? lanes[lane] : NO_ADDRESS;
    counting->kept += sizeof(Request);
}

// Another request of a warp to global memory: does it raise the count of its block's busiest warp?
static __device__ void count_busiest(Env* env, Thread* warp) {
    Table* block = (Table*)env->tables;
    if (++block[warp->linear / 32].requests <= block->most) return;
    block->most++;
    ((Counting*)env->counting)->busiest++;
}

static __device__ void count_access(Env* env, Thread* warp, Access* access, Total* totals, u32* lanes) {
    u32 masks[3] = {0, 0, 0};  // lanes by space: global, shared, local
    for (u32 lane = 0; lane < 32; lane++) {
        if (lanes[lane] == NO_ADDRESS) continue;
        u32 space = access->space;
        if (space == SPACE_GENERIC) {
            u64 inside = lanes[lane] - env->shared_base;
            space = inside < SHARED_WINDOW ? SPACE_SHARED : inside < SLOT_BYTES ? SPACE_LOCAL : SPACE_GLOBAL;
            if (space == SPACE_SHARED) lanes[lane] = (u32)inside;
        }
        masks[space] |= 1u << lane;
    }
    for (u32 space = 0; space < 3; space++) {
        if (!masks[space]) continue;
        Total* total = totals + space;
        total->requests++;
        total->lanes += __popc(masks[space]);
        keep_request(env, warp, access - (Access*)((Counting*)env->counting)->accesses, space, lanes, masks[space]);
        if (space == SPACE_GLOBAL) {
            count_global(total, lanes, masks[space], access->size);
            count_busiest(env, warp);
        } else if (space == SPACE_LOCAL) count_local(total, warp, lanes, masks[space], access->size);
        else {
            count_shared(total, lanes, masks[space], access->size);
            if (access->atomic) total->serial += most_at_one_address(lanes, masks[space]);
        }
    }
}

// ---- entries --------------------------------------------------------------------------------------------------

// No more lanes will join an entry: add it up.
static __device__ void count_entry(Env* env, Thread* warp, Entry* e) {
    Counting* counting = (Counting*)env->counting;
    Segment* s = (Segment*)counting->segments + e->segment;
    Access* accesses = (Access*)counting->accesses + s->first;
    Total* totals = (Total*)counting->totals + 3 * s->first;
    u32 divergent = e->taken && e->taken != e->mask;
    s->warps++;
    s->threads += __popc(e->mask);
    s->overlapped += __popc(e->copying);
    for (u32 i = 0; i < s->accesses; i++) {
        u32* lanes = lanes_of(e, i);
        if (accesses[i].space != SPACE_TARGET) count_access(env, warp, &accesses[i], totals + 3 * i, lanes);
        else
            for (u32 rest = e->mask; rest; rest &= rest - 1)
                divergent |= lanes[__ffs(rest) - 1] != lanes[__ffs(e->mask) - 1];
    }
    s->divergent += divergent;
}

static __device__ void index_entry(Table* t, Entry* e) {
    u32 at = (u32)(e->key * GOLDEN >> 32) & (t->index_size - 1);
    while (((u32*)t->index)[at]) at = (at + 1) & (t->index_size - 1);
    ((u32*)t->index)[at] = (u32)((u64)e - t->base) + 1;
}

static __device__ void build_index(Table* t) {
    t->index_size = SMALLEST_INDEX;
    while (t->index_size < 2 * t->entries) t->index_size *= 2;
    for (u32 i = 0; i < t->index_size; i++) ((u32*)t->index)[i] = 0;
    for (u64 at = t->base; at < t->top; at += entry_at(at)->bytes) index_entry(t, entry_at(at));
}

// The entry with a given key that a lane has not been in yet, or 0.
static __device__ Entry* find_entry(Table* t, u64 key, u32 lane) {
    if (!(t->creators & ~(1u << lane))) return 0;  // only this lane has made any, so it has been in all of them
    if (4 * t->entries >= 3 * t->index_size) build_index(t);
    u32 at = (u32)(key * GOLDEN >> 32) & (t->index_size - 1);
    for (u32 found; (found = ((u32*)t->index)[at]); at = (at + 1) & (t->index_size - 1)) {
        Entry* e = entry_at(t->base + found - 1);
        if (e->key == key && !(e->mask >> lane & 1)) return e;
    }
    return 0;
}

static __device__ void clear_table(Table* t, u64 top) {
    t->top = top;
    t->index_size = t->entries = t->creators = 0;
    entry_at(top)->key = 0;  // nobody's
}

// No room: treat the existing entries as complete. A lane that comes later makes its own entry.
static __device__ void evict(Env* env, Table* t, Thread* warp, u32 lanes) {
    u32 running = 0;
    for (u32 lane = 0; lane < lanes; lane++) {
        running |= (u32)(warp[lane].wait != WAIT_EXITED) << lane;
        extra_of(env, warp[lane].linear)->cursor = t->base;
    }
    for (u64 at = t->base; at < t->top; at += entry_at(at)->bytes) {
        if (running & ~entry_at(at)->mask) ((Counting*)env->counting)->split++;
        count_entry(env, warp, entry_at(at));
    }
    clear_table(t, t->base);
}

// A thread starts a segment whose entry is not the expected one. Returns the entry.
EXPORT u64 rt_count(Env* env, Thread* thread, u32 segment, u64 key) {
    u32 lane = thread->linear & 31;
    Table* t = (Table*)env->tables + thread->linear / 32;
    Entry* e = find_entry(t, key, lane);
    if (!e) {
        u32 bytes = ((Segment*)((Counting*)env->counting)->segments)[segment].bytes;
        if (t->top + bytes + sizeof(Entry) > t->end) {
            u32 lanes = launch_of(env)->threads - (thread->linear - lane);
            evict(env, t, thread - lane, lanes < 32 ? lanes : 32);
        }
        e = entry_at(t->top);
        e->key = key; e->bytes = bytes; e->segment = segment; e->creator = lane;
        e->mask = e->taken = e->copying = 0;
        u32* words = (u32*)(e + 1);
        for (u32 i = 0; i < (bytes - sizeof(Entry)) / 4; i++) words[i] = NO_ADDRESS;
        t->top += bytes;
        t->entries++;
        t->creators |= 1u << lane;
        entry_at(t->top)->key = 0;
        if (t->index_size) index_entry(t, e);
    }
    e->mask |= 1u << lane;
    extra_of(env, thread->linear)->cursor = (u64)e + e->bytes;
    return (u64)e;
}

// ---- tables ----------------------------------------------------------------------------------------------------

// A new block: empty tables.
static __device__ void start_counting(Env* env) {
    u32 n = launch_of(env)->threads;
    for (u32 i = 0; i < n; i++) {
        Table* t = (Table*)env->tables + i / 32;
        if (i % 32 == 0) {
            clear_table(t, t->base);
            t->requests = t->most = 0;
        }
        extra_of(env, i)->cursor = t->base;
        threads_of(env)[i].wait = WAIT_READY;
    }
}

// Lanes that may still reach entries that others have passed: neither those that have ended nor those that wait for
// the whole warp.
static __device__ u32 lanes_on_their_way(Thread* warp, u32 lanes) {
    u32 found = 0, all = lanes < 32 ? (1u << lanes) - 1 : FULL;
    for (u32 lane = 0; lane < lanes; lane++) {
        Thread* t = &warp[lane];
        if (t->wait == WAIT_READY || (t->wait == WAIT_WARP && all & ~t->mask)) found |= 1u << lane;
    }
    return found;
}

// All lanes of a warp have run up to here: add up what is complete, move the rest to the front.
//
// An entry is complete when every lane still under way has been there or at a later one: entries are in the order of
// their creation, and the lane that made this one went on to the later one.
static __device__ void settle(Env* env, u32 warp_number) {
    Table* t = (Table*)env->tables + warp_number;
    if (t->top == t->base) return;
    u32 lanes = launch_of(env)->threads - 32 * warp_number;
    Thread* warp = threads_of(env) + 32 * warp_number;
    if (lanes > 32) lanes = 32;
    u32 coming = lanes_on_their_way(warp, lanes);
    Entry* last = 0;
    if (coming)
        for (u64 at = t->base; at < t->top; at += entry_at(at)->bytes)
            if (!(coming & ~entry_at(at)->mask)) last = entry_at(at);
    u64 kept = t->base;
    u32 entries = 0, creators = 0, bytes;
    for (u64 at = t->base; at < t->top; at += bytes) {
        Entry* e = entry_at(at);
        bytes = e->bytes;
        if (!(coming & ~e->mask) || (e < last && last->mask >> e->creator & 1)) {
            count_entry(env, warp, e);
            continue;
        }
        entries++;
        creators |= 1u << e->creator;
        if (kept != at)
            for (u32 i = 0; i < bytes / 8; i++) ((u64*)kept)[i] = ((u64*)at)[i];
        kept += bytes;
    }
    clear_table(t, kept);
    t->entries = entries;
    t->creators = creators;
    for (u32 lane = 0; lane < lanes; lane++) extra_of(env, warp[lane].linear)->cursor = kept;
}
