// What racecheck remembers of each granule of 4 bytes. A race: two accesses to a byte that nothing orders, at least one of
// them a write, and not both atomic in each other's scope.
//
// A granule has a Record for each (instruction, kind of access, bytes): groups of lanes that made this access, with the time
// of their last synchronising event (see clocks.cu). Where only barriers of whole blocks order threads, two groups stand for
// all others that such a barrier would order alike. The first record is in the granule's Cell, the second in its Cold, any
// others in the launch's pool.
//
// A write never drops another instruction's records, so which pairs of lines race does not depend on the order in which
// threads happened to run.

struct Record { u32 key, value, place, stamp, lanes, place2, stamp2, lanes2; };  // place: block * 32 + warp
struct Node { u32 next, unused; Record r; };
// The other records. kind: what calm accesses have in common (see is_calm); calm: the first of their records, which are at
// the end; most: how many records one instruction may have before the ordered ones are dropped.
struct Chain { u32 first, calm, kind, most; };

// A key: the site in 20 bits, which bytes of the granule in 4 (see shape_of), and the kind.
constexpr u32 KEY_SITE = (1u << 20) - 1, KEY_SHAPE = 15u << 20, KEY_WRITE = 1u << 24, KEY_STRONG = 1u << 25;
constexpr u32 KEY_SCOPE = 26, KEY_ATOMIC = 1u << 28;
// Two plain stores of one value are harmless. KEY_KNOWN: all lanes on record have stored `value`. Stores that are ordered
// before a recorded one are forgotten; if they stored another value, a thread that they are not ordered before still races
// with them, whatever it stores. KEY_PAST says for which threads they are ordered.
constexpr u32 KEY_KNOWN = 1u << 31, KEY_PAST = 29, KEY_VALUE = KEY_KNOWN | 3u << KEY_PAST;
enum Past { PAST_NONE, PAST_OF_BLOCK, PAST_OF_WARP, PAST_OF_THREAD };  // none such; ordered for the block, the warp, the thread
constexpr u32 STRONG = INFO_ATOMIC | INFO_VOLATILE;
constexpr u32 MOST_ALIKE = 32;  // Chain.most, to begin with
constexpr u32 NODES = 64;  // allocated together
constexpr u32 BROKEN = 1u << 31;  // in Cold.writer: a thread that sees the last strong write has not seen all of them
constexpr u32 CLOSED = 1u << 29;  // in its place: a plain store has come after them

static __device__ __forceinline__ Cell* cell_of(Env* env, u64 address) { return (Cell*)env->cells + (address >> 2); }
static __device__ __forceinline__ Cold* cold_of(Env* env, u64 address) { return (Cold*)env->colds + (address >> 2); }
static __device__ __forceinline__ Record* first_of(Cell* c) { return (Record*)c->record; }
static __device__ __forceinline__ Chain* chain_of(Env* env, Cold* cold) { return (Chain*)pool_at(launch_of(env), cold->chain); }

// What only some granules need beside their cell; empty if not yet used in this interval.
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
// A copy or a product under way counts as a thread of another block, see agents.cu: in a place; in the number of a block.
constexpr u32 AGENT = 1u << 31, AGENT_BLOCK = AGENT >> 5;
enum { AGENT_LOAD, AGENT_SOURCE, AGENT_STORE, AGENT_PRODUCT };  // a store's reads and writes are two: the reads end earlier
static __device__ __forceinline__ Agent* agent_of(Env* env, u32 n) { return (Agent*)((Bulks*)env->bulks)->agents + n; }
static __device__ __forceinline__ u32 tag_of(Env* env, u64 address) {
    return address >= env->arena_size / 2 ? env->shared_tag : launch_of(env)->tag;
}

static __device__ __forceinline__ void fill(Record* r, u32 key, u32 value, u32 place, u32 bit, u32 stamp) {
    r->key = key; r->value = value; r->place = place; r->lanes = bit; r->stamp = stamp; r->lanes2 = 0;
}

// ---- what orders two accesses ---------------------------------------------------------------------------

