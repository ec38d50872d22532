// Copies of many bytes and products of four warps as threads of racecheck's. Each is one of a block that has no others: what
// its issuer knows when it begins comes before it, a wait for it comes after it, and barriers meanwhile do not order it. So
// all that it does is compared when it begins, with what is before, and kept for what follows.
//
// A wait learns of it what a thread would hand on. When its issuer knows that it is complete, its number is used again.

constexpr u32 NO_AGENT = ~0u;

static __device__ __forceinline__ u64 agent_id(Env* env, u32 n) { return (AGENT_BLOCK | env->block) << 12 | THREAD_ID | n; }

static __device__ u32 begin_agent(Env* env, Thread* t, u32 what, u32 group) {
    if (!env->cells) return NO_AGENT;
    Bulks* all = (Bulks*)env->bulks;
    Clock* clock = (Clock*)known(env, t->linear);
    u32 n = 0;
    for (; n < all->agent_count; n++) {
        Agent* a = agent_of(env, n);
        if (a->thread == t->linear && find_tick(env, clock, agent_id(env, n)) > a->stamp) break;
    }
    if (n == MAX_AGENTS) n--;
    if (n == all->agent_count) all->agent_count++;
    Agent* a = agent_of(env, n);
    all->agent_serial++;
    a->stamp = tick(env); a->thread = t->linear; a->group = group; a->what = what;
    return n;
}

// What those know that wait for an agent.
static __device__ u64 completion(Env* env, u32 n) {
    Clock* clock = n == NO_AGENT ? 0 : new_clock(env, 1);
    if (!clock) return 0;
    add_tick(clock, agent_id(env, n), agent_of(env, n)->stamp + 1, 0);
    return seal(env, clock);
}

// A thread has waited for some of the agents of thread `of`.
static __device__ void join_agents(Env* env, u32 thread, u32 of, u32 kinds, u32 until) {
    u64 before = known(env, thread);
    for (u32 n = 0; n < ((Bulks*)env->bulks)->agent_count; n++) {
        Agent* a = agent_of(env, n);
        if (a->thread != of || !(kinds >> a->what & 1) || a->group >= until) continue;
        if (find_tick(env, (Clock*)before, agent_id(env, n)) <= a->stamp) learn(env, thread, completion(env, n));
    }
}

static __device__ Visit visit_by(Env* env, u32 n, u32 site, u64 address, u32 size, u32 info) {
    Visit v;
    u32 strong = info & STRONG;
    v.key = (site & KEY_SITE) | (info & INFO_WRITE ? KEY_WRITE : 0) | (strong ? KEY_STRONG | KEY_ATOMIC | SCOPE_GPU << KEY_SCOPE : 0) | shape_of(address, size);
    v.place = AGENT | (u32)env->block << 5 | n / 32; v.bit = 1u << (n & 31); v.stamp = agent_of(env, n)->stamp;
    v.site = site & KEY_SITE; v.info = info; v.address = address; v.value = 0;
    return v;
}

// Whether some lanes' stores, of this block, have reached a fence.proxy.async that one of `n` threads knows of.
static __device__ int is_fenced(Env* env, Thread* t, u32 n, u32 fence, u32 place, u32 stamp, u32 lanes) {
    for (u32 k = 0; k < n; k++) {
        u64 clock = fence_clock(env, t->linear + k, fence);
        if (clock && !not_known(env, clock, place, stamp, lanes)) return 1;
    }
    return 0;
}

// What is in global memory where an agent comes: threads of this block have stored it, and no fence.proxy.async has shown it to the
// copy; other agents update it in another way, so that the result depends on their order.
static __device__ void look_at_others(Env* env, Thread* t, Visit* v) {
    Cell* c = cell_of(env, v->address);
    u32 copied = 0;
    if (c->tag != tag_of(env, v->address)) return;
    for (Record* r = first_of(c); r; r = next_record(env, c, v->address, r, RESTLESS | CALM))
        if (r->lanes && r->key & KEY_WRITE && r->place & AGENT && r->stamp > copied) copied = r->stamp;
    for (Record* r = first_of(c); r; r = next_record(env, c, v->address, r, RESTLESS | CALM)) {
        if (!(bytes_of(r->key) & bytes_of(v->key)) || !(r->key & KEY_WRITE)) continue;
        for (u32 i = 0; i < 2; i++) {
            u32 lanes = i ? r->lanes2 : r->lanes, place = i ? r->place2 : r->place, stamp = i ? r->stamp2 : r->stamp;
            if (!lanes) break;
            if (place & AGENT) {
                int differ = r->key & v->key & KEY_STRONG && r->value != v->value;
                if (differ && (lanes = unordered(env, t, place, stamp, lanes))) race(env, t, v, bytes_of(r->key) & bytes_of(v->key), r->key, place, lanes, FAULT_RACE);
            } else if (place / 32 == (u32)env->block && stamp > copied && !is_fenced(env, t, 1, PROXY + 1, place, stamp, lanes))
                record(env, t, v->site, FAULT_UNFENCED, v->address, 1, r->key & KEY_SITE, (place & 31) * 32 + __ffs(lanes) - 1, place / 32);
        }
    }
}

