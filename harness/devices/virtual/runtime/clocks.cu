// What a thread knows of others, beyond barriers of its block and collectives of its warp: clocks, and what release and
// acquire hand on (PTX ISA, section 8: memory consistency model).
//
// Time counts synchronising events (Launch.now). An access is known to a thread if the thread knows of an event that its
// owner took part in afterwards. Barriers of a block and collectives of a whole warp are one number each (Env.bar,
// Env.full); everything else is a Clock: an immutable, sorted list of (who, event), shared by all who know the same. Where
// thousands have taken a lock each learns of all before, so that a long one is written as another, its base (a place in the
// pool), and what came to that. maker: of what one thread gives away, that event.

struct Tick { u64 who; u32 tick, whole; };  // whole: the clock has all that its owner knew then
struct Clock { u32 count, base; Tick maker, ticks[1]; };

constexpr u32 LONG = 128;  // ticks; less is not worth a base, and no more come to one

// What a thread knew when it executed a fence. clock: the snapshot, once it has been needed.
struct Fence { u64 known, clock; u32 bar, full, tick, unused; };

constexpr u32 WARP_ID = 0x400, THREAD_ID = 0x800;  // who: block << 12, or that and one of these and a number

static __device__ __forceinline__ u32 tick(Env* env) { return ++launch_of(env)->now; }  // one worker only

