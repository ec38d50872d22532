// Vector clocks: which accesses of other threads happened before what a thread does now (PTX ISA, memory consistency
// model).
//
// Time counts synchronising events (Launch.now). A thread knows of an access if it knows of a later event in which the
// access's thread took part. A barrier of the whole block and a collective of a whole warp need one number each (Env.bar,
// Env.full). Everything else is a Clock: an immutable, sorted list of (who, event) that all threads with the same knowledge
// share. Where thousands of threads take one lock, each learns of all before it, so a long clock is stored as its
// difference from another one, its base (a place in the pool). maker: the event at which a thread made this clock to hand
// it on.

struct Tick { u64 who; u32 tick, whole; };  // whole: the clock holds all that `who` knew at that event
struct Clock { u32 count, base; Tick maker, ticks[1]; };

constexpr u32 LONG = 128;  // ticks: a shorter clock is not worth a base, a longer difference is not worth having one

// What a thread knew when it executed a fence. clock: the snapshot, made when it is first needed.
struct Fence { u64 known, clock; u32 bar, full, tick, scope; };

constexpr u32 WARP_ID = 0x400, THREAD_ID = 0x800;  // who: block << 12, alone or with one of these and a number

static __device__ __forceinline__ u32 tick(Env* env) { return ++launch_of(env)->now; }  // one worker only

// Allocate in the launch's pool. Returns the place, in units of 8 bytes; 0 when none is left.
static __device__ u32 take(Launch* launch, u64 bytes) {
    u64 at = launch->pool_used, end = at + ((bytes + 7) & ~7ull);
    if (end > launch->pool_size) {
        launch->silent = 1;  // from here on a race cannot be distinguished from ordered accesses
        return 0;
    }
    launch->pool_used = end;
    return (u32)(at >> 3);
}

static __device__ __forceinline__ u64 pool_at(Launch* launch, u32 place) { return launch->pool + 8ull * place; }

// ---- clocks -----------------------------------------------------------------------------------------------

static __device__ __forceinline__ Clock* base_of(Env* env, Clock* clock) {
    return clock->base ? (Clock*)pool_at(launch_of(env), clock->base) : 0;
}

// The index of the first tick of `who` or of any after it, without the base.
static __device__ u32 place_in(Clock* clock, u64 who) {
    u32 low = 0, high = clock->count;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (clock->ticks[middle].who < who) low = middle + 1;
        else high = middle;
    }
    return low;
}

static __device__ u32 find_tick(Env* env, Clock* clock, u64 who) {
    u32 found = 0;
    for (; clock; clock = base_of(env, clock)) {
        u32 i = place_in(clock, who);
        if (i < clock->count && clock->ticks[i].who == who && clock->ticks[i].tick > found) found = clock->ticks[i].tick;
    }
    return found;
}

// Whether a clock is seen, from its ticks, to hold all that a thread knew at an event.
static __device__ int has_all(Env* env, Clock* clock, u64 who, u32 tick) {
    for (; clock && tick; clock = base_of(env, clock)) {
        u32 i = place_in(clock, who);
        if (i < clock->count && clock->ticks[i].who == who && clock->ticks[i].tick >= tick && clock->ticks[i].whole) return 1;
    }
    return 0;
}

static __device__ __forceinline__ int includes(Env* env, Clock* clock, Clock* other) {
    return has_all(env, clock, other->maker.who, other->maker.tick);
}

