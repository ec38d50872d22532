// Clusters: blocks that run at the same time in neighbouring slots, reach one another's shared memory, and meet at
// barrier.cluster. A block's memory stays until all of its cluster have ended.

static __device__ int advance(Env* env);
static __device__ void end_block(Env* env);
static __device__ void begin_block(Env* env, u64 block);
static __device__ void deadlock(Env* env);
static __device__ int took_too_long(Env* env, u64 i);
static __device__ void next_round(Env* env, u32 slots);

enum { STANDS_STILL = 2 };  // of a block: none of its threads could go on
enum { CROSSED_TWICE = 1, NOT_ARRIVED };

// ---- barrier.cluster ---------------------------------------------------------------------------------------

// When a thread's arrival was, and what it knew: that of its last fence where it arrives without an order of its own.
static __device__ void note_arrival(Env* env, Thread* t, u32 phase, u32 relaxed) {
    Extra* e = extra_of(env, t->linear);
    e->arrived_tick = 0; e->arrived_knowing = 0;
    if (relaxed) {
        Fence* f = (Fence*)e->fences;
        if (f[0].scope < SCOPE_CLUSTER) f++;
        if (f->tick && !f->clock) f->clock = snapshot(env, t->linear, f->known, f->bar, f->full, f->tick);
        if (f->tick) e->arrived_knowing = f->clock;
        return;
    }
    if (env->crossing != phase + 1) {  // all of its threads have one time for it, where they can
        env->crossing = phase + 1;
        env->crossing_tick = tick(env);
    }
    e->arrived_tick = stamp_of(env, t) < env->crossing_tick ? env->crossing_tick : tick(env);
    e->arrived_knowing = known(env, t->linear);
    t->clock = e->arrived_tick;
    soil(env);
}

EXPORT int rt_cluster_arrive(Env* env, Thread* thread, u32 site, u64 relaxed) {
    Extra* e = extra_of(env, thread->linear);
    u32 phase = leader_of(env)->crossings;
    if (e->arrivals > e->waits) record(env, thread, site, FAULT_CLUSTER_BARRIER, 0, CROSSED_TWICE, 0, 0, env->block);
    e->arrivals = phase + 1;
    if (env->cells) note_arrival(env, thread, phase, (u32)relaxed);
    return 1;
}

// What the fences of those hand on who have met.
static __device__ void gather_fences(Env* first) {
    Passed* on = (Passed*)first->crossed_fences;
    u32 n = launch_of(first)->threads, sets[MAX_THREADS / 32];
    clear(on);
    for (Env* env = first; env < first + launch_of(first)->cluster; env++) {
        u32 last = 0, fenced = 0;
        for (u32 w = 0; w < MAX_THREADS / 32; w++) sets[w] = 0;
        for (u32 i = 0; i < n; i++) {
            Extra* e = extra_of(env, i);
            if (threads_of(env)[i].wait == WAIT_EXITED) continue;
            sets[i / 32] |= 1u << (i & 31);
            for (u32 k = FIRST_PASSED; k < FENCES; k++) fenced |= (((Fence*)e->fences)[k].tick != 0) << k;
            if (e->observed != last) on->observed = and_all_observed(first, on->observed, last = e->observed);
            on->observed = and_all_observed(first, on->observed, e->pending);
        }
        for (u32 k = 0; k < PASSED; k++)
            if (fenced >> (FIRST_PASSED + k) & 1) on->clocks[k] = merge(first, on->clocks[k], joined_fences(env, sets, FIRST_PASSED + k), 0);
    }
}

static __device__ void take_gathered(Env* env, Thread* t) {
    Passed* from = (Passed*)leader_of(env)->crossed_fences;
    if (!passes(from)) return;
    u32 now = tick(env);
    set_fences(env, t->linear, from, now, SCOPE_CLUSTER);
    t->clock = now;
    soil(env);
}

// What a thread learns where all have met; threads that knew the same share that.
static __device__ void learn_of_cluster(Env* env, Thread* t) {
    if (launch_of(env)->ordered) take_gathered(env, t);
    u64 from = known(env, t->linear), with = leader_of(env)->crossed;
    if (env->crossed_made && from == env->crossed_from && with == env->crossed_with) {
        begin_clocks(env);
        extra_of(env, t->linear)->known = env->crossed_made;
        return;
    }
    learn(env, t->linear, with);
    env->crossed_from = from; env->crossed_with = with; env->crossed_made = known(env, t->linear);
}

