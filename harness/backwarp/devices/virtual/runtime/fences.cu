// Release and acquire: what strong writes and fences hand on to the threads that read them (PTX ISA, memory consistency
// model).

// What a write hands on to a thread that reads it: the writer's clock, and what earlier writes in the chain of updates
// before it handed on (`before`). `all` joins the clocks of the chain that reach other blocks, `near` is the last in the
// chain that does not, `rest` the last before this one that its clock does not include.
struct Handed { u64 clock, all, block; u32 thread, tick, scope, before, near, rest; };
// The last of what a chain of updates hands on; sc: the last of what fences of kind sc hand on to one another. Those have one
// order, which agrees with causality. If a write comes after one of them, be it another thread's before a barrier, and one
// comes after a read that observes the write, then the first is before the second: else the read would come before the
// write. So threads that meet share what such fences hand on, and what they have read (see share_fences).
struct Chains { u32 handed, sc; };
// What a thread has read of it and not yet acquired.
struct Pending { Chains seen; u32 before, unused; };
// The last strong write to a byte.
struct Place { u64 address, owner, start; u64 block; u32 size, scope, serial, next; Chains chains; };

static __device__ __forceinline__ int reaches(Launch* launch, u32 scope, u32 other_scope, u64 block, u64 other_block) {
    if (block == other_block || scope >= SCOPE_GPU && other_scope >= SCOPE_GPU) return 1;
    return launch->clustered && scope >= SCOPE_CLUSTER && other_scope >= SCOPE_CLUSTER &&
           cluster_of(launch, block) == cluster_of(launch, other_block);
}

static __device__ Place* find_place(Env* env, u64 address, int make) {
    Launch* launch = launch_of(env);
    u64 owner = address >= env->arena_size / 2 ? owner_of(env, address)->block + 1 : 0;
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
    p->address = address; p->owner = owner; p->size = p->chains.handed = p->chains.sc = 0; p->next = *head;
    *head = at;
    return p;
}

// The write that a strong read observes, if all bytes come from that write and each is in the scope of the other.
static __device__ Place* seen_place(Env* env, u64 address, u32 size, u32 scope) {
    Place* first = find_place(env, address, 0);
    if (!first || first->start != address || first->size != size) return 0;
    for (u32 i = 1; i < size; i++) {
        Place* p = find_place(env, address + i, 0);
        if (!p || p->serial != first->serial) return 0;
    }
    return reaches(launch_of(env), scope, first->scope, env->block, first->block) ? first : 0;
}

static __device__ __forceinline__ Handed* handed_at(Env* env, u32 place) { return (Handed*)pool_at(launch_of(env), place); }

static __device__ int has_handed(Env* env, u64 clock, Handed* h) {
    return has_all(env, (Clock*)clock, h->block << 12 | THREAD_ID | h->thread, h->tick);
}

// Learn what has been handed on, as far as a scope reaches.
static __device__ void acquire(Env* env, Thread* thread, u32 handed, u32 scope) {
    int far = scope >= SCOPE_GPU;
    if (handed && far) {
        learn(env, thread->linear, handed_at(env, handed)->all);
        handed = handed_at(env, handed)->near;
    }
    while (handed) {
        Handed* h = handed_at(env, handed);
        int knows = has_handed(env, known(env, thread->linear), h);
        if (!knows && reaches(launch_of(env), scope, h->scope, env->block, h->block)) {
            learn(env, thread->linear, h->clock);
            knows = 1;
        }
        handed = knows ? h->rest : h->before;
        if (handed && far) handed = handed_at(env, handed)->near;
    }
}

static __device__ u32 hand_on(Env* env, Thread* thread, u64 clock, u32 tick, u32 scope, u32 before) {
    Handed* last = handed_at(env, before);
    if (before && last->clock == clock && last->block == env->block && last->scope == scope) return before;
    u32 at = take(launch_of(env), sizeof(Handed));
    if (!at) return before;
    Handed* h = handed_at(env, at);
    h->clock = clock; h->block = env->block; h->thread = thread->linear; h->tick = tick; h->scope = scope; h->before = before;
    h->all = before ? last->all : 0;
    h->near = before ? last->near : 0;
    if (scope < SCOPE_GPU) h->near = at;
    else h->all = merge(env, h->all, clock, 0);
    h->rest = before;
    while (h->rest && has_handed(env, clock, handed_at(env, h->rest))) h->rest = handed_at(env, h->rest)->rest;
    return at;
}

// Whether what was handed on last includes what was handed on before: a thread that polls then need not remember that it
// has seen that too.
static __device__ int hands_on_too(Launch* launch, u32 last, u32 before) {
    for (u32 i = 0; last && last != before && i < 64; i++) last = ((Handed*)pool_at(launch, last))->before;
    return last == before;
}

