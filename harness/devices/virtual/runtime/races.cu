// racecheck: two accesses to a byte that nothing orders, one of them a write, not both atomic where they can see each other.
//
// For each granule of 4 bytes there is a Record for each (instruction, kind of access, bytes): groups of lanes that made
// it, with the time of their last synchronising event (see clocks.cu). Where threads are ordered by barriers of whole
// blocks and nothing else, two groups that such a barrier would order alike stand for all others. The first record is in
// the granule's Cell, the second in its Cold, more in the launch's pool.
//
// A write never drops what another instruction has left, so which pairs of lines race does not depend on the order in
// which threads happened to run.

struct Record { u32 key, value, place, stamp, lanes, place2, stamp2, lanes2; };  // place: block * 32 + warp
struct Node { u32 next, unused; Record r; };
// More records. kind: what calm accesses have in common (see is_calm); calm: where their records begin, at the end; most: records
// of one instruction before the ordered ones are dropped.
struct Chain { u32 first, calm, kind, most; };

// A key: the site in 20 bits, which bytes of the granule in 4 (see shape_of), and the kind.
constexpr u32 KEY_SITE = (1u << 20) - 1, KEY_SHAPE = 15u << 20, KEY_WRITE = 1u << 24, KEY_STRONG = 1u << 25;
constexpr u32 KEY_SCOPE = 26, KEY_ATOMIC = 1u << 28;
// What is known of a record's values: all lanes on record have written `value`; whom those without a record did so too for,
// a Past. Only a site's plain stores have such bits.
constexpr u32 KEY_KNOWN = 1u << 31, KEY_PAST = 29, KEY_VALUE = KEY_KNOWN | 3u << KEY_PAST;
// Accesses that are ordered before one on record have no record. If their values differed, equal stores may still race with
// them: by threads of other blocks if a barrier orders them for their own block, and so on.
enum Past { PAST_NONE, PAST_OF_BLOCK, PAST_OF_WARP, PAST_OF_THREAD };
constexpr u32 STRONG = INFO_ATOMIC | INFO_VOLATILE;
constexpr u32 MOST_ALIKE = 32;  // records of one instruction that a granule has, before the ordered ones are dropped
constexpr u32 NODES = 64;  // for which room is taken together
constexpr u32 BROKEN = 1u << 31;  // beside Cell.writer: not every strong write since the first is seen in the last
constexpr u32 CLOSED = 1u << 29;  // instead of it: a plain store has come after all of them

static __device__ __forceinline__ u64* quiet_of(Env* env, u64 address) { return (u64*)(env->quiet + (address & ~3ull) * 2); }
static __device__ __forceinline__ Cell* cell_of(Env* env, u64 address) { return (Cell*)env->cells + (address >> 2); }
static __device__ __forceinline__ Cold* cold_of(Env* env, u64 address) { return (Cold*)env->colds + (address >> 2); }
static __device__ __forceinline__ Record* first_of(Cell* c) { return (Record*)c->record; }
static __device__ __forceinline__ Chain* chain_of(Env* env, Cold* cold) { return (Chain*)pool_at(launch_of(env), cold->chain); }

// What few granules need beside their cell: empty where it has not been used in this interval.
static __device__ Cold* open_cold(Env* env, Cell* c, u64 address) {
    Launch* launch = launch_of(env);
    Cold* cold = cold_of(env, address);
    if (c->more) return cold;
    c->more = 1;
    if (cold->launch != launch->tag) cold->chain = 0;
    cold->launch = launch->tag;
    ((Record*)cold->record)->lanes = 0;
    cold->writer = cold->seer_lane = cold->since = 0;
    Chain* chain = cold->chain ? chain_of(env, cold) : 0;
    if (chain) chain->kind = 0, chain->most = MOST_ALIKE;
    for (u32 at = chain ? chain->first : 0; at;) {
        Node* node = (Node*)pool_at(launch, at);
        node->r.lanes = 0;
        at = node->next;
    }
    return cold;
}

static __device__ __forceinline__ u32 shape_of(u64 address, u32 size) {
    return (size == 1 ? (u32)address & 3 : size == 2 ? 4 + ((u32)address >> 1 & 1) : size == 4 ? 8 : size == 8 ? 9 : 10) << 20;
}

static __device__ __forceinline__ u32 bytes_of(u32 key) {
    u32 shape = key >> 20 & 15;
    return shape >= 8 ? 15 : shape >= 4 ? 3u << 2 * (shape & 1) : 1u << shape;
}

// An access to one granule.
struct Visit { u64 address; u32 key, value, place, bit, stamp, site, info; };