// An agent that thread `t` starts accesses a granule or a part of it. value: of what it brings, the swizzle, see read_as; of an update,
// which one.
static __device__ void touch(Env* env, Thread* t, u32 n, u32 site, u64 address, u32 size, u32 info, u32 value) {
    if (n == NO_AGENT) return;
    Visit v = visit_by(env, n, site, address, size, info | (info & STRONG ? SCOPE_GPU << SCOPE_SHIFT : 0));
    v.value = value;
    if (address < env->arena_size / 2) look_at_others(env, t, &v);
    visit(env, t, &v);
}

// Of reads of granules next to one another. place, stamp, lanes: a store that has been found to be there for all. swizzle: how what
// is there has to lie, in bits and plus 1; 0: anyhow. operand: 0 or 1, of a product. off: bytes of its tile past the pattern's begin.
struct Reads { u32 place, stamp, lanes, swizzle, operand, off; };

enum { DESCRIPTOR_START, DESCRIPTOR_STRIDE, DESCRIPTOR_SWIZZLE, DESCRIPTOR_LEADING };
static __device__ u64 misfit(u32 why, u32 operand, u32 given, u32 wanted) { return why | operand << 2 | (u64)given << 8 | (u64)wanted << 32; }

// Such a read of shared memory, and whether it may find what others have stored there. n: the threads from `t` on that
// read together, warp by warp.
static __device__ void read_as(Env* env, Thread* t, u32 n, u32 agent, u32 site, u64 address, Reads* good) {
    if (agent == NO_AGENT) return;
    Cell* c = cell_of(env, address);
    Visit v = visit_by(env, agent, site, address, 4, 0);
    if (c->tag != env->shared_tag) return visit(env, t, &v);
    u32 copied = 0, stored = 0, swizzle = 0, copy = 0;
    for (Record* r = first_of(c); r; r = next_record(env, c, address, r, RESTLESS | CALM)) {
        if (!r->lanes || !(r->key & KEY_WRITE)) continue;
        if (!(r->place & AGENT)) stored = r->stamp > stored ? r->stamp : stored;
        else if (r->stamp > copied) copied = r->stamp, swizzle = r->value, copy = r->key & KEY_SITE;
    }
    if (good->swizzle && swizzle && copied > stored && swizzle != good->swizzle)
        record(env, t, site, FAULT_DESCRIPTOR, address, misfit(DESCRIPTOR_SWIZZLE, good->operand, good->swizzle - 1, swizzle - 1), copy, 0, env->block);
    if (good->off && (!swizzle || copied <= stored)) {
        record(env, t, site, FAULT_DESCRIPTOR, address, misfit(DESCRIPTOR_START, good->operand, good->off, good->swizzle - 1), 0, 0, env->block);
        good->off = 0;
    }
    for (Record* r = first_of(c); r; r = next_record(env, c, address, r, RESTLESS | CALM)) {
        if (!r->lanes || !(r->key & KEY_WRITE)) continue;
        if (!r->lanes2 && r->place == good->place && r->stamp == good->stamp && r->lanes == good->lanes) continue;
        u32 wrong = r->lanes2 != 0;
        for (u32 k = 0; k < n; k += 32) wrong |= compare(env, t + k, &v, r);
        for (u32 i = 0; i < 2 && !(r->place & AGENT); i++) {
            u32 lanes = i ? r->lanes2 : r->lanes, place = i ? r->place2 : r->place, stamp = i ? r->stamp2 : r->stamp;
            if (!lanes || is_fenced(env, t, n, PROXY, place, stamp, lanes)) continue;
            wrong = 1;
            if (stamp > copied) record(env, t, site, FAULT_UNFENCED, address, 0, r->key & KEY_SITE, (place & 31) * 32 + __ffs(lanes) - 1, place / 32);
        }
        if (!wrong) good->place = r->place, good->stamp = r->stamp, good->lanes = r->lanes;
    }
    keep(env, t, &v, c, 0);
}
