// Release and acquire: what strong writes and fences hand on to the threads that read them (PTX ISA, memory consistency
// model).

// What a write hands on to a thread that reads it: the writer's clock, and what earlier writes in the chain of updates
// before it handed on (`before`). `all` joins the clocks of the chain that reach other blocks, `near` is the last in the
// chain that does not, `rest` the last before this one that its clock does not include.
struct Handed { u64 clock, all, block; u32 thread, tick, scope, before, near, rest; };
// What a thread has read of it and not yet acquired.
struct Pending { u32 handed, before; };
// The last strong write to a byte.
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

// The write that a strong read observes, if all bytes come from that write and each is in the scope of the other.
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

// Whether what was handed on last includes what was handed on before: a thread that polls then need not remember that it
// has seen that too.
static __device__ int hands_on_too(Launch* launch, u32 last, u32 before) {
    for (u32 i = 0; last && last != before && i < 64; i++) last = ((Handed*)pool_at(launch, last))->before;
    return last == before;
}

// A strong access reads: what it observes is acquired now, or by a later fence. Returns what an update in turn hands on.
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

// Hand on, with the thread's later writes, what it knew at its last fence of at least scope `which` (0: any, 1: the GPU).
static __device__ u32 hand_on_fenced(Env* env, Thread* thread, u32 which, u32 handed) {
    Extra* e = extra_of(env, thread->linear);
    Fence* f = (Fence*)e->fences + which;
    if (!f->tick) return handed;
    if (!f->clock) f->clock = snapshot(env, thread->linear, f->known, f->bar, f->full, f->tick);
    return hand_on(env, thread, f->clock, f->tick, which ? SCOPE_GPU : SCOPE_CTA, handed);
}

// A strong access writes. handed: what strong_read returned, 0 for a store.
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

// A plain store: it hands nothing on to its readers.
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

// What the arrivals at an mbarrier hand on to the threads that wait for its phase.
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