// The ticks of two clocks in one, without those of this block up to event `upto`. from_x, from_y: the result equals that
// clock.
static __device__ Clock* merged(Env* env, Clock* x, Clock* y, u32 upto, u32* from_x, u32* from_y) {
    Launch* launch = launch_of(env);
    u32 place = take(launch, sizeof(Clock) + 16ull * (x->count + y->count));
    if (!place) return 0;
    Clock* made = (Clock*)pool_at(launch, place);
    u32 i = 0, k = 0, n = 0;
    *from_x = *from_y = 1;
    while (i < x->count || k < y->count) {
        Tick t;
        int left = k == y->count || (i < x->count && x->ticks[i].who <= y->ticks[k].who);
        if (left && k < y->count && x->ticks[i].who == y->ticks[k].who) {
            t = x->ticks[i];
            if (y->ticks[k].tick > t.tick) t = y->ticks[k], *from_x = 0;
            else if (y->ticks[k].tick < t.tick) *from_y = 0;
            i++; k++;
        } else if (left) t = x->ticks[i++], *from_y = 0;
        else t = y->ticks[k++], *from_x = 0;
        if (t.who >> 12 == env->block && t.tick <= upto) continue;
        made->ticks[n++] = t;
    }
    made->count = n; made->base = made->maker.tick = 0;
    launch->pool_used = (u64)&made->ticks[n] - launch->pool;
    return made;
}

// The same clock without a base.
static __device__ Clock* flat(Env* env, Clock* clock) {
    u32 from_x, from_y;
    return clock->base ? merged(env, clock, base_of(env, clock), 0, &from_x, &from_y) : clock;
}

// Everything that either of two clocks holds. upto: the last event of this block that all its threads know anyway.
static __device__ u64 unite(Env* env, u64 a, u64 b, u32 upto) {
    if (a == b || !b) return a;
    if (!a) return b;
    Clock *x = (Clock*)a, *y = (Clock*)b;
    Launch* launch = launch_of(env);
    u64 before = launch->pool_used;
    u32 base = x->base == y->base ? x->base : 0, from_x, from_y;
    if (!base && (x = flat(env, x))) y = flat(env, y);
    Clock* made = x && y ? merged(env, x, y, upto, &from_x, &from_y) : 0;
    if (!made) return a;
    made->base = base;
    if (!from_x && !from_y && made->count) return (u64)made;
    launch->pool_used = before;  // nothing new
    return made->count ? from_x ? a : b : base ? pool_at(launch, base) : 0;
}

// The same for clocks that threads have handed on: if one thread has learned from the other, there is nothing to do.
static __device__ u64 merge(Env* env, u64 a, u64 b, u32 upto) {
    if (a && b && includes(env, (Clock*)a, (Clock*)b)) return a;
    return a && b && includes(env, (Clock*)b, (Clock*)a) ? b : unite(env, a, b, upto);
}

static __device__ __forceinline__ u32 latest(Env* env) { return env->holes ? 0 : env->bar; }
static __device__ u64 join(Env* env, u64 a, u64 b) { return merge(env, a, b, latest(env)); }

static __device__ __forceinline__ u64 known(Env* env, u32 thread) { return env->clocks ? extra_of(env, thread)->known : 0; }

// The next block in this slot, which may have fewer threads, must forget what the threads of this one know.
static __device__ __forceinline__ void soil(Env* env) { env->dirty = launch_of(env)->threads; }

// A thread is about to know something that no barrier accounts for.
static __device__ void begin_clocks(Env* env) {
    for (u32 i = 0; i < launch_of(env)->threads && !env->clocks; i++) extra_of(env, i)->known = 0;
    env->clocks = 1;
    soil(env);
}

static __device__ void learn(Env* env, u32 thread, u64 clock) {
    if (!clock) return;
    begin_clocks(env);
    Extra* e = extra_of(env, thread);
    e->known = join(env, e->known, clock);
}

// A clock under construction, of at most so many ticks; `seal` returns the unused rest to the pool.
static __device__ Clock* new_clock(Env* env, u32 most) {
    u32 place = take(launch_of(env), sizeof(Clock) + 16ull * most);
    if (!place) return 0;
    Clock* made = (Clock*)pool_at(launch_of(env), place);
    made->count = made->base = made->maker.tick = 0;
    return made;
}

static __device__ __forceinline__ void add_tick(Clock* clock, u64 who, u32 tick, u32 whole) {
    Tick* t = &clock->ticks[clock->count++];
    t->who = who; t->tick = tick; t->whole = whole;
}

