// Reports of racecheck, and the record of a launch.

// One of the two accesses of a race.
struct Side { u32 access, site; u64 block; u32 thread; };

constexpr u32 ACCESS = INFO_WRITE | INFO_ATOMIC;
constexpr u32 SAME_VALUE = 1u << 4;  // in Hazard.kind

// The order in which a race names its two sides, the same in every schedule: by line, writes before reads, by thread.
static __device__ int before(u32* lines, Side a, Side b) {
    if (lines[a.site] != lines[b.site]) return lines[a.site] < lines[b.site];
    if ((a.access ^ b.access) & ACCESS) return (a.access & ACCESS) == INFO_WRITE || !(b.access & ACCESS);
    return a.block != b.block ? a.block < b.block : a.thread < b.thread;
}

static __device__ u32 kind_of(u32 key) {
    u32 scope = key >> KEY_SCOPE & 3, strong = key & KEY_STRONG;
    return (key & KEY_WRITE ? 1 : 0) | (strong ? 2 | (scope > SCOPE_GPU ? SCOPE_GPU : scope) << 2 : 0);
}

// Note a hazard: two instructions and the bytes that they conflict on, in a barrier interval of a block. Returns the bytes
// that are new. fault: see race().
static __device__ u32 new_bytes(Env* env, u64 address, u32 bytes, u32 key, u32 other, u32 fault) {
    Launch* launch = launch_of(env);
    int shared = address >= env->arena_size / 2;
    u32 interval = shared ? env->bar : 0, a = key & KEY_SITE, b = other & KEY_SITE, x = kind_of(key), y = kind_of(other);
    if (a > b || (a == b && x > y)) {
        u32 swap = a; a = b; b = swap;
        swap = x; x = y; y = swap;
    }
    if (fault == FAULT_SAME_VALUE) x |= SAME_VALUE;
    u64 at = address >> 2, hash = (at ^ ((u64)a << 40) ^ ((u64)b << 20) ^ ((u64)interval << 10) ^ x ^ y << 5) * 0x9e3779b97f4a7c15ull;
    Hazard* table = (Hazard*)launch->hazards;
    for (u32 i = (u32)(hash >> 40);; i++) {
        Hazard* h = &table[i & (HAZARDS - 1)];
        if (!h->bytes) {
            if (launch->hazard_count >= HAZARDS / 2) return 0;
            ((u32*)launch->places)[PLACES + PHASES + launch->hazard_count++] = i & (HAZARDS - 1);
            h->address = address & ~3ull; h->block = shared ? env->block : 0; h->interval = interval;
            h->site = a; h->other_site = b; h->kind = x; h->other_kind = y;
        } else if (h->address != (address & ~3ull) || h->interval != interval || h->site != a || h->other_site != b ||
                   h->kind != x || h->other_kind != y || (shared && h->block != env->block)) continue;
        u32 fresh = bytes & ~h->bytes;
        h->bytes |= bytes;
        if (fault == FAULT_RACE) h->across |= bytes;
        return fresh;
    }
}

// Report a race, one for each pair of lines; it names the first threads of the grid. Its hazards are the bytes on which the
// two lines conflict, each counted once in every barrier interval of a block. kind: FAULT_WARP_RACE in a warp, FAULT_RACE
// between warps or blocks, FAULT_SAME_VALUE of two stores of one value.
static __device__ __noinline__ void race(Env* env, Thread* thread, Visit* v, u32 bytes, u32 other_key, u32 place, u32 lanes, u32 kind) {
    Launch* launch = launch_of(env);
    if (launch->silent || given_up(launch)) return;
    u32 other_access = (other_key & KEY_WRITE ? INFO_WRITE : 0) | (other_key & KEY_ATOMIC ? INFO_ATOMIC : 0) |
                       (other_key & KEY_STRONG ? INFO_VOLATILE : 0) | (other_key >> KEY_SCOPE & 3) << SCOPE_SHIFT;
    u32 other = (place & 31) * 32 + __ffs(lanes) - 1;
    if (place & AGENT) other = agent_of(env, other)->thread;  // of another block, that of the like one of this block
    Side a = {v->info, v->site, env->block, thread->linear}, b = {other_access, other_key & KEY_SITE, (place & ~AGENT) / 32, other};
    u32* lines = (u32*)launch->site_lines;
    Fault* records = (Fault*)(launch + 1);
    Side first = before(lines, a, b) ? a : b, last = before(lines, a, b) ? b : a;
    u32 same = kind == FAULT_SAME_VALUE, i = 0;
    for (; i < launch->kept; i++) {
        Fault* r = &records[i];
        if ((same ? r->kind == FAULT_SAME_VALUE : r->kind == FAULT_RACE || r->kind == FAULT_WARP_RACE) && lines[r->site] == lines[last.site] &&
            lines[r->other_site] == lines[first.site] && !((r->extra ^ last.access) & ACCESS) &&
            !((r->extra >> 32 ^ first.access) & ACCESS)) break;
    }
    u32 fresh_bytes = new_bytes(env, v->address, bytes, v->key, other_key, kind);
    if (fresh_bytes && ++launch->races >= STOP_AFTER_RACES && launch->stop == 0) launch->stop = 1;
    if (i == MAX_RECORDS) return;
    Fault* r = &records[i];
    int fresh = i == launch->kept, names = fresh;
    if (fresh) {
        launch->kept++;
        launch->faults++;
        r->count = 0;
    } else if (kind != r->kind) names = kind == FAULT_RACE;  // between warps rather than in one
    else if (last.block != r->block) names = last.block < r->block;
    else if (last.thread != r->thread) names = last.thread < r->thread;
    else if (first.block != r->other_block) names = first.block < r->other_block;
    else if (first.thread != r->other_thread) names = first.thread < r->other_thread;
    else names = v->address < r->address;
    if (names) {
        r->address = v->address; r->extra = (u64)first.access << 32 | last.access; r->slot = env->slot; r->kind = kind;
        r->block = last.block; r->site = last.site; r->thread = last.thread;
        r->other_block = first.block; r->other_site = first.site; r->other_thread = first.thread;
    }
    r->count += __popc(fresh_bytes);
}

// Append a row to the launch's record. When it is full, the launch ends.
EXPORT int rt_record(Env* env, Thread* thread, u32 point, u64 value) {
    Launch* launch = launch_of(env);
    u32 who = thread->linear | (u32)env->block << 10;
    if (!launch->rows || env->block - launch->rows_first >= launch->rows_blocks) return 1;
    if (launch->rows_pair && who != (u32)launch->rows_pair && who != launch->rows_pair >> 32) return 1;
    if (launch->rows == launch->rows_end) {
        launch->stop = GIVEN_UP, env->slice = 1;
        return 1;
    }
    Row* row = (Row*)launch->rows;
    row->point = point; row->who = who; row->value = value;
    launch->rows += sizeof(Row);
    return 1;
}