// The lanes, among those of an earlier access, that are not ordered before what thread `t` does now.
static __device__ u32 unordered(Env* env, Thread* t, u32 place, u32 stamp, u32 lanes) {
    u32 mine = place_of(env, t);
    if (place == mine) lanes &= ~(1u << (t->linear & 31));
    if (!lanes) return 0;
    if (place / 32 == mine / 32) {
        if (stamp < env->bar) {
            if (!env->holes) return 0;
            u32 kept = 0;  // threads that left before the barrier took no part in it
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

// Whether two strong accesses are morally strong: of the same bytes, each in the scope of the other.
static __device__ __forceinline__ int see_each_other(Launch* launch, u32 key, u32 other, u32 place, u32 other_place) {
    if (!(key & other & KEY_STRONG) || (key ^ other) & KEY_SHAPE) return 0;
    u32 of = launch->clustered ? ~AGENT : ~0u;  // red.async is an update by its thread's block
    return reaches(launch, key >> KEY_SCOPE & 3, other >> KEY_SCOPE & 3, (place & of) / 32, (other_place & of) / 32);
}

// ---- the records of a granule ----------------------------------------------------------------------------

// Strong accesses of one shape, with a scope that includes every thread that can reach the granule, never race with each
// other. Those of the granule's first such shape are calm: they are not compared with one another. Their records, of which
// a lock has many, are at the end of the chain.
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

// The record after `r`: a granule's first two are of any kind, then come those of the wanted parts of its chain.
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

// A group of lanes is ordered before what thread `t` does now. For which others of its block is it too?
static __device__ __forceinline__ u32 past_of(Env* env, Thread* t, u32 place, u32 stamp) {
    u32 mine = place_of(env, t);
    if (place / 32 == mine / 32 && stamp < env->bar) return PAST_OF_BLOCK;
    return place == mine && stamp < env->full[place & 31] ? PAST_OF_WARP : PAST_OF_THREAD;
}

// What a record's KEY_PAST must be when its lanes, ordered by `past`, are forgotten in favour of a store of `value`.
static __device__ __forceinline__ u32 past_with(Record* r, u32 value, u32 past) {
    u32 known = r->key & KEY_KNOWN && r->value == value ? r->key >> KEY_PAST & 3 : PAST_OF_THREAD;
    return known < past ? known : past;
}

static __device__ __forceinline__ u32 with_past(u32 key, u32 past) {
    if (past == PAST_OF_THREAD) return key & ~KEY_VALUE;
    return (key >> KEY_PAST & 3) < past ? (key & ~(3u << KEY_PAST)) | past << KEY_PAST : key;
}

// Forget a record's lanes that are ordered before this access, by the same instruction: a later access that races with them
// races with this one too. Lanes of other warps stay unless a barrier of the block orders them, since a race with them is
// reported first; but not if there are many records (`all`): where every thread takes a lock in turn, the last few are
// enough. Returns the Past of the values that are forgotten.
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

// Whether two groups of a record represent this access by a thread of `block`, and all others like it.
static __device__ __forceinline__ int stand_for(Env* env, u64 address, u32 info, u32 block, u32 place, u32 place2) {
    u32 symmetric = launch_of(env)->symmetric;
    if (symmetric & SYMMETRIC_BLOCKS && address < env->arena_size / 2 && place / 32 != place2 / 32) return 1;
    return symmetric & SYMMETRIC_WARPS && !(info & INFO_FINAL) && place / 32 == block && place2 / 32 == block && place != place2;
}

// A store joins a record: if its value differs, nothing is known of the values any more.
static __device__ __forceinline__ void mix(Record* r, u32 key, u32 value) {
    if (!(key & KEY_KNOWN) || r->value != value) r->key &= ~KEY_VALUE;
}

// Record an access. Returns whether further ones like it, in this interval, would add nothing.
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
    if (!room && alike > most) chain_of(env, cold)->most = 2 * alike;  // nothing could be dropped: try less often
    if (!room) room = new_record(env, cold, calm);
    if (room) fill(room, with_past(v->key, past), v->value, v->place, v->bit, v->stamp);
    return 0;
}