static __device__ u64 seal(Env* env, Clock* clock) {
    launch_of(env)->pool_used = (u64)&clock->ticks[clock->count] - launch_of(env)->pool;
    return (u64)clock;
}

// All that a thread knew at its event `now`, when the last barrier was `bar` and its warp's last collective `full`.
static __device__ u64 snapshot(Env* env, u32 thread, u64 known, u32 bar, u32 full, u32 now) {
    u64 block = env->block << 12;
    u32 n = launch_of(env)->threads;
    Clock* own = new_clock(env, env->holes ? n + 2 : 3);
    if (!own) return known;
    if (!env->holes) add_tick(own, block, bar, 0);
    if (full > bar) add_tick(own, block | WARP_ID | thread / 32, full, 0);
    for (u32 i = 0; i < n && env->holes; i++) {  // threads that have left took no part in the last barrier
        u32 hole = extra_of(env, i)->hole;
        add_tick(own, block | THREAD_ID | i, i == thread ? now : hole && hole < bar ? hole : bar, i == thread);
    }
    if (!env->holes) add_tick(own, block | THREAD_ID | thread, now, 1);
    seal(env, own);
    Clock* all = (Clock*)known;
    if (all && (all->base || all->count >= LONG)) {
        own->base = all->base ? all->base : (u32)((known - launch_of(env)->pool) >> 3);
        all = all->base ? (Clock*)unite(env, (u64)own, known, 0) : own;
        if (all->count > LONG) all = flat(env, all);
        if (!all) return known;
    } else all = (Clock*)unite(env, (u64)own, known, 0);
    all->maker.who = block | THREAD_ID | thread; all->maker.tick = now;
    return (u64)all;
}

// A thread hands on what it knows, and learns nothing.
static __device__ u64 give(Env* env, Thread* thread) {
    u32 now = tick(env);
    u64 clock = snapshot(env, thread->linear, known(env, thread->linear), env->bar, env->full[thread->linear / 32], now);
    thread->clock = now;
    return clock;
}

// ---- barriers and collectives -----------------------------------------------------------------------------

// A thread that a fault has ended counts as taking part in all that follows: without the fault it would have, and that it
// does not is no further mistake.
// The lanes that a fault has ended.
static __device__ u32 faulted_lanes(Thread* warp, u32 lanes) {
    u32 found = 0;
    for (u32 lane = 0; lane < 32; lane++)
        if (lanes >> lane & 1 && warp[lane].dead & DEAD_FAULT) found |= 1u << lane;
    return found;
}

// What fences hand on from threads that arrive at a barrier to those that wait there, those of a thread from FIRST_PASSED on: of kind
// sc and any scope, or the GPU's at least; fence.proxy.async of shared memory, and of global memory. And a list of what the former have
// read, which fences of the latter acquire.
constexpr u32 FENCES = 6, FIRST_PASSED = 2, PASSED = 4, NEAR = 0, FAR = 1, PROXY = 4;
struct Passed { u64 clocks[PASSED]; u32 observed, unused; };

static __device__ __forceinline__ Passed* arrived_fences(Env* env, u32 number) {
    return (Passed*)env->arrived_fences + (number & 15);
}

static __device__ __forceinline__ void clear(Passed* p) {
    for (u32 k = 0; k < PASSED; k++) p->clocks[k] = 0;
    p->observed = p->unused = 0;
}

static __device__ __forceinline__ int passes(const Passed* p) {
    u64 any = p->observed;
    for (u32 k = 0; k < PASSED; k++) any |= p->clocks[k];
    return any != 0;
}
static __device__ void pass_fences(Env* env, u32 thread, Passed* on);
static __device__ void take_fences(Env* env, Thread* thread, const Passed* from);