// A strong access reads: what it observes is acquired now, or by a later fence. Returns what an update in turn hands on.
static __device__ Chains strong_read(Env* env, Thread* thread, u64 address, u32 size, u32 info) {
    Launch* launch = launch_of(env);
    u32 scope = info >> SCOPE_SHIFT & 3;
    Place* p = seen_place(env, address, size, scope);
    Chains seen = {0, 0};
    if (p) seen = p->chains;
    if (!(seen.handed | seen.sc) || info & INFO_BLIND) return seen;
    if (info & INFO_ACQUIRE) acquire(env, thread, seen.handed, scope);
    Extra* e = extra_of(env, thread->linear);
    Pending* last = (Pending*)pool_at(launch, e->pending);
    if (e->pending && hands_on_too(launch, seen.handed, last->seen.handed) && hands_on_too(launch, seen.sc, last->seen.sc)) {
        last->seen = seen;
        return seen;
    }
    u32 at = take(launch, sizeof(Pending));
    if (!at) return seen;
    Pending* made = (Pending*)pool_at(launch, at);
    made->seen = seen; made->before = e->pending;
    e->pending = at;
    soil(env);
    return seen;
}

// Hand on, with the thread's later writes, what fence `which` has: 0, 2: of any scope; 1, 3: of the GPU's at least.
static __device__ u32 hand_on_fenced(Env* env, Thread* thread, u32 which, u32 handed) {
    Fence* f = (Fence*)extra_of(env, thread->linear)->fences + which;
    if (!f->tick) return handed;
    if (!f->clock) f->clock = snapshot(env, thread->linear, f->known, f->bar, f->full, f->tick);
    return hand_on(env, thread, f->clock, f->tick, which & 1 ? SCOPE_GPU : f->scope == SCOPE_CLUSTER ? SCOPE_CLUSTER : SCOPE_CTA, handed);
}

// A strong access writes. chains: what strong_read returned; of a store, none.
static __device__ void strong_write(Env* env, Thread* thread, u64 address, u32 size, u32 info, Chains chains) {
    Launch* launch = launch_of(env);
    u32 scope = info >> SCOPE_SHIFT & 3, serial = ++launch->serial;
    Fence* f = (Fence*)extra_of(env, thread->linear)->fences;
    int one = chains.handed == chains.sc && f[0].tick == f[2].tick && f[1].tick == f[3].tick && !(info & INFO_RELEASE);
    if (f[0].tick != f[1].tick) chains.handed = hand_on_fenced(env, thread, 0, chains.handed);
    chains.handed = hand_on_fenced(env, thread, 1, chains.handed);
    if (one) chains.sc = chains.handed;
    else {
        if (f[2].tick != f[3].tick || f[2].clock != f[3].clock) chains.sc = hand_on_fenced(env, thread, 2, chains.sc);
        chains.sc = hand_on_fenced(env, thread, 3, chains.sc);
    }
    if (info & INFO_RELEASE) {
        u64 clock = give(env, thread);
        chains.handed = hand_on(env, thread, clock, thread->clock, scope, chains.handed);
    }
    for (u32 i = 0; i < size; i++) {
        Place* p = find_place(env, address + i, 1);
        if (!p) return;
        p->start = address; p->size = size; p->block = env->block; p->scope = scope; p->chains = chains; p->serial = serial;
    }
}

// A plain store: it hands nothing on to its readers.
static __device__ void plain_write(Env* env, u64 address, u32 size) {
    for (u32 i = 0; i < size; i++)
        if (Place* p = find_place(env, address + i, 0)) p->size = p->chains.handed = p->chains.sc = p->serial = 0;
}

// A list of what has been read, which several threads may have, and one more.
static __device__ u32 and_observed(Env* env, u32 list, u32 sc) {
    Launch* launch = launch_of(env);
    for (u32 at = list; at; at = ((Pending*)pool_at(launch, at))->before)
        if (hands_on_too(launch, ((Pending*)pool_at(launch, at))->seen.sc, sc)) return list;
    u32 at = take(launch, sizeof(Pending));
    if (!at) return list;
    Pending *made = (Pending*)pool_at(launch, at), *last = (Pending*)pool_at(launch, list);
    made->seen.handed = 0; made->seen.sc = sc;
    made->before = list && hands_on_too(launch, sc, last->seen.sc) ? last->before : list;
    return at;
}

// The same with all that a list of a thread has.
static __device__ u32 and_all_observed(Env* env, u32 list, u32 more) {
    for (Pending* p; more; more = p->before) {
        p = (Pending*)pool_at(launch_of(env), more);
        if (p->seen.sc) list = and_observed(env, list, p->seen.sc);
    }
    return list;
}