static __device__ int may_cross(Env* env, Thread* t) {
    if (leader_of(env)->crossings < extra_of(env, t->linear)->arrivals) return 0;
    if (env->cells) learn_of_cluster(env, t);
    t->wait = WAIT_READY;
    return 1;
}

// Returns whether the thread goes on at once.
EXPORT int rt_cluster_wait(Env* env, Thread* thread, u32 site) {
    Extra* e = extra_of(env, thread->linear);
    thread->site = site;
    if (e->arrivals == e->waits) {
        record(env, thread, site, FAULT_CLUSTER_BARRIER, 0, NOT_ARRIVED, 0, 0, env->block);
        return 1;
    }
    e->waits = e->arrivals;
    if (may_cross(env, thread)) return 1;
    thread->wait = WAIT_CLUSTER; thread->mask = 0; thread->op = 0;
    return 0;
}

// What all who have arrived hand on.
static __device__ u64 clock_of_cluster(Env* first) {
    Launch* launch = launch_of(first);
    u32 n = launch->threads, blocks = launch->cluster, phase = first->crossings + 1;
    Clock* own = new_clock(first, blocks * (n + 1));
    if (!own) return 0;
    u64 all = 0, last = 0;
    for (Env* env = first; env < first + blocks; env++) {
        int alike = env->crossing == phase;
        for (u32 i = 0; i < n && alike; i++)
            alike = threads_of(env)[i].wait == WAIT_EXITED || extra_of(env, i)->arrived_tick >= env->crossing_tick;
        if (alike) add_tick(own, env->block << 12, env->crossing_tick, 0);
        for (u32 i = 0; i < n; i++) {
            u32 tick = extra_of(env, i)->arrived_tick;
            if (threads_of(env)[i].wait == WAIT_EXITED || !tick || alike && tick == env->crossing_tick) continue;
            add_tick(own, env->block << 12 | THREAD_ID | i, tick, 0);
        }
    }
    seal(first, own);
    for (Env* env = first; env < first + blocks; env++)
        for (u32 i = 0; i < n; i++) {
            u64 knowing = extra_of(env, i)->arrived_knowing;
            if (threads_of(env)[i].wait == WAIT_EXITED || !knowing || knowing == last) continue;
            all = merge(first, all, last = knowing, 0);
        }
    return unite(first, (u64)own, all, 0);
}

// Open the barrier if all threads of the cluster that have not ended have arrived. Returns whether it has opened.
static __device__ int cross(Env* first) {
    Launch* launch = launch_of(first);
    u32 alive = 0;
    for (Env* env = first; env < first + launch->cluster; env++)
        for (u32 i = 0; i < launch->threads && env->running; i++) {
            if (threads_of(env)[i].wait == WAIT_EXITED) continue;
            if (extra_of(env, i)->arrivals <= first->crossings) return 0;
            alive++;
        }
    if (!alive) return 0;
    if (first->cells) first->crossed = clock_of_cluster(first);
    if (first->cells && launch->ordered) gather_fences(first);
    first->crossings++;
    return 1;
}

// ---- the end of a block --------------------------------------------------------------------------------------

// Whoever has accessed its shared memory must have done so before a thread of its own ended.
static __device__ void look_at_visitors(Env* env) {
    Launch* launch = launch_of(env);
    Env* first = leader_of(env);
    u64 all = 0, last = 0;
    for (u32 i = 0; i < launch->threads; i++)
        if (known(env, i) != last) all = merge(env, all, last = known(env, i), 0);
    for (Env* other = first; other < first + launch->cluster; other++)
        for (u32 i = 0; i < launch->threads && other != env; i++) {
            Extra* e = extra_of(other, i);
            u32 when = e->visited[env->cluster_rank], place = (u32)other->block * 32 + i / 32;
            if (!when || !not_known(env, all, place, when, 1u << (i & 31))) continue;
            record(other, threads_of(other) + i, e->visited_site[env->cluster_rank], FAULT_ENDED_BLOCK, e->visited_at[env->cluster_rank],
                   0, 0, 0, env->block);
        }
}

// A block of a cluster has ended: from now on nothing may access its shared memory.
static __device__ void leave_cluster(Env* env) {
    int faulted = 0;
    for (Env* other = leader_of(env); other < leader_of(env) + launch_of(env)->cluster; other++) faulted |= other->faulted;
    if (env->cells && !faulted) look_at_visitors(env);
    end_block(env);
    env->running = 0;
    unmark(env, env->shared_base, env->marked);
    env->layout = 0;
}

// ---- running ---------------------------------------------------------------------------------------------------