// Room in the launch's pool: its place, in units of 8 bytes; 0 when there is none left.
static __device__ u32 take(Launch* launch, u64 bytes) {
    u64 at = launch->pool_used, end = at + ((bytes + 7) & ~7ull);
    if (end > launch->pool_size) {
        launch->silent = 1;  // from here on races cannot be told from what is ordered
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

// Where the ticks of `who` and those after begin, base apart.
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

// Whether a clock has all that a thread knew at an event, as far as that can be told from its ticks.
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

// The ticks of two clocks in one, but not what it has of this block up to an event. from_x, from_y: it is the same as one.
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

// Everything that either of two clocks knows. upto: of its own block's events, the last that every thread knows anyhow.
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

// The same of what threads knew at some time: where one has learned from the other, there is nothing to do.
static __device__ u64 merge(Env* env, u64 a, u64 b, u32 upto) {
    if (a && b && includes(env, (Clock*)a, (Clock*)b)) return a;
    return a && b && includes(env, (Clock*)b, (Clock*)a) ? b : unite(env, a, b, upto);
}

static __device__ __forceinline__ u32 latest(Env* env) { return env->holes ? 0 : env->bar; }
static __device__ u64 join(Env* env, u64 a, u64 b) { return merge(env, a, b, latest(env)); }

static __device__ __forceinline__ u64 known(Env* env, u32 thread) { return env->clocks ? extra_of(env, thread)->known : 0; }

// The next block in this place, which may be smaller, has to forget what the threads of this one know.
static __device__ __forceinline__ void soil(Env* env) { env->dirty = launch_of(env)->threads; }

// Somebody is going to know what no barrier tells.
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

// A clock of up to 1024 entries that is being written; `seal` gives what has not been needed back.
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

// All that a thread knew when its last event was `now`, the barrier before it `bar` and the collective of its warp `full`.
static __device__ u64 snapshot(Env* env, u32 thread, u64 known, u32 bar, u32 full, u32 now) {
    u64 block = env->block << 12;
    u32 n = launch_of(env)->threads;
    Clock* own = new_clock(env, env->holes ? n + 2 : 3);
    if (!own) return known;
    if (!env->holes) add_tick(own, block, bar, 0);
    if (full > bar) add_tick(own, block | WARP_ID | thread / 32, full, 0);
    for (u32 i = 0; i < n && env->holes; i++) {  // who has left earlier took no part in the last barrier
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

// A thread gives what it knows, and learns nothing.
static __device__ u64 give(Env* env, Thread* thread) {
    u32 now = tick(env);
    u64 clock = snapshot(env, thread->linear, known(env, thread->linear), env->bar, env->full[thread->linear / 32], now);
    thread->clock = now;
    return clock;
}

// ---- who meets --------------------------------------------------------------------------------------------

static __device__ void note_step(Env* env, u32 what, u32 site, u32 thread, u64 address, u32 info, u64 value, u32 serial);

// A block starts: its threads know of nobody.
static __device__ void start_block(Env* env) {
    Launch* launch = launch_of(env);
    for (u32 i = 0; i < env->dirty; i++) {
        Extra* e = extra_of(env, i);
        e->known = e->watched = e->kept = 0; e->pending = e->hole = e->in_vain = 0;
        ((Fence*)e->fences)[0].tick = ((Fence*)e->fences)[1].tick = 0;
    }
    env->clocks = env->holes = env->dirty = 0;
    env->careful = launch->ordered || launch->steps_end;
    env->noted = launch->steps_end ? 63 : 0;
    env->global_tag = launch->tag; env->symmetric = launch->symmetric;
    env->bar = env->shared_tag = tick(env);
    for (u32 i = 0; i < 16; i++) env->arrived_clock[i] = 0;
    note_step(env, STEP_START, 0, NO_THREAD, 0, 0, 0, env->bar);
}

// A thread has ended. What it did since the last barrier, those to come do not order.
static __device__ void leave(Env* env, Thread* thread) {
    Extra* e = extra_of(env, thread->linear);
    if (e->touched != env->bar || e->hole) return;
    e->hole = env->bar;
    env->holes++;
    soil(env);
}

// A barrier of all threads of the block that have not ended.
static __device__ void meet_all(Env* env, u32 site, u32 number) {
    Launch* launch = launch_of(env);
    Thread* threads = threads_of(env);
    u32 now = tick(env), n = launch->threads;
    for (u32 i = 0; i < n && launch->steps_end; i++)
        if (threads[i].wait != WAIT_EXITED) note_step(env, STEP_BARRIER, site, i, number, 0, 0, now);
    for (u32 w = 0; w < n && env->holes; w += 32) {
        u32 lanes = n - w < 32 ? n - w : 32, alive = 0;
        for (u32 i = 0; i < lanes; i++) alive |= threads[w + i].wait != WAIT_EXITED;
        for (u32 i = 0; i < lanes && alive; i++) {  // what the rest of its warp knows of it, all know now
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
        if (!news) all = 0;  // the barrier itself says as much
        env->clocks = all != 0;
        for (u32 i = 0; i < n; i++)
            if (threads[i].wait != WAIT_EXITED) extra_of(env, i)->known = all;
    }
    env->bar = now;
    if (!env->holes) env->shared_tag = now;
}

// Some threads of the block meet: those of each warp in `lanes[warp]`. given: what others have handed over to them.
static __device__ void meet(Env* env, u32* lanes, u64 given, u32 what, u32 site, u32 number) {
    Launch* launch = launch_of(env);
    Thread* threads = threads_of(env);
    u32 now = tick(env), n = launch->threads, count = 0;
    u64 all = given, block = env->block << 12;
    for (u32 i = 0; i < n; i++) {
        if (!(lanes[i / 32] >> (i & 31) & 1)) continue;
        note_step(env, what, site, i, number, 0, 0, now);
        all = join(env, all, known(env, i));
        count++;
    }
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

// A thread arrives at a barrier, and does not wait.
static __device__ void arrive_at(Env* env, Thread* thread, u32 site, u32 number) {
    note_step(env, STEP_ARRIVE, site, thread->linear, 0, 0, 0, number);
    env->arrived_clock[number] = merge(env, env->arrived_clock[number], give(env, thread), 0);
}

// Those who wait at a barrier that not all threads of the block wait at.
static __device__ void meet_waiting(Env* env, u32 number, u32 site) {
    u32 sets[MAX_THREADS / 32];
    Thread* threads = threads_of(env);
    for (u32 w = 0; w < MAX_THREADS / 32; w++) sets[w] = 0;
    for (u32 i = 0; i < launch_of(env)->threads; i++)
        if (threads[i].wait == WAIT_BARRIER && threads[i].mask == number) sets[i / 32] |= 1u << (i & 31);
    meet(env, sets, env->arrived_clock[number & 15], STEP_BARRIER, site, number);
    env->arrived_clock[number & 15] = 0;
}

// Lanes of one warp meet in a collective.
static __device__ void meet_lanes(Env* env, Thread* warp, u32 present, u32 site) {
    Launch* launch = launch_of(env);
    u32 first = warp->linear, lanes = launch->threads - first < 32 ? launch->threads - first : 32;
    u32 everybody = lanes < 32 ? (1u << lanes) - 1 : FULL;
    if (present != everybody) {
        u32 sets[MAX_THREADS / 32];
        for (u32 w = 0; w < MAX_THREADS / 32; w++) sets[w] = 0;
        sets[first / 32] = present;
        return meet(env, sets, 0, STEP_COLLECTIVE, site, 0);
    }
    u32 now = tick(env);
    u64 all = 0;
    for (u32 i = 0; i < lanes; i++) {
        note_step(env, STEP_COLLECTIVE, site, first + i, 0, 0, 0, now);
        warp[i].clock = now;
        all = join(env, all, known(env, first + i));
    }
    env->full[first / 32] = now;
    for (u32 i = 0; i < lanes && all; i++) extra_of(env, first + i)->known = all;
}

// The lanes among `lanes` whose accesses at time `stamp` are not known to a thread.
static __device__ __noinline__ u32 not_known(Env* env, u64 clock, u32 place, u32 stamp, u32 lanes) {
    u64 block = (u64)(place >> 5) << 12, first = block | THREAD_ID | (place & 31) * 32;
    if (stamp < find_tick(env, (Clock*)clock, block) || stamp < find_tick(env, (Clock*)clock, block | WARP_ID | (place & 31))) return 0;
    for (Clock* c = (Clock*)clock; c; c = base_of(env, c))
        for (u32 i = place_in(c, first); i < c->count && c->ticks[i].who < first + 32; i++)
            if (stamp < c->ticks[i].tick) lanes &= ~(1u << (c->ticks[i].who - first));
    return lanes;
}

// ---- release and acquire ----------------------------------------------------------------------------------

// What a write hands on to who reads it: the writer's clock. Together with all that an update has read before it: `all`
// joins what reaches other blocks of that, `near` is the last that does not. `rest`: the last before it that its clock does
// not have.
struct Handed { u64 clock, all, block; u32 thread, tick, scope, before, near, rest; };
// What a thread has read of this and not acquired.
struct Pending { u32 handed, before; };
// The last write to a byte that was made to be seen by others.
struct Place { u64 address, owner, start; u64 block; u32 size, scope, handed, serial, next, unused; };

static __device__ __forceinline__ int reaches(u32 scope, u32 other_scope, u64 block, u64 other_block) {
    return block == other_block || (scope >= SCOPE_GPU && other_scope >= SCOPE_GPU);
}

static __device__ Place* find_place(Env* env, u64 address, int make) {
    Launch* launch = launch_of(env);
    u64 owner = address >= env->arena_size / 2 ? env->block + 1 : 0;
    u32* head = (u32*)launch->places + ((address ^ address >> 16 ^ owner * 40503) & (PLACES - 1));
    for (u32 at = *head; at;) {
        Place* p = (Place*)pool_at(launch, at);
        if (p->address == address && p->owner == owner) return p;
        at = p->next;
    }
    if (!make) return 0;
    u32 at = take(launch, sizeof(Place));
    if (!at) return 0;
    Place* p = (Place*)pool_at(launch, at);
    p->address = address; p->owner = owner; p->size = p->handed = 0; p->next = *head;
    *head = at;
    return p;
}

// The write that a strong read sees, if all of its bytes come from it and each of the two reaches the other.
static __device__ Place* seen_place(Env* env, u64 address, u32 size, u32 scope) {
    Place* first = find_place(env, address, 0);
    if (!first || first->start != address || first->size != size) return 0;
    for (u32 i = 1; i < size; i++) {
        Place* p = find_place(env, address + i, 0);
        if (!p || p->serial != first->serial) return 0;
    }
    return reaches(scope, first->scope, env->block, first->block) ? first : 0;
}

static __device__ __forceinline__ Handed* handed_at(Env* env, u32 place) { return (Handed*)pool_at(launch_of(env), place); }

static __device__ int has_handed(Env* env, u64 clock, Handed* h) {
    return has_all(env, (Clock*)clock, h->block << 12 | THREAD_ID | h->thread, h->tick);
}

// Take over what has been handed on, as far as a scope reaches.
static __device__ void acquire(Env* env, Thread* thread, u32 handed, u32 scope) {
    int far = scope >= SCOPE_GPU;
    if (handed && far) {
        learn(env, thread->linear, handed_at(env, handed)->all);
        handed = handed_at(env, handed)->near;
    }
    while (handed) {
        Handed* h = handed_at(env, handed);
        int knows = has_handed(env, known(env, thread->linear), h);
        if (!knows && reaches(scope, h->scope, env->block, h->block)) {
            learn(env, thread->linear, h->clock);
            knows = 1;
        }
        handed = knows ? h->rest : h->before;
        if (handed && far) handed = handed_at(env, handed)->near;
    }
}

static __device__ u32 hand_on(Env* env, Thread* thread, u64 clock, u32 tick, u32 scope, u32 before) {
    u32 at = take(launch_of(env), sizeof(Handed));
    if (!at) return before;
    Handed *h = handed_at(env, at), *last = handed_at(env, before);
    h->clock = clock; h->block = env->block; h->thread = thread->linear; h->tick = tick; h->scope = scope; h->before = before;
    h->all = before ? last->all : 0;
    h->near = before ? last->near : 0;
    if (scope < SCOPE_GPU) h->near = at;
    else h->all = merge(env, h->all, clock, 0);
    h->rest = before;
    while (h->rest && has_handed(env, clock, handed_at(env, h->rest))) h->rest = handed_at(env, h->rest)->rest;
    return at;
}

// Whether what has been handed on last includes what was handed on before: that a thread that polls has seen it, too,
// need not be remembered.
static __device__ int hands_on_too(Launch* launch, u32 last, u32 before) {
    for (u32 i = 0; last && last != before && i < 64; i++) last = ((Handed*)pool_at(launch, last))->before;
    return last == before;
}

// A strong access reads: what it sees is acquired now, or by a fence to come. Returns what an update goes on to hand on.
static __device__ u32 strong_read(Env* env, Thread* thread, u64 address, u32 size, u32 info) {
    Launch* launch = launch_of(env);
    u32 scope = info >> SCOPE_SHIFT & 3;
    Place* p = seen_place(env, address, size, scope);
    if (!p || !p->handed) return 0;
    if (info & INFO_BLIND) return p->handed;
    if (info & INFO_ACQUIRE) acquire(env, thread, p->handed, scope);
    Extra* e = extra_of(env, thread->linear);
    Pending* last = (Pending*)pool_at(launch, e->pending);
    if (e->pending && last->handed == p->handed) return p->handed;
    if (e->pending && hands_on_too(launch, p->handed, last->handed)) {
        last->handed = p->handed;
        soil(env);
        return p->handed;
    }
    u32 at = take(launch, sizeof(Pending));
    if (!at) return p->handed;
    Pending* made = (Pending*)pool_at(launch, at);
    made->handed = p->handed; made->before = e->pending;
    e->pending = at;
    soil(env);
    return p->handed;
}

// What a fence of at least scope `which` (0: any, 1: of the GPU) lets the thread's later writes hand on.
static __device__ u32 hand_on_fenced(Env* env, Thread* thread, u32 which, u32 handed) {
    Extra* e = extra_of(env, thread->linear);
    Fence* f = (Fence*)e->fences + which;
    if (!f->tick) return handed;
    if (!f->clock) f->clock = snapshot(env, thread->linear, f->known, f->bar, f->full, f->tick);
    return hand_on(env, thread, f->clock, f->tick, which ? SCOPE_GPU : SCOPE_CTA, handed);
}

// A strong access writes. handed: see strong_read, 0 for a plain store.
static __device__ void strong_write(Env* env, Thread* thread, u64 address, u32 size, u32 info, u32 handed) {
    Launch* launch = launch_of(env);
    u32 scope = info >> SCOPE_SHIFT & 3, serial = ++launch->serial;
    Fence* fences = (Fence*)extra_of(env, thread->linear)->fences;
    if (fences[0].tick != fences[1].tick) handed = hand_on_fenced(env, thread, 0, handed);
    handed = hand_on_fenced(env, thread, 1, handed);
    if (info & INFO_RELEASE) {
        u64 clock = give(env, thread);
        handed = hand_on(env, thread, clock, thread->clock, scope, handed);
    }
    for (u32 i = 0; i < size; i++) {
        Place* p = find_place(env, address + i, 1);
        if (!p) return;
        p->start = address; p->size = size; p->block = env->block; p->scope = scope; p->handed = handed; p->serial = serial;
    }
}

// A plain store: who reads this now is handed nothing.
static __device__ void plain_write(Env* env, u64 address, u32 size) {
    for (u32 i = 0; i < size; i++)
        if (Place* p = find_place(env, address + i, 0)) p->size = p->handed = p->serial = 0;
}

EXPORT int rt_fence(Env* env, Thread* thread, u32 site, u64 scope) {
    Launch* launch = launch_of(env);
    if (!env->cells) return 0;
    note_step(env, STEP_FENCE, site, thread->linear, 0, (u32)scope << SCOPE_SHIFT, 0, 0);
    Extra* e = extra_of(env, thread->linear);
    for (u32 at = e->pending; at; at = ((Pending*)pool_at(launch, at))->before)
        acquire(env, thread, ((Pending*)pool_at(launch, at))->handed, (u32)scope);
    if (scope >= SCOPE_GPU) e->pending = 0;
    u32 now = tick(env);
    for (u32 i = 0; i <= (scope >= SCOPE_GPU); i++) {
        Fence* f = (Fence*)e->fences + i;
        f->known = known(env, thread->linear); f->clock = 0;
        f->bar = env->bar; f->full = env->full[thread->linear / 32]; f->tick = now;
    }
    thread->clock = now;
    soil(env);
    return 0;
}

// What the arrivals at an mbarrier hand over to who waits for its phase.
struct Phase { u64 barrier, owner, arrived, complete; u32 next, unused; };

static __device__ Phase* find_phase(Env* env, u64 barrier) {
    Launch* launch = launch_of(env);
    u32* head = (u32*)launch->places + PLACES + ((barrier >> 3) & (PHASES - 1));
    for (u32 at = *head; at;) {
        Phase* p = (Phase*)pool_at(launch, at);
        if (p->barrier == barrier && p->owner == env->block) return p;
        at = p->next;
    }
    u32 at = take(launch, sizeof(Phase));
    if (!at) return 0;
    Phase* p = (Phase*)pool_at(launch, at);
    p->barrier = barrier; p->owner = env->block; p->arrived = p->complete = 0; p->next = *head;
    *head = at;
    return p;
}