static __device__ __forceinline__ u32 stamp_of(Env* env, Thread* t) { return t->clock > env->bar ? t->clock : env->bar; }
static __device__ __forceinline__ u32 place_of(Env* env, Thread* t) { return (u32)env->block * 32 + t->linear / 32; }
static __device__ __forceinline__ u32 tag_of(Env* env, u64 address) {
    return address >= env->arena_size / 2 ? env->shared_tag : launch_of(env)->tag;
}

static __device__ __forceinline__ void fill(Record* r, u32 key, u32 value, u32 place, u32 bit, u32 stamp) {
    r->key = key; r->value = value; r->place = place; r->lanes = bit; r->stamp = stamp; r->lanes2 = 0;
}

// ---- what orders two accesses ---------------------------------------------------------------------------

// The lanes among those of an earlier access whose access is unordered with what thread `t` does now.
static __device__ u32 unordered(Env* env, Thread* t, u32 place, u32 stamp, u32 lanes) {
    u32 mine = place_of(env, t);
    if (place == mine) lanes &= ~(1u << (t->linear & 31));
    if (!lanes) return 0;
    if (place / 32 == mine / 32) {
        if (stamp < env->bar) {
            if (!env->holes) return 0;
            u32 kept = 0;  // who has left before the barrier took no part in it
            for (u32 i = 0; i < 32; i++) {
                if (!(lanes >> i & 1)) continue;
                u32 hole = extra_of(env, (place & 31) * 32 + i)->hole;
                if (hole && stamp >= hole) kept |= 1u << i;
            }
            lanes = kept;
        }
        if (place == mine && stamp < env->full[place & 31]) return 0;
    }
    u64 clock = known(env, t->linear);
    return clock && lanes ? not_known(env, clock, place, stamp, lanes) : lanes;
}

// Whether two strong accesses see each other: of the same bytes, each in the scope of the other.
static __device__ __forceinline__ int see_each_other(u32 key, u32 other, u32 place, u32 other_place) {
    if (!(key & other & KEY_STRONG) || (key ^ other) & KEY_SHAPE) return 0;
    return reaches(key >> KEY_SCOPE & 3, other >> KEY_SCOPE & 3, place / 32, other_place / 32);
}

// Keep the chain of accesses to a granule in which each strong one sees all writes before, or is ordered after who has.
static __device__ void extend_chain(Env* env, Thread* t, Visit* v, Cell* cell) {
    u32 strong = v->key & KEY_STRONG, write = v->key & KEY_WRITE;
    if (!strong && (!write || !cell->more || !cold_of(env, v->address)->writer)) return;
    Cold* c = open_cold(env, cell, v->address);
    int first = !c->writer, linked = see_each_other(v->key, c->writer & ~BROKEN, v->place, c->writer_place);
    if (write && !(v->key & KEY_ATOMIC)) linked = 0;
    int closed = (c->writer & ~BROKEN) == CLOSED;  // else a strong write would part those before it from who sees this one
    if (!linked && !first && (closed || !strong || !write)) linked = c->seer_lane && !unordered(env, t, c->seer_place, c->seer_stamp, c->seer_lane);
    if (write) {
        u32 broken = first || linked ? c->writer & BROKEN : BROKEN;
        if (closed && strong) c->since = c->writer_place;  // who sees this one has not seen what came before the plain store
        c->writer = broken | (strong ? v->key & ~BROKEN : CLOSED);
        c->writer_place = strong ? v->place : launch_of(env)->now + 1;
    } else if (!linked) return;
    c->seer_place = v->place; c->seer_stamp = v->stamp;
    c->seer_lane = v->info & INFO_BLIND ? 0 : v->bit;
}

// ---- reports --------------------------------------------------------------------------------------------

// One of the two accesses of a race.
struct Side { u32 access, site; u64 block; u32 thread; };

constexpr u32 ACCESS = INFO_WRITE | INFO_ATOMIC;

// The order in which a race names its sides, whichever came first in this schedule: by line, writes before reads, by thread.
static __device__ int before(u32* lines, Side a, Side b) {
    if (lines[a.site] != lines[b.site]) return lines[a.site] < lines[b.site];
    if ((a.access ^ b.access) & ACCESS) return (a.access & ACCESS) == INFO_WRITE || !(b.access & ACCESS);
    return a.block != b.block ? a.block < b.block : a.thread < b.thread;
}

static __device__ u32 kind_of(u32 key) {
    u32 scope = key >> KEY_SCOPE & 3, strong = key & KEY_STRONG;
    return (key & KEY_WRITE ? 1 : 0) | (strong ? 2 | (scope > SCOPE_GPU ? SCOPE_GPU : scope) << 2 : 0);
}