// What some threads' fences `which` hand on, together; 0: nothing.
static __device__ u64 joined_fences(Env* env, u32* lanes, u32 which) {
    u32 n = launch_of(env)->threads, bar = 0, count = 0;
    u64 all = 0, block = env->block << 12;
    auto fence = [&](u32 i) { return (Fence*)extra_of(env, i)->fences + which; };
    auto counts = [&](u32 i) { return lanes[i / 32] >> (i & 31) & 1 && fence(i)->tick > bar; };
    for (u32 i = 0; i < n; i++)  // a thread that has had a fence since the last barrier knows of all before that
        if (counts(i) && fence(i)->bar > bar) bar = fence(i)->bar;
    for (u32 i = 0; i < n; i++) {
        if (!counts(i)) continue;
        Fence* f = fence(i);
        if (env->holes && !f->clock) f->clock = snapshot(env, i, f->known, f->bar, f->full, f->tick);
        count += !f->clock;
        all = merge(env, all, f->clock ? f->clock : f->known, 0);
    }
    Clock* own = count ? new_clock(env, count + MAX_THREADS / 32 + 1) : 0;
    if (!own) return all;
    add_tick(own, block, bar, 0);
    for (u32 w = 0; w * 32 < n; w++) {
        u32 full = bar;
        for (u32 i = w * 32; i < n && i < w * 32 + 32; i++)
            if (counts(i) && !fence(i)->clock && fence(i)->full > full) full = fence(i)->full;
        if (full > bar) add_tick(own, block | WARP_ID | w, full, 0);
    }
    for (u32 i = 0; i < n; i++)
        if (counts(i) && !fence(i)->clock) add_tick(own, block | THREAD_ID | i, fence(i)->tick, 1);
    return unite(env, seal(env, own), all, 0);
}

// A thread has these fences from now on, at an event of that time.
static __device__ void set_fences(Env* env, u32 thread, const Passed* on, u32 now, u32 near) {
    Extra* e = extra_of(env, thread);
    e->observed = on->observed;
    for (u32 k = 0; k < PASSED; k++) {
        Fence* f = (Fence*)e->fences + FIRST_PASSED + k;
        f->clock = on->clocks[k];
        f->known = 0; f->bar = f->full = 0; f->scope = k == NEAR ? near : SCOPE_GPU; f->tick = f->clock ? now : 0;
    }
}

// Threads meet: they share what their fences of kind sc hand on, and what those to come acquire.
static __device__ __noinline__ void share_fences(Env* env, u32* lanes, u32 now) {
    u32 n = launch_of(env)->threads, observed = 0, last = 0, fenced = 0, near = 0;
    for (u32 i = 0; i < n; i++) {
        if (!(lanes[i / 32] >> (i & 31) & 1)) continue;
        Extra* e = extra_of(env, i);
        Fence* f = (Fence*)e->fences;
        for (u32 k = FIRST_PASSED; k < FENCES; k++) fenced |= (f[k].tick != 0) << k;
        near |= f[2].tick != f[3].tick || f[2].clock != f[3].clock;
        if (!observed) observed = e->observed;
        else if (e->observed != last) observed = and_all_observed(env, observed, e->observed);
        last = e->observed;
        observed = and_all_observed(env, observed, e->pending);
    }
    if (!fenced && !observed) return;
    Passed on;
    for (u32 k = FAR; k < PASSED; k++) on.clocks[k] = fenced >> (k == FAR ? FIRST_PASSED : FIRST_PASSED + k) & 1 ? joined_fences(env, lanes, FIRST_PASSED + k) : 0;
    on.clocks[NEAR] = near ? joined_fences(env, lanes, FIRST_PASSED) : on.clocks[FAR];
    on.observed = observed;
    for (u32 i = 0; i < n; i++)
        if (lanes[i / 32] >> (i & 31) & 1) set_fences(env, i, &on, now, SCOPE_CTA);
    soil(env);
}

// What a thread knew at its fence `which`; 0: it has had none.
static __device__ u64 fence_clock(Env* env, u32 thread, u32 which) {
    Fence* f = (Fence*)extra_of(env, thread)->fences + which;
    if (f->tick && !f->clock) f->clock = snapshot(env, thread, f->known, f->bar, f->full, f->tick);
    return f->tick ? f->clock : 0;
}

// A thread arrives at a barrier where others wait: they get what its fences of kind sc hand on, as threads do that meet.
static __device__ void pass_fences(Env* env, u32 thread, Passed* on) {
    Extra* e = extra_of(env, thread);
    for (u32 k = 0; k < PASSED; k++)
        if (u64 fenced = fence_clock(env, thread, FIRST_PASSED + k)) on->clocks[k] = merge(env, on->clocks[k], fenced, 0);
    on->observed = and_all_observed(env, and_all_observed(env, on->observed, e->observed), e->pending);
}