// A block starts: its threads know of no other.
static __device__ void start_block(Env* env) {
    Launch* launch = launch_of(env);
    for (u32 i = 0; i < env->dirty; i++) {
        Extra* e = extra_of(env, i);
        e->known = e->watched = e->kept = 0; e->pending = e->observed = e->hole = e->in_vain = 0;
        for (u32 k = 0; k < FENCES; k++) ((Fence*)e->fences)[k].tick = 0;
    }
    env->clocks = env->holes = env->dirty = 0;
    env->ordered = launch->ordered || launch->clustered;
    env->epochs = launch->epochs;
    env->fresh_global = launch->epochs ? launch->tag : 0;
    env->global_tag = launch->tag; env->symmetric = launch->symmetric;
    env->bar = env->began = env->shared_tag = tick(env);
    ((Bulks*)env->bulks)->agent_count = 0;
    if (launch->clustered) env->shared_tag = leader_of(env)->shared_tag;  // barriers of one block do not order the others
    env->fresh_shared = launch->epochs ? env->bar : 0;
    env->span = launch->slots > 1 ? 0 : FULL >> 1;  // the times of blocks that take turns overlap
    for (u32 i = 0; i < 16; i++) env->arrived_clock[i] = 0, clear(arrived_fences(env, i));
}

// A thread has ended. Later barriers do not order what it did since the last one.
static __device__ void leave(Env* env, Thread* thread) {
    Extra* e = extra_of(env, thread->linear);
    if (e->touched != env->bar || e->hole || thread->dead & DEAD_FAULT) return;
    e->hole = env->bar;
    env->holes++;
    soil(env);
}

static __device__ void share_fences(Env* env, u32* lanes, u32 now);

// A barrier of all threads of the block that have not ended.
static __device__ void meet_all(Env* env) {
    Launch* launch = launch_of(env);
    Thread* threads = threads_of(env);
    u32 now = tick(env), n = launch->threads;
    if (launch->ordered) {
        u32 sets[MAX_THREADS / 32];
        for (u32 w = 0; w < MAX_THREADS / 32; w++) sets[w] = 0;
        for (u32 i = 0; i < n; i++) sets[i / 32] |= (u32)(threads[i].wait != WAIT_EXITED) << (i & 31);
        share_fences(env, sets, now);
    }
    for (u32 w = 0; w < n && env->holes; w += 32) {
        u32 lanes = n - w < 32 ? n - w : 32, alive = 0;
        for (u32 i = 0; i < lanes; i++) alive |= threads[w + i].wait != WAIT_EXITED;
        for (u32 i = 0; i < lanes && alive; i++) {  // all know now what the rest of its warp knew of it
            Extra* e = extra_of(env, w + i);
            if (e->hole && e->hole < env->full[w / 32]) e->hole = env->full[w / 32];
        }
    }
    if (env->clocks) {
        u64 all = 0;
        for (u32 i = 0; i < n; i++)
            if (threads[i].wait != WAIT_EXITED) all = join(env, all, extra_of(env, i)->known);
        int news = env->holes != 0;
        for (Clock* c = (Clock*)all; c; c = base_of(env, c))
            for (u32 i = 0; i < c->count; i++) news |= c->ticks[i].who >> 12 != env->block;
        if (!news) all = 0;  // the barrier itself implies it
        env->clocks = all != 0;
        for (u32 i = 0; i < n; i++)
            if (threads[i].wait != WAIT_EXITED) extra_of(env, i)->known = all;
    }
    env->bar = now;
    if (!env->span) env->began = now;
    if (env->epochs) env->fresh_shared = now;
    if (env->holes && env->epochs) suspect(env, threads, SUSPECT_RACE);
    // what an agent does, no barrier orders; and what has been stored in earlier intervals may still need a fence
    if (!env->holes && !(launch->symmetric & ASYNCHRONOUS)) env->shared_tag = now;
}