// Put the next cluster into neighbouring slots. Returns 0 when there is none.
static __device__ int next_cluster(Env* first) {
    Launch* launch = launch_of(first);
    u32 size = launch->cluster;
    if (*(volatile u64*)&launch->next_block >= launch->until) return 0;
    u64 i = atomicAdd(&launch->next_block, (u64)size) / size;
    if (i >= launch->blocks / size || launch->stop || took_too_long(first, i)) return 0;
    u64 cluster = (i * launch->block_multiplier + launch->block_offset) % (launch->blocks / size);
    u64 row = cluster / launch->nclusterid_x, x = cluster % launch->nclusterid_x, y = row % launch->nclusterid_y, z = row / launch->nclusterid_y;
    first->crossings = 0; first->crossed = 0;
    clear((Passed*)first->crossed_fences);
    for (u32 rank = 0; rank < size; rank++) {
        Env* env = first + rank;
        env->cluster_rank = rank;
        env->clusterid_x = (u32)x; env->clusterid_y = (u32)y; env->clusterid_z = (u32)z;
        env->cluster_ctaid_x = rank % launch->cluster_x;
        env->cluster_ctaid_y = rank / launch->cluster_x % launch->cluster_y;
        env->cluster_ctaid_z = rank / launch->cluster_x / launch->cluster_y;
        u64 bx = x * launch->cluster_x + env->cluster_ctaid_x, by = y * launch->cluster_y + env->cluster_ctaid_y;
        u64 bz = z * launch->cluster_z + env->cluster_ctaid_z;
        mark_shared(env);
        begin_block(env, bx + launch->grid_x * (by + launch->grid_y * bz));
        env->running = 1;
        env->crossing = 0; env->crossed_made = 0;
        for (u32 k = 0; k < launch->threads; k++) {
            Extra* e = extra_of(env, k);
            e->arrivals = e->waits = e->arrived_tick = 0; e->arrived_knowing = 0;
            for (u32 r = 0; r < MOST_CLUSTER; r++) e->visited[r] = 0;
        }
    }
    return 1;
}

// No thread of the cluster can go on: tell what one of them waits for, if nothing can arrive.
static __device__ int land_in_cluster(Env* first) {
    u32 size = launch_of(first)->cluster, faulted = 0, landed = 0;
    for (u32 rank = 0; rank < size; rank++) landed |= first[rank].running && land_something(first + rank);
    if (landed) return 1;
    for (u32 rank = 0; rank < size; rank++) faulted |= first[rank].faulted;
    Env* stuck = 0;  // whose threads wait at something else than the cluster's barrier, rather
    for (u32 rank = 0; rank < size; rank++)
        for (u32 i = 0; i < launch_of(first)->threads && first[rank].running; i++) {
            u32 wait = threads_of(first + rank)[i].wait;
            if (wait == WAIT_EXITED) continue;
            if (!stuck) stuck = first + rank;
            if (wait != WAIT_CLUSTER) {
                stuck = first + rank;
                rank = size - 1;
                break;
            }
        }
    if (!faulted) deadlock(stuck);
    for (u32 rank = 0; rank < size; rank++)
        if (first[rank].running) {
            first[rank].faulted = 1;
            leave_cluster(first + rank);
        }
    return 0;
}

// Let every block of a cluster go on. Returns whether any is still running.
static __device__ int advance_cluster(Env* first) {
    Launch* launch = launch_of(first);
    u32 size = launch->cluster, start = ((u32*)launch->order)[0], running = 0, moved = 0;
    for (u32 k = 0; k < size; k++) {
        Env* env = first + (start + (start & 1 ? size - k : k)) % size;
        if (!env->running) continue;
        int how = 0;
        if (launch->start_function) how = advance(env);
        else call_block((u64)env);
        moved |= how != STANDS_STILL;
        if (how) running++;
        else leave_cluster(env);
    }
    if (!running) return 0;
    return cross(first) || moved || land_in_cluster(first);
}

static __device__ void run_clusters(Env* env) {
    Launch* launch = launch_of(env);
    u32 slots = launch->slots, size = launch->cluster, running = 0;
    for (u32 s = 0; s < slots; s++) env[s].running = 0;
    for (u32 s = 0; s < slots; s += size) running += next_cluster(env + s);
    while (running) {
        for (u32 s = 0; s < slots; s += size) {
            u32 blocks = 0;
            for (u32 rank = 0; rank < size; rank++) blocks |= env[s + rank].running;
            if (blocks && !advance_cluster(env + s)) running -= !next_cluster(env + s);
        }
        if (env->cells) next_round(env, slots);
    }
}