// A thread that waited, and knows all that those knew who arrived.
static __device__ void take_fences(Env* env, Thread* thread, const Passed* from) {
    if (!passes(from)) return;
    u32 now = tick(env);
    Passed both = *from;
    pass_fences(env, thread->linear, &both);
    set_fences(env, thread->linear, &both, now, SCOPE_CTA);
    thread->clock = now;
    soil(env);
}

// what: the scope, FENCE_SC, and a bit for each kind of memory that asynchronous copies and products get to know of.
EXPORT int rt_fence(Env* env, Thread* thread, u32 site, u64 what) {
    Launch* launch = launch_of(env);
    if (!env->cells) return 0;
    u32 scope = what & 3, sc = what & FENCE_SC;
    Extra* e = extra_of(env, thread->linear);
    for (u32 at = e->pending; at; at = ((Pending*)pool_at(launch, at))->before) {
        Chains seen = ((Pending*)pool_at(launch, at))->seen;
        acquire(env, thread, seen.handed, scope);
        if (sc && seen.sc != seen.handed) acquire(env, thread, seen.sc, scope);
    }
    for (u32 at = sc ? e->observed : 0; at; at = ((Pending*)pool_at(launch, at))->before)
        acquire(env, thread, ((Pending*)pool_at(launch, at))->seen.sc, scope);
    if (scope >= SCOPE_GPU) {
        e->observed = sc ? 0 : and_all_observed(env, e->observed, e->pending);
        e->pending = 0;
    }
    u32 now = tick(env);
    for (u32 i = 0; i < FENCES; i++) {
        if (i >= PROXY ? !(what >> 3 & 1 << (i - PROXY)) : i & 1 && scope < SCOPE_GPU || i & 2 && !sc) continue;
        Fence* f = (Fence*)e->fences + i;
        f->known = known(env, thread->linear); f->clock = 0; f->scope = scope;
        f->bar = env->bar; f->full = env->full[thread->linear / 32]; f->tick = now;
    }
    thread->clock = now;
    soil(env);
    return 0;
}

// What the arrivals at an mbarrier hand on to the threads that wait for its phase.
// from, with, made: what a thread that waited knew before, what it learned, and what it knows now; others that knew the same
// share that, as threads of a group do that wait in every step.
struct Phase { u64 barrier, owner, arrived, complete, from, with, made; Passed arriving, passed; u32 next, made_at; };  // made_at: its last mbarrier.init's site, plus 1

static __device__ Phase* find_phase(Env* env, u64 barrier) {
    Launch* launch = launch_of(env);
    u64 owner = owner_of(env, barrier - env->arena)->block;
    u32* head = (u32*)launch->places + PLACES + ((barrier >> 3) & (PHASES - 1));
    for (u32 at = *head; at;) {
        Phase* p = (Phase*)pool_at(launch, at);
        if (p->barrier == barrier && p->owner == owner) return p;
        at = p->next;
    }
    u32 at = take(launch, sizeof(Phase));
    if (!at) return 0;
    Phase* p = (Phase*)pool_at(launch, at);
    p->barrier = barrier; p->owner = owner; p->next = *head;
    p->arrived = p->complete = p->from = p->with = p->made = p->made_at = 0;
    clear(&p->arriving); clear(&p->passed);
    *head = at;
    return p;
}

static __device__ void arrive_at_phase(Env* env, Thread* thread, Phase* p) {
    p->arrived = merge(env, p->arrived, give(env, thread), 0);
    if (launch_of(env)->ordered) pass_fences(env, thread->linear, &p->arriving);
}

// All have arrived.
static __device__ void finish_phase(Env* env, Phase* p) {
    p->complete = merge(env, p->complete, p->arrived, 0);
    for (u32 k = 0; k < PASSED; k++) p->passed.clocks[k] = merge(env, p->passed.clocks[k], p->arriving.clocks[k], 0);
    p->passed.observed = and_all_observed(env, p->passed.observed, p->arriving.observed);
    p->arrived = 0; clear(&p->arriving);
}

static __device__ void wait_for_phase(Env* env, Thread* thread, Phase* p) {
    u64 from = known(env, thread->linear);
    if (p->made && from == p->from && p->complete == p->with) {
        begin_clocks(env);
        extra_of(env, thread->linear)->known = p->made;
    } else {
        learn(env, thread->linear, p->complete);
        p->from = from; p->with = p->complete; p->made = known(env, thread->linear);
    }
    if (launch_of(env)->ordered) take_fences(env, thread, &p->passed);
}