// Some threads of the block meet: of each warp those in `lanes[warp]`. given: what others have handed to them.
static __device__ void meet(Env* env, u32* lanes, u64 given) {
    Launch* launch = launch_of(env);
    Thread* threads = threads_of(env);
    u32 now = tick(env), n = launch->threads, count = 0;
    u64 all = given, block = env->block << 12;
    for (u32 i = 0; i < n; i++) {
        if (!(lanes[i / 32] >> (i & 31) & 1)) continue;
        all = join(env, all, known(env, i));
        count++;
    }
    if (launch->ordered) share_fences(env, lanes, now);
    Clock* own = new_clock(env, count);
    if (!own) return;
    for (u32 i = 0; i < n; i++)
        if (lanes[i / 32] >> (i & 31) & 1) add_tick(own, block | THREAD_ID | i, now, 1);
    all = unite(env, seal(env, own), all, latest(env));
    begin_clocks(env);
    for (u32 i = 0; i < n; i++) {
        if (!(lanes[i / 32] >> (i & 31) & 1)) continue;
        extra_of(env, i)->known = all;
        threads[i].clock = now;
    }
}

// A thread arrives at a barrier without waiting.
static __device__ void arrive_at(Env* env, Thread* thread, u32 number) {
    env->arrived_clock[number] = merge(env, env->arrived_clock[number], give(env, thread), 0);
    if (launch_of(env)->ordered) pass_fences(env, thread->linear, arrived_fences(env, number));
}

// The threads at a barrier meet, and are not all threads of the block. warp: only those of this one, or NOBODY.
static __device__ void meet_waiting(Env* env, u32 number, u32 warp) {
    u32 sets[MAX_THREADS / 32];
    Thread* threads = threads_of(env);
    for (u32 w = 0; w < MAX_THREADS / 32; w++) sets[w] = 0;
    for (u32 i = 0; i < launch_of(env)->threads; i++)
        if (warp != NOBODY && warp != i / 32) continue;
        else if (threads[i].wait == WAIT_BARRIER ? threads[i].mask == number : threads[i].dead & DEAD_FAULT)
            sets[i / 32] |= 1u << (i & 31);
    meet(env, sets, env->arrived_clock[number & 15]);
    env->arrived_clock[number & 15] = 0;
    for (u32 i = 0; i < launch_of(env)->threads && launch_of(env)->ordered; i++)
        if (sets[i / 32] >> (i & 31) & 1) take_fences(env, threads + i, arrived_fences(env, number));
    clear(arrived_fences(env, number));
}

// Lanes of one warp meet in a collective.
static __device__ void meet_lanes(Env* env, Thread* warp, u32 present) {
    Launch* launch = launch_of(env);
    u32 first = warp->linear, lanes = launch->threads - first < 32 ? launch->threads - first : 32;
    u32 everybody = lanes < 32 ? (1u << lanes) - 1 : FULL;
    present |= faulted_lanes(warp, everybody);
    u32 sets[MAX_THREADS / 32];
    for (u32 w = 0; w < MAX_THREADS / 32 && (launch->ordered || present != everybody); w++) sets[w] = 0;
    sets[first / 32] = present;
    if (present != everybody) return meet(env, sets, 0);
    u32 now = tick(env);
    if (launch->ordered) share_fences(env, sets, now);
    u64 all = 0;
    for (u32 i = 0; i < lanes; i++) {
        warp[i].clock = now;
        all = join(env, all, known(env, first + i));
    }
    env->full[first / 32] = now;
    for (u32 i = 0; i < lanes && all; i++) extra_of(env, first + i)->known = all;
}

// The lanes among `lanes` whose accesses at time `stamp` a clock does not know of.
static __device__ __noinline__ u32 not_known(Env* env, u64 clock, u32 place, u32 stamp, u32 lanes) {
    u64 block = (u64)(place >> 5) << 12, first = block | THREAD_ID | (place & 31) * 32;
    if (stamp < find_tick(env, (Clock*)clock, block) || stamp < find_tick(env, (Clock*)clock, block | WARP_ID | (place & 31))) return 0;
    for (Clock* c = (Clock*)clock; c; c = base_of(env, c))
        for (u32 i = place_in(c, first); i < c->count && c->ticks[i].who < first + 32; i++)
            if (stamp < c->ticks[i].tick) lanes &= ~(1u << (c->ticks[i].who - first));
    return lanes;
}