// Note a hazard: two instructions, the bytes they conflict on, in a barrier interval of a block. Returns those that are new.
static __device__ u32 new_bytes(Env* env, u64 address, u32 bytes, u32 key, u32 other, int how) {
    Launch* launch = launch_of(env);
    int shared = address >= env->arena_size / 2;
    u32 interval = shared ? env->bar : 0, a = key & KEY_SITE, b = other & KEY_SITE, x = kind_of(key), y = kind_of(other);
    if (a > b || (a == b && x > y)) {
        u32 swap = a; a = b; b = swap;
        swap = x; x = y; y = swap;
    }
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
        if (how == 2) h->across |= bytes;
        return fresh;
    }
}

// Keep a race, one for each pair of lines; it names the first threads of all. Its hazards are the bytes on which the two
// lines conflict, each counted once in every barrier interval of a block. how: 1 in a warp, 2 between warps or blocks.
static __device__ __noinline__ void race(Env* env, Thread* thread, Visit* v, u32 bytes, u32 other_key, u32 place, u32 lanes, int how) {
    Launch* launch = launch_of(env);
    if (launch->silent || given_up(launch)) return;
    u32 other_access = (other_key & KEY_WRITE ? INFO_WRITE : 0) | (other_key & KEY_ATOMIC ? INFO_ATOMIC : 0) |
                       (other_key >> KEY_SCOPE & 3) << SCOPE_SHIFT;
    u32 other = (place & 31) * 32 + __ffs(lanes) - 1;
    Side a = {v->info, v->site, env->block, thread->linear}, b = {other_access, other_key & KEY_SITE, place / 32, other};
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
    u32 fresh_bytes = new_bytes(env, v->address, bytes, v->key, other_key, how);
    if (fresh_bytes && ++launch->races >= STOP_AFTER_RACES && launch->stop == 0) launch->stop = 1;
    if (i == MAX_RECORDS) return;
    Fault* r = &records[i];
    int fresh = i == launch->kept, names = fresh;
    if (fresh) {
        launch->kept++;
        launch->faults++;
        r->count = 0;
    } else if (kind != r->kind) names = kind == FAULT_RACE;  // between warps is worse than in one
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

// Keep a step of the launch, while there is room.
static __device__ void note_step(Env* env, u32 what, u32 site, u32 thread, u64 address, u32 info, u64 value, u32 serial) {
    Launch* launch = launch_of(env);
    if (launch->steps == launch->steps_end) return;
    Step* s = (Step*)launch->steps;
    s->address = address; s->value = value; s->block = env->block; s->site = site; s->thread = thread; s->what = what;
    s->info = info; s->serial = serial; s->interval = env->bar;
    launch->steps += sizeof(Step);
}

// ---- an access, anyhow -----------------------------------------------------------------------------------

// Strong accesses of one shape that reach all who can come here see each other: there is nothing to be found among them.
// Those of the first such shape are calm. Their records, of which a lock has many, stand at the end of the chain.
constexpr u32 RESTLESS = 1, CALM = 2;

static __device__ __forceinline__ Node* node_at(Env* env, u32 place) { return (Node*)pool_at(launch_of(env), place); }

static __device__ int is_calm(Env* env, Cell* c, Visit* v) {
    int far = v->address < env->arena_size / 2;
    if (!(v->key & KEY_STRONG) || (far && (v->key >> KEY_SCOPE & 3) < SCOPE_GPU)) return 0;
    Cold* cold = open_cold(env, c, v->address);
    if (!cold->chain) return 0;
    Chain* chain = chain_of(env, cold);
    u32 kind = v->key & (KEY_STRONG | KEY_SHAPE);
    if (!chain->kind) chain->kind = kind;
    return chain->kind == kind;
}

// The records of a granule, one after the other: two that may be of any kind, then those of the wanted parts of the chain.
static __device__ __forceinline__ Record* next_record(Env* env, Cell* c, u64 address, Record* r, u32 parts) {
    Cold* cold = cold_of(env, address);
    Record* second = (Record*)cold->record;
    if (r == first_of(c)) return c->more ? second : 0;
    if (!cold->chain) return 0;
    Chain* chain = chain_of(env, cold);
    u32 next = r != second ? ((Node*)((u64)r - 8))->next : parts & RESTLESS ? chain->first : chain->calm;
    return next && (parts & CALM || next != chain->calm) ? &node_at(env, next)->r : 0;
}

// A new record in the chain of a granule. Returns 0 if there is no room.
static __device__ Record* new_record(Env* env, Cold* cold, int calm) {
    Launch* launch = launch_of(env);
    if (!cold->chain) {
        if (!(cold->chain = take(launch, sizeof(Chain)))) return 0;
        Chain* made = chain_of(env, cold);
        made->first = made->calm = made->kind = 0; made->most = MOST_ALIKE;
    }
    if (!launch->nodes_left) {
        launch->nodes = take(launch, NODES * sizeof(Node));
        if (!launch->nodes) return 0;
        launch->nodes_left = NODES;
    }
    Chain* chain = chain_of(env, cold);
    u32 at = launch->nodes, *link = &chain->first;
    launch->nodes += sizeof(Node) / 8;
    launch->nodes_left--;
    if (calm && chain->calm) link = &node_at(env, chain->calm)->next;
    else while (calm && *link) link = &node_at(env, *link)->next;
    if (calm && !chain->calm) chain->calm = at;
    Node* made = node_at(env, at);
    made->next = *link;
    *link = at;
    return &made->r;
}

// Compare an access with one record of its granule.
static __device__ void compare(Env* env, Thread* t, Visit* v, Record* r) {
    u32 bytes = bytes_of(r->key) & bytes_of(v->key);
    if (!bytes || !((r->key | v->key) & KEY_WRITE)) return;
    int strong = (r->key | v->key) & KEY_STRONG;  // two plain stores of one value do no harm
    int alike = !strong && r->key & v->key & KEY_WRITE && r->key & v->key & KEY_KNOWN && r->value == v->value &&
                !((r->key ^ v->key) & KEY_SHAPE);
    u32 past = r->key >> KEY_PAST & 3;
    for (u32 i = 0; i < 2; i++) {
        u32 lanes = i ? r->lanes2 : r->lanes, place = i ? r->place2 : r->place, stamp = i ? r->stamp2 : r->stamp;
        if (!lanes) break;
        if (see_each_other(r->key, v->key, v->place, place)) continue;
        lanes = unordered(env, t, place, stamp, lanes);
        if (!lanes) continue;
        if (alike && past <= (place == v->place ? PAST_OF_WARP : place / 32 == v->place / 32 ? PAST_OF_BLOCK : PAST_NONE)) {
            u32 other = (place & 31) * 32 + __ffs(lanes) - 1;
            if (v->address < env->arena_size / 2)  // harmless, but the same work done twice
                record(env, t, v->site, FAULT_SAME_WRITE, v->address, v->info, r->key & KEY_SITE, other, place / 32);
            continue;
        }
        u32 strong_write = KEY_STRONG | KEY_WRITE;  // who has seen every one of these is ordered after them
        Cold* c = cold_of(env, v->address);
        if ((r->key & strong_write) == strong_write && c->seer_lane && !(c->writer & BROKEN) && stamp >= c->since &&
            !unordered(env, t, c->seer_place, c->seer_stamp, c->seer_lane)) continue;
        race(env, t, v, bytes, r->key, place, lanes, place == v->place ? 1 : 2);
    }
}

// For whom a group of lanes is ordered before what thread `t` does now, where it is for that thread.
static __device__ __forceinline__ u32 past_of(Env* env, Thread* t, u32 place, u32 stamp) {
    u32 mine = place_of(env, t);
    if (place / 32 == mine / 32 && stamp < env->bar) return PAST_OF_BLOCK;
    return place == mine && stamp < env->full[place & 31] ? PAST_OF_WARP : PAST_OF_THREAD;
}

// What a record says of the past once its lanes are forgotten in favour of a store of `value`.
static __device__ __forceinline__ u32 past_with(Record* r, u32 value, u32 past) {
    u32 known = r->key & KEY_KNOWN && r->value == value ? r->key >> KEY_PAST & 3 : PAST_OF_THREAD;
    return known < past ? known : past;
}

static __device__ __forceinline__ u32 with_past(u32 key, u32 past) {
    if (past == PAST_OF_THREAD) return key & ~KEY_VALUE;
    return (key >> KEY_PAST & 3) < past ? (key & ~(3u << KEY_PAST)) | past << KEY_PAST : key;
}

// Forget the lanes of a record that came before this access, by the same instruction, and are ordered before it for every
// thread that comes. Lanes of other warps stay unless a barrier of the block orders them, since a race with them is worse;
// but not beyond so many records: where every thread takes a lock in its turn, the last few tell enough. Returns the Past
// of values that are forgotten.
static __device__ u32 forget(Env* env, Thread* t, Visit* v, Record* r, int all) {
    u32 past = PAST_NONE;
    for (u32 i = 0; i < 2; i++) {
        u32 *lanes = i ? &r->lanes2 : &r->lanes, place = i ? r->place2 : r->place, stamp = i ? r->stamp2 : r->stamp;
        if (!*lanes || !(all || place == v->place || (place / 32 == v->place / 32 && stamp < env->bar))) continue;
        u32 kept = unordered(env, t, place, stamp, *lanes), of = kept == *lanes ? PAST_NONE : past_of(env, t, place, stamp);
        *lanes = kept;
        if (of > past) past = of;
    }
    if (!r->lanes && r->lanes2) {
        r->place = r->place2; r->stamp = r->stamp2; r->lanes = r->lanes2; r->lanes2 = 0;
    }
    return past_with(r, v->value, past);
}

// Whether two groups of a record stand for this access, by a thread of `block`, and all others like it.
static __device__ __forceinline__ int stand_for(Env* env, u64 address, u32 info, u32 block, u32 place, u32 place2) {
    u32 symmetric = launch_of(env)->symmetric;
    if (symmetric & SYMMETRIC_BLOCKS && address < env->arena_size / 2 && place / 32 != place2 / 32) return 1;
    return symmetric & SYMMETRIC_WARPS && !(info & INFO_FINAL) && place / 32 == block && place2 / 32 == block && place != place2;
}

// What is known of the values of a record: a store of another value makes it nothing.
static __device__ __forceinline__ void mix(Record* r, u32 key, u32 value) {
    if (!(key & KEY_KNOWN) || r->value != value) r->key &= ~KEY_VALUE;
}

// Put an access into the cell. Returns whether further ones like it, in this interval, would add nothing.
static __device__ int keep(Env* env, Thread* t, Visit* v, Cell* c, int calm) {
    Record* room = 0;
    u32 block = v->place / 32, alike = 0, most = MOST_ALIKE, past = PAST_NONE;
    Cold* cold = cold_of(env, v->address);
    if (c->more && cold->chain) most = chain_of(env, cold)->most;
    for (Record* r = first_of(c); r; r = next_record(env, c, v->address, r, calm ? CALM : RESTLESS)) {
        if (r->lanes && !((r->key ^ v->key) & ~KEY_VALUE)) {
            alike++;
            int own = r->place == v->place && r->stamp == v->stamp;
            int own2 = r->lanes2 && r->place2 == v->place && r->stamp2 == v->stamp;
            if (own || own2) {
                if (own) r->lanes |= v->bit;
                else r->lanes2 |= v->bit;
                mix(r, v->key, v->value);
                r->key = with_past(r->key, past);
                return r->lanes2 && stand_for(env, v->address, v->info, block, r->place, r->place2);
            }
            int alone = r->place == v->place && r->lanes == v->bit && !r->lanes2;
            u32 forgotten = forget(env, t, v, r, alike > most);
            if (forgotten > past) past = forgotten;
            if (!r->lanes && alone) {  // the thread's own access, once more
                fill(r, with_past(v->key, past), v->value, v->place, v->bit, v->stamp);
                return 0;
            }
            if (r->lanes) {
                mix(r, v->key, v->value);
                r->key = with_past(r->key, past);
                if (r->lanes2 && stand_for(env, v->address, v->info, block, r->place, r->place2)) return 1;
                int both = stand_for(env, v->address, v->info, block, r->place, v->place);
                if (both && r->lanes2 && r->place / 32 == block && r->place2 / 32 != block) both = 0;
                if (both || !r->lanes2) {
                    r->place2 = v->place; r->stamp2 = v->stamp; r->lanes2 = v->bit;
                    return both;
                }
            }
        }
        if (!r->lanes && !room) room = r;
    }
    if (!room && !c->more) room = (Record*)open_cold(env, c, v->address)->record;
    if (!room && alike > most) chain_of(env, cold)->most = 2 * alike;  // it was in vain: less often
    if (!room) room = new_record(env, cold, calm);
    if (room) fill(room, with_past(v->key, past), v->value, v->place, v->bit, v->stamp);
    return 0;
}

static __device__ __forceinline__ u64 quiet_token(Env* env, u32 site) {
    return ((u64)env->bar << 32 | (u64)site << 6) ^ env->noted;
}
// A warp's lanes may add themselves to the first record, which has one of them; as soon as it has two, they need no look.
constexpr u64 QUIET_ONE = 1ull << 31;

static __device__ __forceinline__ u64 quiet_in_warp(Env* env, u32 stamp, u32 site, u32 warp) {
    return ((u64)stamp << 32 | (u64)site << 6 | (warp + 1)) ^ env->noted;
}

static __device__ void visit(Env* env, Thread* t, Visit* v) {
    Cell* c = cell_of(env, v->address);
    u32 tag = tag_of(env, v->address);
    if (c->tag != tag) {
        c->tag = tag; c->more = 0;
        first_of(c)->lanes = 0;
    }
    Extra* e = extra_of(env, t->linear);
    int calm = is_calm(env, c, v);
    if (v->info & INFO_FINAL) e->touched = env->bar;
    for (Record* r = first_of(c); r; r = next_record(env, c, v->address, r, calm ? RESTLESS : RESTLESS | CALM))
        if (r->lanes) compare(env, t, v, r);
    extend_chain(env, t, v, c);
    if (calm && e->kept == v->address && e->kept_key == v->key && e->kept_stamp == v->stamp) return;  // once more
    int enough = keep(env, t, v, c, calm);
    if (calm) {
        e->kept = v->address; e->kept_key = v->key; e->kept_stamp = v->stamp;
        soil(env);
    }
    if (enough && !(v->key & (KEY_WRITE | KEY_STRONG)) && bytes_of(v->key) == 15)
        *quiet_of(env, v->address) = quiet_token(env, v->site);
}

// An access of any size and kind.
// Something else than another lane of the first record's comes to a granule.
static __device__ __forceinline__ void not_only_one(Env* env, u64 address) {
    u64* quiet = quiet_of(env, address);
    if (*quiet & QUIET_ONE) *quiet = 0;
}

static __device__ __noinline__ int race_anyhow(Env* env, Thread* thread, u32 site, u64 address, u32 info, u64 value) {
    Launch* launch = launch_of(env);
    u32 size = info & 255, scope = info >> SCOPE_SHIFT & 3, handed = 0;
    int strong = (info & STRONG) != 0, write = (info & INFO_WRITE) != 0;
    if (strong && write) launch->most_looks = FEW_LOOKS;
    if (launch->ordered && strong && (!write || info & INFO_ATOMIC)) handed = strong_read(env, thread, address, size, info);
    Visit v;
    v.key = (site & KEY_SITE) | (write ? KEY_WRITE : 0) | (strong ? KEY_STRONG | scope << KEY_SCOPE : 0) |
            (info & INFO_ATOMIC ? KEY_ATOMIC : 0) | (info & INFO_VALUE && write ? KEY_KNOWN : 0) | shape_of(address, size);
    v.place = place_of(env, thread); v.bit = 1u << (thread->linear & 31); v.stamp = stamp_of(env, thread);
    v.site = site & KEY_SITE; v.info = info;
    for (u32 at = 0; at < size; at += 4) {
        v.address = address + at;
        not_only_one(env, v.address);
        v.value = info & INFO_VALUE && write ? (u32)(value >> 8 * at) : 0;
        if (size < 4) v.value &= (1u << 8 * size) - 1;
        visit(env, thread, &v);
    }
    if (!launch->ordered || !write) return 0;
    if (strong) strong_write(env, thread, address, size, info, handed);
    else plain_write(env, address, size);
    return 0;
}

// ---- an access, quickly ----------------------------------------------------------------------------------

// A thread does once more what only it has done so far.
static __device__ __noinline__ int repeat(Env* env, Thread* t, Record* r, u32 key, u32 value, u32 stamp) {
    r->key = with_past(key, past_with(r, value, past_of(env, t, r->place, r->stamp)));
    r->stamp = stamp; r->value = value;
    return 1;
}

// Another thread makes a read that is on record. Returns whether it is noted: then others in this interval need no look.
static __device__ __noinline__ int read_on(Env* env, Record* r, u64 address, u32 site, u32 place, u32 bit, u32 stamp) {
    u32 symmetric = env->symmetric;
    if (r->place == place && r->stamp == stamp && !r->lanes2) {  // lanes of a warp read a row
        r->lanes |= bit;
        if (symmetric & SYMMETRIC_LANES) *quiet_of(env, address) = quiet_in_warp(env, stamp, site, place & 31);
        return 1;
    }
    u32 block = place / 32;
    if (!(symmetric & SYMMETRIC_WARPS) || r->place / 32 != block || r->stamp < env->bar) return 0;
    if (!r->lanes2) {
        if (r->place == place) return 0;
        r->place2 = place; r->stamp2 = stamp; r->lanes2 = bit;
    } else if (r->place2 / 32 != block || r->stamp2 < env->bar || r->place == r->place2) return 0;
    *quiet_of(env, address) = quiet_token(env, site);
    return 1;
}

// The quick way of rt_race, where several instructions have touched the granule.
static __device__ __noinline__ int less_quickly(Env* env, Thread* t, u64 address, u32 key, u32 value) {
    Cell* c = cell_of(env, address);
    u32 place = place_of(env, t), bit = 1u << (t->linear & 31), stamp = stamp_of(env, t);
    Record *like = 0, *room = 0;
    Cold* cold = cold_of(env, address);
    not_only_one(env, address);
    for (Record* r = first_of(c); r; r = next_record(env, c, address, r, RESTLESS | CALM)) {
        if (!r->lanes) {
            if (!room && (!c->more || !cold->chain || !chain_of(env, cold)->calm)) room = r;  // which are not for plain ones
            continue;
        }
        int mine = r->place == place && r->lanes == bit && !r->lanes2;
        if ((r->key | key) & (KEY_WRITE | KEY_STRONG) && !mine) return 0;
        if (!((r->key ^ key) & ~KEY_VALUE)) like = r;
    }
    if (!like) {
        if (!room && c->more) return 0;
        fill(room ? room : (Record*)open_cold(env, c, address)->record, key, value, place, bit, stamp);
        return 1;
    }
    if (like->place == place && like->lanes == bit && !like->lanes2) return repeat(env, t, like, key, value, stamp);
    return read_on(env, like, address, key & KEY_SITE, place, bit, stamp);
}

// An atomic update of 4 bytes by the one instruction that has touched the granule so far.
static __device__ __forceinline__ int updated_quickly(Env* env, Thread* t, u32 site, u64 address, u32 info) {
    Cell* c = cell_of(env, address);
    Record* r = first_of(c);
    Cold* cold = cold_of(env, address);
    u32 key = site | 8u << 20 | KEY_WRITE | KEY_STRONG | KEY_ATOMIC | (info >> SCOPE_SHIFT & 3) << KEY_SCOPE;
    u32 place = place_of(env, t), stamp = stamp_of(env, t), bit = 1u << (t->linear & 31);
    if (c->tag != tag_of(env, address) || !c->more || r->key != key || cold->writer != key || cold->chain ||
        ((Record*)cold->record)->lanes) return 0;
    if ((info >> SCOPE_SHIFT & 3) < SCOPE_GPU && cold->writer_place / 32 != place / 32) return 0;
    if (r->place == place && r->stamp == stamp) r->lanes |= bit;
    else if (r->lanes2 && r->place2 == place && r->stamp2 == stamp) r->lanes2 |= bit;
    else if (!r->lanes2 || !stand_for(env, address, info, place / 32, r->place, r->place2)) return 0;
    cold->writer_place = cold->seer_place = place;
    cold->seer_lane = info & INFO_BLIND ? 0 : bit; cold->seer_stamp = stamp;
    return 1;
}

static __device__ __forceinline__ int is_local(Env* env, u64 address) {  // a thread's own
    u64 in_slots = address - env->arena_size / 2;
    return address >= env->arena_size / 2 && (in_slots & (SLOT_BYTES - 1)) >= SHARED_WINDOW;
}

// A thread looks at what others may change: is it what it has found at this place of the program before?
static __device__ void look(Env* env, Thread* t, u32 site, u64 address, u32 size, u32 blind) {
    Extra* e = extra_of(env, t->linear);
    u64 where = env->arena + address, value = size <= 8 ? value_at(where, size) : 0;
    if (e->watched != where || e->watched_site != site || size > 8 || blind) {
        soil(env);
        e->watched = where; e->watched_site = site; e->watched_size = size; e->in_vain = e->patience = 0;
    } else e->in_vain = value == e->seen ? 1 : e->patience ? 2 : 0;
    e->seen = value;
}

// As rt_race, where that does not decide.
static __device__ __noinline__ int race_otherwise(Env* env, Thread* thread, u32 site, u64 address, u32 info, u64 value) {
    if (info & INFO_ATOMIC && env->blind) info |= INFO_BLIND;
    if (env->final) info |= INFO_FINAL;
    u32 kind = info & (255 | STRONG | INFO_FINAL | INFO_WRITE);
    if (kind == (4 | INFO_ATOMIC | INFO_WRITE) && !launch_of(env)->ordered && updated_quickly(env, thread, site & KEY_SITE, address, info)) return 0;
    if (is_local(env, address)) return 0;
    if (info & STRONG) look(env, thread, site, address, info & 255, info & INFO_BLIND);
    return race_anyhow(env, thread, site, address, info, value);
}

EXPORT int rt_race(Env* env, Thread* thread, u32 site, u64 address, u64 info, u64 value);

// Reads that need no look come here too if steps are noted down; what is found is the same.
static __device__ int is_quiet(Env* env, Thread* t, u32 site, u64 address, u32 info) {
    if (info & (INFO_WRITE | STRONG | INFO_FINAL) || env->final) return 0;
    for (u32 at = 0; at < (info & 255); at += 4) {
        u64 *quiet = quiet_of(env, address + at), found = *quiet, in_warp = quiet_in_warp(env, stamp_of(env, t), site, t->linear / 32);
        if (found == (in_warp | QUIET_ONE) && (info & 255) == 4) {  // as compiled code does
            Record* r = first_of(cell_of(env, address));
            u32 lanes = r->lanes | 1u << (t->linear & 31);
            if (lanes != r->lanes) *quiet = in_warp;
            r->lanes = lanes;
        } else if (found != quiet_token(env, site) && found != in_warp) return 0;
    }
    return 1;
}

// As rt_race, where fences order threads, or steps are noted down.
static __device__ __noinline__ int race_carefully(Env* env, Thread* t, u32 site, u64 address, u64 info, u64 value) {
    if (!env->cells || is_local(env, address)) return 0;
    u32 shared = address >= env->arena_size / 2 ? INFO_SHARED : 0, blind = info & INFO_ATOMIC && env->blind ? INFO_BLIND : 0;
    u64 known = info & INFO_VALUE ? value : 0;
    note_step(env, STEP_ACCESS, site, t->linear, address, (u32)info | shared | blind, known, 0);
    if (launch_of(env)->ordered) return race_otherwise(env, t, site, address, (u32)info, value);
    if (is_quiet(env, t, site & KEY_SITE, address, (u32)info)) return 0;
    env->careful = 0;
    rt_race(env, t, site, address, info & ~(u64)INFO_SHARED, value);
    env->careful = 1;
    return 0;
}

// An access. What comes all the time is decided here, in one function without calls, which the compiler would make slow:
// a plain access of 4 bytes to a granule that nobody has touched in this interval, or this thread by this instruction,
// or others of the block by it if it only reads.
EXPORT int rt_race(Env* env, Thread* thread, u32 site, u64 address, u64 info, u64 value) {
    if (info & INFO_SHARED) address += env->shared_base;
    if (env->careful) return race_carefully(env, thread, site, address, info, value);
    if ((info & (255 | STRONG | INFO_FINAL)) == 4 && !env->final) {
        u32* tags = info & INFO_SHARED || address >= env->arena_size / 2 ? &env->shared_tag : &env->global_tag;
        Cell* c = (Cell*)env->cells + (address >> 2);
        Record* r = (Record*)c->record;
        u32 linear = thread->linear, stamp = thread->clock > env->bar ? thread->clock : env->bar;
        u32 place = (u32)env->block * 32 + linear / 32, bit = 1u << (linear & 31);
        u32 key = site & KEY_SITE | 8u << 20 | ((u32)info & INFO_WRITE) << 16 | ((u32)info & INFO_VALUE) << 19;
        if (c->tag != *tags) {
            c->tag = *tags; c->more = 0;
            r->key = key; r->value = (u32)value; r->place = place; r->stamp = stamp; r->lanes = bit; r->lanes2 = 0;
            if (!(info & INFO_WRITE) && env->symmetric & SYMMETRIC_LANES)
                *(u64*)(env->quiet + (address & ~3ull) * 2) = (((u64)stamp << 32 | (u64)(site & KEY_SITE) << 6 | (linear / 32 + 1)) ^ env->noted) | QUIET_ONE;
            return 0;
        }
        if (!c->more && !((r->key ^ key) & ~KEY_VALUE)) {
            if (r->place == place && !r->lanes2) {
                if (r->lanes == bit) {
                    if (r->stamp != stamp && info & INFO_WRITE) return repeat(env, thread, r, key, (u32)value, stamp) - 1;
                    if (r->value != (u32)value) r->key &= ~KEY_VALUE;
                    r->stamp = stamp; r->value = (u32)value;
                    return 0;
                }
                if (!(info & INFO_WRITE) && r->stamp == stamp) {  // lanes of a warp read a row
                    r->lanes |= bit;
                    if (env->symmetric & SYMMETRIC_LANES)
                        *(u64*)(env->quiet + (address & ~3ull) * 2) = ((u64)stamp << 32 | (u64)(site & KEY_SITE) << 6 | (linear / 32 + 1)) ^ env->noted;
                    return 0;
                }
            }
            if (!(info & INFO_WRITE) && read_on(env, r, address, site & KEY_SITE, place, bit, stamp)) return 0;
        } else if (less_quickly(env, thread, address, key, (u32)value)) return 0;
    }
    return race_otherwise(env, thread, site, address, (u32)info, value);
}
