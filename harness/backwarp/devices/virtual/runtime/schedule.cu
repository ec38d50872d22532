// Scheduling: blocks of a grid, threads of a block as coroutines, barriers and warp collectives; the watchdog,
// local memory, printf and assert.

// ---- watchdog ---------------------------------------------------------------------------------------------

// Back edges between two checks of the clock: of all threads of a block together if they run one after the other, of
// each thread if they take turns.
static __device__ u32 full_slice(Env* env) {
    u32 threads = launch_of(env)->threads;
    return env->start_function && threads > SHARERS ? SLICE * SHARERS / threads : SLICE;
}

// A thread ends in a loop in which another one has waited too long: the first in the grid is reported.
static __device__ void join_timeout(Env* env, Thread* thread, u32 site) {
    Launch* launch = launch_of(env);
    Fault* records = (Fault*)(launch + 1);
    u64 extra = 0;
    u32 i = 0;
    lock(&launch->lock);  // another worker may be writing it
    while (i < launch->kept && !(records[i].kind == FAULT_TIMEOUT && records[i].site == site)) i++;
    int found = i < launch->kept;
    if (found) extra = records[i].extra;
    unlock(&launch->lock);
    if (found) record(env, thread, site, FAULT_TIMEOUT, 0, extra, 0, 0, env->block);
}

// Whether a thread waits for another round.
static __device__ int is_held(Thread* t) { return t->arg0 && t->arg0--; }

// ---- waiting for memory to change ------------------------------------------------------------------------------

// Where thousands take one lock, nearly all looks at it are in vain, and they grow with the square of the threads. So one
// that goes round a loop and finds what it has found before need not go on until that changes. Then a few may look first,
// twice as many in the next round, and so on: most often one of them changes it again. A thread cannot tell this from bad
// luck. It goes on anyway after some rounds, and where all others only wait.

// A thread has come to the end of a loop in which it may wait. Returns whether it does.
static __device__ int await_change(Env* env, Thread* t, u32 site) {
    Extra* e = extra_of(env, t->linear);
    if (!e->in_vain || e->polls || (e->in_vain == 2 && e->waited_site != site)) return 0;
    t->wait = WAIT_CHANGE; t->mask = 0;
    t->op = e->watched_size; t->arg1 = e->watched; t->arg2 = e->seen;
    e->patience = e->patience < PATIENCE ? 2 * e->patience + 1 : PATIENCE;
    t->arg0 = e->patience;
    e->waited_site = site; e->in_vain = 0;
    return 1;
}

// Whether a thread has waited in this loop, and what it reads there is still the same.
static __device__ int looks_in_vain(Env* env, Thread* t, u32 site) {
    if (!env->cells) return 0;
    Extra* e = extra_of(env, t->linear);
    return e->patience && e->waited_site == site && value_at(e->watched, e->watched_size) == e->seen;
}

// Whether a thread waits in this round for memory to change.
static __device__ int keeps_waiting(Env* env, Thread* t) {
    Launch* launch = launch_of(env);
    if (env->idle && (!launch->erratic || ++launch->passed == launch->idles || launch->idles > PATIENCE)) return 0;
    if (launch->looks && value_at(t->arg1, t->op) != t->arg2) {
        launch->looks--;
        return 0;
    }
    return is_held(t);
}

// Every block of a worker that runs has had a round.
static __device__ void next_round(Env* env, u32 slots) {
    Launch* launch = launch_of(env);
    u32 moved = 0;
    for (u32 s = 0; s < slots; s++) moved |= env[s].moved;
    for (u32 s = 0; s < slots; s++) {
        env[s].idle = !moved;
        env[s].moved = 0;
    }
    launch->idles = moved ? 0 : launch->idles + 1;
    launch->passed = 0;
    launch->looks = launch->most_looks;
    if (launch->most_looks < 1u << 20) launch->most_looks *= 2;
}

// A slice has been used up. next: the size of the next one; called: by calls, which do not count in a loop that may
// wait, or else it might never let others run. Returns the new slice, or 0 to give up.
EXPORT int rt_slice(Env* env, Thread* thread, u32 site, u64 next, u64 called) {
    Launch* launch = launch_of(env);
    if (called) env->calls = SLICE;
    else env->slice = 1;  // if this thread ends here, the next one asks at once
    int waits = next == SPIN_SLICE || next == TURN_SLICE;  // in this loop a thread may wait for memory to change
    if (given_up(launch)) {
        if (waits) join_timeout(env, thread, site);
        thread->dead = DEAD_FAULT;
        return 0;
    }
    launch->granted += next;
    thread->wait = WAIT_READY;
    if (waits && env->cells && await_change(env, thread, site)) next = 1;
    u64 steps = called || env->tables ? next : env->granted;
    if (waits) steps = launch->blocks == 1 ? 16 * next : 0;  // another block may take its time
    int spent = thread->steps <= steps;
    thread->steps -= steps;
    if (!spent && !is_late(env)) {
        if (called) return 1;
        return env->slice = env->granted = next == SLICE ? full_slice(env) : (u32)next;
    }
    launch->stop = GIVEN_UP;
    u32 why = spent ? TIMEOUT_SPENT : 0;
    if (called) why = TIMEOUT_CALLED;
    else if (waits) why = spent && looks_in_vain(env, thread, site) ? TIMEOUT_WAITED : TIMEOUT_WAITING;
    return rt_fault(env, thread, site, FAULT_TIMEOUT, 0, why);
}

// ---- turns --------------------------------------------------------------------------------------------------

// The next random bits; 0: nobody pauses here, as mostly after many such places.
static __device__ u64 draw(Launch* launch) {
    u32 seldom = 64 - __clzll(launch->turns++ / TURNS);
    if (!launch->chance) return 0;
    launch->chance = launch->chance * 6364136223846793005ull + 1442695040888963407ull;
    return launch->chance >> 40 & ((1u << seldom) - 1) ? 0 : launch->chance;
}

// In an erratic order, a thread may stop here, with a chance of so many eighths, until a word at a host address has changed,
// or nobody else goes on. Returns whether it does.
static __device__ int stop_at_random(Launch* launch, Thread* t, u32 eighths, u64 where) {
    u64 random = draw(launch);
    if (!random || random >> 61 >= eighths) return 0;
    t->wait = WAIT_CHANGE; t->mask = PATIENT;
    t->op = 4; t->arg1 = where; t->arg2 = value_at(where, 4);
    t->arg0 = PATIENCE;
    return 1;
}

// A thread has read what others may change without a race. This is where the unluckiest schedule matters: the thread
// continues only after others have intervened, usually in the next round of its block, so that threads in lockstep
// meet, and sometimes many rounds later, so that others do. Returns whether it has to wait, which it rarely does after
// many such reads.
EXPORT int rt_turn(Env* env, Thread* thread, u32 site) {
    Launch* launch = launch_of(env);
    if (launch->erratic) return stop_at_random(launch, thread, launch->after, (u64)&launch->shown);
    u64 random = draw(launch);
    if (!random) return 0;
    u32 most = __clz((u32)(random >> 8) | 1 << 24);  // 0 to 7
    thread->wait = WAIT_TURN;
    thread->arg0 = (random >> 58) & ((1u << most) - 1) >> 1;
    return 1;
}

// Whether what a thread is about to read is as it has seen it before, or nobody else has written it.
static __device__ int is_old(Env* env, Thread* t, u64 address) {
    Extra* e = extra_of(env, t->linear);
    if (e->watched == env->arena + address && value_at(e->watched, e->watched_size) == e->seen) return 1;
    Cell* c = cell_of(env, address);
    Cold* cold = cold_of(env, address);
    return c->tag != tag_of(env, address) || !c->more || !cold->writer || cold->writer_place == place_of(env, t);
}

// A thread begins, or has changed what others may read (address = 0), or is about to read what they may change. Only in an
// erratic order may it stop here as well.
EXPORT int rt_pause(Env* env, Thread* thread, u32 site, u64 address) {
    Launch* launch = launch_of(env);
    if (!launch->erratic) return 0;
    if (!address) return stop_at_random(launch, thread, launch->after, (u64)&launch->shown);
    if (address >= env->arena_size || is_local(env, address)) return 0;
    u64 where = launch->anything ? (u64)&launch->shown : env->arena + (address & ~3ull);
    return (launch->anything || is_old(env, thread, address)) && stop_at_random(launch, thread, launch->before, where);
}

EXPORT int rt_enter(Env* env, Thread* thread, u32 site) {
    u64 address = (u64)&address;
    u32 here = (u32)(address >> 4);
    if (++thread->depth == 1) thread->stack = here;
    if (thread->depth <= MAX_DEPTH && thread->stack - here < STACK_BYTES / 16) return 1;
    return rt_fault(env, thread, site, FAULT_STACK_OVERFLOW, 0, thread->depth);
}

// ---- local memory -------------------------------------------------------------------------------------------

// What may be done with the granules from `address`, a multiple of 16, to `end`.
static __device__ __forceinline__ void allow(Env* env, u64 address, u64 end, u32 what) {
    unsigned char *shadow = (unsigned char*)(env->shadow + (address >> 2)), *last = (unsigned char*)(env->shadow + (end >> 2));
    for (; shadow + 4 <= last; shadow += 4) *(u32*)shadow = what * 0x01010101u;
    for (; shadow < last; shadow++) *shadow = what;
}

// align: a power of 2, at least 16. padding: see set_padding.
EXPORT u64 rt_local(Env* env, Thread* thread, u32 site, u64 bytes, u64 align, u64 padding) {
    u64 address = (thread->local_top + align - 1) & -align, end = address + ((bytes + 3) & ~3ull);
    if (end + LOCAL_GUARD > thread->local_end) {
        rt_fault(env, thread, site, FAULT_STACK_OVERFLOW, 0, 0);
        return 0;
    }
    thread->local_top = end + LOCAL_GUARD;
    u64 at = env->arena + address, last = env->arena + end;
    for (; at + 8 <= last; at += 8) *(u64*)at = POISON;
    if (at < last) *(u32*)at = (u32)POISON;
    allow(env, address, end, READ | WRITE);  // and not INIT
    if (bytes & 3) *shadow_of(env, end - 4) = PARTIAL | INIT | (1 << (bytes & 3)) << 4;
    if (env->unset) unset_all(env, address, end - address);
    if (padding) set_padding(env, address, padding);
    return address;
}

EXPORT int rt_local_free(Env* env, Thread* thread, u32 site, u64 address, u64 bytes) {
    allow(env, address, address + (bytes + 3 & ~3ull), 0);
    thread->local_top = address;
    return 0;
}

// A thread starts: whatever the previous thread in this place left in local memory, even after a fault, has no owner.
EXPORT int rt_local_reset(Env* env, Thread* thread, u32 site) {
    allow(env, thread->local, thread->local_top, 0);
    thread->local_top = thread->local;
    return 0;
}

// 0: the threads of the block need too much, and this one has ended.
EXPORT u64 rt_frame(Env* env, Thread* thread, u64 bytes) {
    u64 start = env->frames_used;
    bytes = (bytes + 63) & ~63ull;
    if (bytes > env->frames_size - start) {
        thread->wait = WAIT_EXITED;
        return rt_fault(env, thread, 0, FAULT_STACK_OVERFLOW, 0, FRAMES_FULL);
    }
    env->frames_used = start + bytes;
    return env->frames + start;
}

// ---- printf and assert ------------------------------------------------------------------------------------------

EXPORT int rt_printf(Env* env, Thread* thread, u32 site, u64 format, u64 arguments) {
    Launch* launch = launch_of(env);
    if (launch->printf_open) {
        int count = bw_printf((u64)launch, format, arguments);
        if (launch->unset_argument) {
            rt_unset_used(env, thread, site, USE_PRINTF, rt_unset_loaded(env, thread, site, launch->unset_argument, 1, 1));
            launch->unset_argument = 0;
        }
        return count;
    }
    atomicAdd(&launch->printf_lines, 1ull);
    return 0;
}

EXPORT int rt_assert(Env* env, Thread* thread, u32 site, u64 message, u64 line) {
    return rt_fault(env, thread, site, FAULT_ASSERT, message, line);
}

// ---- warp collectives -------------------------------------------------------------------------------------------

static __device__ u32 shuffle_source(u32 op, u32 lane, u32 b, u32 c, int* valid) {
    u32 segment = c >> 8 & 31, limit = c & 31, mine = lane & segment;
    int last = mine | (limit & ~segment), from;
    b &= 31;
    if (op == OP_SHFL_UP) { from = (int)lane - (int)b; *valid = from >= last; }
    else if (op == OP_SHFL_DOWN) { from = lane + b; *valid = from <= last; }
    else if (op == OP_SHFL_BFLY) { from = lane ^ b; *valid = from <= last; }
    else { from = mine | (b & ~segment); *valid = from <= last; }
    return *valid ? from : lane;
}

static __device__ u64 reduce(u32 op, u64 x, u64 y) {
    switch (op) {
        case OP_REDUX_ADD: return (u32)(x + y);
        case OP_REDUX_MIN_S: return (int)x < (int)y ? x : y;
        case OP_REDUX_MAX_S: return (int)x > (int)y ? x : y;
        case OP_REDUX_MIN_U: return (u32)x < (u32)y ? x : y;
        case OP_REDUX_MAX_U: return (u32)x > (u32)y ? x : y;
        case OP_REDUX_AND: return x & y;
        case OP_REDUX_OR: return x | y;
        default: return x ^ y;
    }
}

// The unset bits of what a lane gets from a shuffle: all of them, if the other lane is not in the mask or not in the
// block. (A lane that the mask names but that has ended is a separate fault.)
static __device__ void follow_shuffle(Env* env, Thread* warp, Thread* t, u32 from, u32 present) {
    int there = present >> from & 1;
    int free = !(t->mask >> from & 1) || (t->linear & ~31u) + from >= launch_of(env)->threads;
    if (!env->unset) {
        if (free) suspect(env, t, SUSPECT_UNSET);
        return;
    }
    Extra* e = extra_of(env, t->linear);
    e->given_unset = there ? extra_of(env, warp[from].linear)->unset[0] : free ? ~0ull : 0;
    e->given_from = there ? extra_of(env, warp[from].linear)->from : origin(ORIGIN_LANE, t->site, from);
}

// All lanes of `present` have arrived at `op`: give each its result.
static __device__ void complete(Env* env, Thread* warp, u32 op, u32 present) {
    if (op == OP_MATRIX) multiply_matrices(env, warp, present);
    if (op == OP_EXCHANGE) exchange_rows(env, warp, present);
    u32 ballot = 0, first = __ffs(present) - 1;
    u64 total = warp[first].arg0;
    int same = 1;
    for (u32 lane = 0; lane < 32; lane++) {
        if (!(present >> lane & 1)) continue;
        if (warp[lane].arg0 & 1) ballot |= 1u << lane;
        if (warp[lane].arg0 != warp[first].arg0) same = 0;
        if (lane != first) total = reduce(op, total, warp[lane].arg0);
    }
    for (u32 lane = 0; lane < 32; lane++) {
        if (!(present >> lane & 1)) continue;
        Thread* t = &warp[lane];
        if (op >= OP_SHFL_UP && op <= OP_SHFL_IDX) {
            int valid;
            u32 from = shuffle_source(op, lane, (u32)t->arg1, (u32)t->arg2, &valid);
            t->result0 = present >> from & 1 ? warp[from].arg0 : POISON;  // an absent lane: undefined
            t->result1 = valid;
            if (launch_of(env)->check_sync) follow_shuffle(env, warp, t, from, present);
        } else if (op == OP_VOTE_ALL) t->result0 = ballot == present;
        else if (op == OP_VOTE_ANY) t->result0 = ballot != 0;
        else if (op == OP_VOTE_UNI) t->result0 = ballot == 0 || ballot == present;
        else if (op == OP_VOTE_BALLOT) t->result0 = ballot;
        else if (op == OP_MATCH_ALL) { t->result0 = same ? present : 0; t->result1 = same; }
        else if (op == OP_MATCH_ANY) {
            u32 equal = 0;
            for (u32 i = 0; i < 32; i++)
                if (present >> i & 1 && warp[i].arg0 == t->arg0) equal |= 1u << i;
            t->result0 = equal;
        } else if (op >= OP_REDUX_ADD && op <= OP_REDUX_XOR) t->result0 = total;
        else if (op == OP_ELECT) {  // CUDA does not say who: the first in one order, the last in another
            u32 from_last = ((u32*)launch_of(env)->order)[0] & 1, last = 31 - __clz(present);
            t->result0 = from_last ? last : first;
            t->result1 = lane == (u32)t->result0;
        }
    }
    if (env->cells) meet_lanes(env, warp, present);  // from now on the lanes know about each other
    for (u32 lane = 0; lane < 32; lane++)
        if (present >> lane & 1) warp[lane].wait = WAIT_READY;
}

// Whether thread t, which has ended, went around the place where thread w waits; else it had returned before (see
// leaving.py).
static __device__ int went_round(Env* env, Thread* w, Thread* t) {
    Extra* here = extra_of(env, w->linear);
    Extra* gone = extra_of(env, t->linear);
    for (u32 loops = (u32)(here->behind >> 32 & gone->out >> 32); loops; loops &= loops - 1) {
        u32 loop = __ffs(loops) - 1;
        if (here->turns[loop] != gone->turns[loop]) return gone->turns[loop] > here->turns[loop];
    }
    return (here->behind & gone->out & FULL) != 0;
}

// Whether two lanes execute the same kind of matrix instruction, with other shapes or types.
static __device__ int differ(Thread* t, Thread* other) {
    return t->arg0 != other->arg0 || t->arg1 != other->arg1;
}

// Finish what can be finished in one warp. Returns whether any lane can continue.
static __device__ int serve_warp(Env* env, Thread* warp, u32 lanes) {
    int progress = 0;
    u32 alive = 0;
    for (u32 lane = 0; lane < lanes; lane++)
        if (warp[lane].wait != WAIT_EXITED) alive |= 1u << lane;
    for (u32 lane = 0; lane < lanes; lane++) {
        Thread* t = &warp[lane];
        if (t->wait != WAIT_WARP) continue;
        u32 mask = t->mask, present = 0;
        if (!(mask >> lane & 1)) {
            rt_fault(env, t, t->site, FAULT_SHUFFLE_MASK, mask, lane);
            t->wait = WAIT_EXITED;
            return 1;
        }
        for (u32 i = 0; i < lanes; i++)
            if (mask >> i & 1 && warp[i].wait == WAIT_WARP && warp[i].op == t->op && warp[i].mask == mask)
                present |= 1u << i;
        for (u32 i = 0; i < lanes && (t->op == OP_EXCHANGE || t->op == OP_MATRIX); i++)
            if (present >> i & 1 && differ(t, &warp[i])) {
                record(env, t, t->site, FAULT_LANES_DIFFER, 0, 0, warp[i].site, warp[i].linear, env->block);
                t->dead = DEAD_FAULT;
                t->wait = WAIT_EXITED;
                return 1;
            }
        if (present == (mask & alive)) {
            u32 missing = mask & (lanes < 32 ? (1u << lanes) - 1 : FULL) & ~alive, round = 0;  // they have ended
            if (missing && !faulted_lanes(warp, missing) && launch_of(env)->check_sync) {
                for (u32 i = 0; i < lanes; i++)
                    if (missing >> i & 1 && went_round(env, t, &warp[i])) round |= 1u << i;
                record(env, t, t->site, FAULT_SHUFFLE_MASK, mask | (u64)round << 32, missing, 0, 0, 0);
            }
            complete(env, warp, t->op, present);
            progress = 1;
        }
    }
    return progress;
}

// ---- barriers ---------------------------------------------------------------------------------------------------

static __device__ u32 coroutines(Env* env) { return launch_of(env)->threads / launch_of(env)->coarsening; }

// The thread that has the state of a coroutine.
static __device__ u32 leader(Env* env, u32 i) {
    return launch_of(env)->coarsening == 1 ? i : ((u32*)launch_of(env)->order)[i];
}

// Barriers count whole warps: the first lane of a short last one stands for the lanes that it lacks.
static __device__ u32 counts_for(Env* env, Thread* t) {
    u32 n = launch_of(env)->threads;
    return t->linear & 31 || t->linear + 32 <= n ? 1 : t->linear + 33 - n;
}

// How many threads take part in the barrier that `t` waits at; 0: all of the block.
static __device__ u32 expected(Thread* t) { return t->op == OP_BARRIER ? 0 : (u32)t->arg0; }

// A barrier as a thread has named it: the word that `explain/barriers` reads.
static __device__ u32 barrier_of(Thread* t) {
    if (t->wait != WAIT_BARRIER) return AT_NONE;
    return t->mask & 15 | (t->op > OP_BARRIER_COUNT ? AT_VOTES : 0) | expected(t) << AT_COUNT;
}

// Whether two threads have named the same barrier. That is its number and its count, wherever the two are; but without a
// count, number 0 is __syncthreads(), which CUDA C++ wants to be the same one for all.
static __device__ int same_barrier(Env* env, u32 a, u32 b, int same_line) {
    u32 whole = launch_of(env)->threads + 31 & ~31u, x = a >> AT_COUNT, y = b >> AT_COUNT;
    if ((a ^ b) & (15 | AT_VOTES)) return 0;
    return a & 15 || x || y ? (x ? x : whole) == (y ? y : whole) : same_line;
}

EXPORT int rt_arrive(Env* env, Thread* thread, u32 site, u64 barrier, u64 count) {
    u32 number = (u32)barrier & 15, named = number | AT_ARRIVED | (u32)count << AT_COUNT, other = env->arrival[number];
    if (!env->arrived[number]) {
        env->arrival[number] = named;
        env->arrival_site[number] = site; env->arrival_thread[number] = thread->linear;
    } else if (!same_barrier(env, named, other, 1) && launch_of(env)->check_sync) {
        record(env, thread, site, FAULT_BARRIER_DIVERGENCE, named, 1 | (u64)other << 32, env->arrival_site[number],
               env->arrival_thread[number], env->block);
        env->faulted = 1;
    }
    env->arrived[number] += counts_for(env, thread);
    if (count == 32 && env->arrived[number] == 32) env->arrived[number] = 0;  // its warp alone has opened it
    if (env->cells) arrive_at(env, thread, number);
    return 0;
}

// The barrier at which `t` waits opens, with `waiting` threads there: report which are missing.
static __device__ void note_absent(Env* env, Thread* t, u32 waiting) {
    Thread* threads = threads_of(env);
    Thread* first = 0;  // the first that went around
    u32 round = 0, returned = 0;
    for (u32 i = 0; i < coroutines(env); i++) {
        Thread* other = &threads[leader(env, i)];
        if (other->wait != WAIT_EXITED) continue;
        if (!went_round(env, t, other)) returned++;
        else if (!round++) first = other;
    }
    if (round) record(env, t, t->site, FAULT_WENT_ROUND, waiting, round, 0, first->linear, env->block);
    if (round) env->faulted = 1;  // they will be missing at later barriers too
    else if (returned) record(env, t, t->site, FAULT_EXITED_EARLY, t->mask, returned, 0, 0, 0);
}

// Whether two threads wait at a barrier of the same number. One that counts a single warp opens for each warp alone.
static __device__ int may_meet(Thread* t, Thread* other) {
    int apart = expected(t) == 32 && t->linear / 32 != other->linear / 32;
    return other->wait == WAIT_BARRIER && other->mask == t->mask && !apart;
}

// `count` threads wait at a barrier like `t`. other: where another thread is, as a word.
static __device__ void diverge(Env* env, Thread* t, u32 count, u32 other, u32 site, u32 thread) {
    record(env, t, t->site, FAULT_BARRIER_DIVERGENCE, barrier_of(t), count | (u64)other << 32, site, thread, env->block);
    env->faulted = 1;
}

static __device__ void diverge_from_arrival(Env* env, Thread* t, u32 count, u32 number) {
    diverge(env, t, count, env->arrival[number], env->arrival_site[number], env->arrival_thread[number]);
}

// Open the barrier at which thread `t` waits, if all its participants have arrived.
static __device__ int serve_barrier(Env* env, Thread* t, u32 alive) {
    Launch* launch = launch_of(env);
    Thread* threads = threads_of(env);
    u32* lines = (u32*)launch->site_lines;
    u32 number = t->mask, waiting = 0, here = 0, bits = 0, n = coroutines(env), named = barrier_of(t);
    u32 arrived = env->arrived[number & 15], wanted = expected(t) ? expected(t) : alive;
    Thread* elsewhere = 0;
    for (u32 i = 0; i < n; i++) {
        Thread* other = &threads[leader(env, i)];
        if (!may_meet(t, other)) continue;
        waiting++;
        arrived += expected(t) ? counts_for(env, other) : 1;
        if (other->op != OP_BARRIER) bits += (u32)other->arg1;
        if (same_barrier(env, named, barrier_of(other), !lines || lines[other->site] == lines[t->site])) here++;
        else if (!elsewhere) elsewhere = other;
    }
    if (arrived < wanted) return 0;
    if (launch->check_sync) {
        u32 arrival = env->arrived[number & 15] ? env->arrival[number & 15] : 0;
        if (elsewhere) diverge(env, t, here, barrier_of(elsewhere), elsewhere->site, elsewhere->linear);
        else if (arrival && !same_barrier(env, named, arrival, 1)) diverge_from_arrival(env, t, here, number & 15);
        else if (expected(t) && (arrived > wanted || wanted & 31)) diverge(env, t, arrived, 0, 0, 0);
    }
    if (!expected(t) && !env->arrived[number & 15] && launch->check_sync && !env->faulted) note_absent(env, t, waiting);
    if (env->cells) {
        if (waiting == (expected(t) ? n : alive) && !env->arrived[number & 15]) meet_all(env);
        else meet_waiting(env, number, expected(t) == 32 ? t->linear / 32 : NOBODY);
    }
    env->arrived[number & 15] = 0;
    for (u32 i = 0; i < n; i++) {
        Thread* other = &threads[leader(env, i)];
        if (!may_meet(t, other)) continue;
        if (other->op == OP_BARRIER_AND) other->result0 = bits == waiting;
        else if (other->op == OP_BARRIER_OR) other->result0 = bits != 0;
        else other->result0 = bits;
    }
    for (u32 i = 0; i < n; i++) {
        Thread* other = &threads[leader(env, i)];
        if (may_meet(t, other) && other != t) other->wait = WAIT_READY;
    }
    t->wait = WAIT_READY;
    return 1;
}

// No thread can continue: report which thread waits where, and which is elsewhere.
static __device__ void deadlock(Env* env) {
    Thread* threads = threads_of(env);
    Thread* first = 0;
    Thread* other = 0;
    u32 waiting = 0, missing = 0;
    for (u32 i = 0; i < coroutines(env); i++) {
        Thread* t = &threads[leader(env, i)];
        if (t->wait == WAIT_EXITED) continue;
        if (t->wait == WAIT_PHASE) return stuck_at_phase(env);
        if (t->wait == WAIT_GROUP) return stuck_at_product(env, t);
        if (t->wait == WAIT_CLUSTER) {
            if (!other) other = t;
            continue;
        }
        if (!first) {
            first = t;
            missing = t->mask;
        }
        int together = t->wait == first->wait && t->mask == first->mask && t->op == first->op &&
                       (t->wait != WAIT_BARRIER || expected(t) == expected(first));
        if (together) waiting++;
        if (together && t->linear / 32 == first->linear / 32) missing &= ~(1u << (t->linear & 31));
        int named = t->linear / 32 == first->linear / 32 && first->mask >> (t->linear & 31) & 1;
        if (!together && !other && (first->wait != WAIT_WARP || named)) other = t;
    }
    if (!first) return;
    u32 site = other ? other->site : 0, linear = other ? other->linear : 0;
    if (first->wait == WAIT_BARRIER) {
        for (u32 i = 0; i < 16 && !other; i++)
            if (env->arrived[i] && !same_barrier(env, barrier_of(first), env->arrival[i], 1))
                return diverge_from_arrival(env, first, waiting, i);
        return diverge(env, first, waiting, other ? barrier_of(other) : 0, site, linear);
    }
    u64 extra = missing;
    if (other && other->site == first->site) extra |= (u64)other->mask << 32;
    env->faulted = 1;
    record(env, first, first->site, FAULT_SHUFFLE_MASK, first->mask, extra, site, linear, env->block);
}

// ---- scheduling -------------------------------------------------------------------------------------------------

// What can be done when not all threads wait at the same barrier: finish warp collectives, then open barriers.
static __device__ int serve(Env* env, u32 n, u32 alive) {
    Thread* threads = threads_of(env);
    u32 together = launch_of(env)->coarsening;  // threads that run together never wait for their warp
    int progress = 0;
    for (u32 w = 0; w < n && together == 1; w += 32) {
        u32 lanes = n - w < 32 ? n - w : 32, waiting = 0;
        for (u32 lane = 0; lane < lanes; lane++) waiting |= threads[w + lane].wait == WAIT_WARP;
        if (waiting) progress |= serve_warp(env, threads + w, lanes);
    }
    for (u32 g = 0; g + GROUP_THREADS <= n && together == 1; g += GROUP_THREADS)
        if (threads[g].wait == WAIT_GROUP) progress |= serve_group(env, threads + g);
    u32 seen = 0;  // barrier numbers looked at
    for (u32 i = 0; i < coroutines(env) && !progress; i++) {
        Thread* t = &threads[leader(env, i)];
        if (t->wait != WAIT_BARRIER || seen >> (t->mask & 15) & 1) continue;
        seen |= 1u << (t->mask & 15);
        progress |= serve_barrier(env, t, alive);
    }
    return progress;
}

// All threads have passed a barrier together: let each continue to where it waits next. Returns whether that is the
// same plain barrier for all of them, so that they can continue again.
static __device__ int resume_together(Env* env) {
    Thread* threads = threads_of(env);
    u32* order = (u32*)launch_of(env)->order;
    u32 n = coroutines(env), same = 0;
    Thread* first = &threads[order[0]];
    for (u32 i = 0; i < n; i++) {
        Thread* t = &threads[order[i]];
        if (i + 4 < n) {
            Thread* soon = &threads[order[i + 4]];
            call_prefetch(soon->handle);
            call_prefetch(soon->handle + CACHE_LINE);
        }
        call_resume(t->handle);
        same += *(u64*)&t->wait == *(u64*)&first->wait && *(u64*)&t->mask == *(u64*)&first->mask;
    }
    if (same < n || first->wait != WAIT_BARRIER || first->op != OP_BARRIER || env->arrived[first->mask & 15]) return 0;
    if (env->cells) meet_all(env);
    return 1;
}

// Let every thread of a block that can continue do so, once. Returns whether the block is still running, or STANDS_STILL.
static __device__ int advance(Env* env) {
    Launch* launch = launch_of(env);
    Thread* threads = threads_of(env);
    u32* order = (u32*)launch->order;
    u32 n = coroutines(env), start = env->start, together = env->together;
    if (together && !env->tables) {
        env->moved = 1;
        if (resume_together(env)) return 1;
        together = 0;  // they are at different places now
    }
    launch->visits += n;
    u32 alive = 0, progress = 0, at_barrier = 0;
    u64 what = 0, where = 0;  // wait and op, mask and site of the first
    Thread* first = 0;
    for (u32 i = 0; i < n; i++) {
        Thread* t = &threads[order[i]];
        if (start) {
            t->wait = WAIT_READY;
            call_start((u64)env, (u64)t);
            env->moved = progress = 1;
        } else if (t->wait == WAIT_CHANGE) {
            if (!keeps_waiting(env, t)) {
                env->moved |= !env->idle || t->mask == PATIENT;  // not if it looks once more in vain
                call_resume(t->handle);
            }
            progress = 1;
        } else if (t->wait == WAIT_PHASE || t->wait == WAIT_CLUSTER) {
            if (t->wait == WAIT_PHASE ? phase_is_over(env, t) : may_cross(env, t)) {
                call_resume(t->handle);
                env->moved = progress = 1;
            }
        } else if (together || t->wait == WAIT_READY || t->wait == WAIT_TURN) {
            if (t->wait != WAIT_TURN || !is_held(t)) call_resume(t->handle);
            env->moved = progress = 1;
        }
        if (env->tables && (i + 1 == n || order[i + 1] / 32 != order[i] / 32)) settle(env, order[i] / 32);
        if (t->wait == WAIT_EXITED) {
            env->faulted |= t->dead & DEAD_FAULT;
            if (launch->finals) leave(env, t);
            continue;
        }
        alive++;
        if (!first) {
            first = t;
            what = *(u64*)&t->wait;
            where = *(u64*)&t->mask;
        }
        at_barrier += *(u64*)&t->wait == what && *(u64*)&t->mask == where;
    }
    if (!alive) return 0;
    env->start = 0;
    if (env->cells && launch->coarsening > 1 && at_barrier != n) {  // lanes do not tell who is where
        suspect(env, threads, SUSPECT_LANES);
        return 0;
    }
    env->together = at_barrier == n && first->wait == WAIT_BARRIER && first->op == OP_BARRIER &&
                    !env->arrived[first->mask & 15];
    if (env->together) {
        if (env->cells) meet_all(env);
    } else if (!serve(env, launch->threads, alive) && !progress && (launch->clustered || !land_something(env))) {
        if (launch->clustered) return STANDS_STILL;  // it may wait for another block
        if (!env->faulted) deadlock(env);  // after a fault the rest only wait for the dead
        return 0;
    }
    return 1;
}

// Run one block of coroutines to its end.
EXPORT void rt_block(Env* env) {
    while (advance(env))
        if (env->cells) next_round(env, 1);
}

// Nothing of a block is under way any more.
static __device__ void end_block(Env* env) {
    if (!bulks_of(env)->used) return;
    bulks_of(env)->used = 0;
    end_registers(env);
    for (u32 i = 0; i < launch_of(env)->threads / GROUP_THREADS; i++) {
        Group* g = (Group*)env->groups + i;
        g->count = 0;
        if (!env->faulted) part_of_warp(env, g, threads_of(env) + i * GROUP_THREADS);
    }
    end_copies(env);
}

// Nothing is written yet in a shared array of a block.
static __device__ __forceinline__ void empty_shared(Env* env, u64 address, u64 bytes) {
    u64 *at = (u64*)(env->arena + (address & ~7ull)), *end = (u64*)(env->arena + address + bytes);
    while (at < end) *at++ = POISON;
    if (!launch_of(env)->check_sync) return;
    bytes += address & 3;
    unsigned char *shadow = shadow_of(env, address), *last = shadow + (bytes >> 2);
    for (; shadow + 8 <= last; shadow += 8) *(u64*)shadow = (READ | WRITE) * 0x0101010101010101ull;
    for (; shadow < last; shadow++) *shadow = READ | WRITE;
    if (bytes & 3) *last = PARTIAL | INIT | 1 << (bytes & 3) << 4;
}

// Whether a launch takes too long as the i-th block is about to begin.
static __device__ int took_too_long(Env* env, u64 i) {
    if ((i & 63) != 63 || !is_late(env)) return 0;
    launch_of(env)->stop = GIVEN_UP;
    record(env, threads_of(env), 0, FAULT_TIMEOUT, 0, TIMEOUT_BLOCKS, 0, 0, 0);
    return 1;
}

// Put a block into a slot.
static __device__ __forceinline__ void begin_block(Env* env, u64 block) {
    Launch* launch = launch_of(env);
    env->block = block;
    u64 row = block < launch->grid_x ? 0 : block / launch->grid_x;  // dividing takes as long as some blocks
    u64 slice = row < launch->grid_y ? 0 : row / launch->grid_y;
    env->ctaid_x = (u32)(block - row * launch->grid_x);
    env->ctaid_y = (u32)(row - slice * launch->grid_y);
    env->ctaid_z = (u32)slice;
    env->start = 1;
    env->slice = env->granted = full_slice(env);
    env->calls = SLICE;
    env->together = env->faulted = env->moved = env->idle = 0;
    env->frames_used = 0;
    for (u32 k = 0; k < 16; k += 2) *(u64*)&env->arrived[k] = 0;
    if (env->tables) start_counting(env);
    if (env->cells) start_block(env);
    if (env->unset) unset_all(env, env->shared_base + SHARED_START, (launch->shared_bytes + 3) & ~3ull);
    Extent* extents = (Extent*)launch->extents;
    for (u32 k = 0; k < launch->extent_count; k++) {
        u64 address = env->shared_base + extents[k].offset;
        if (!extents[k].written) empty_shared(env, address, extents[k].bytes);
        if (extents[k].padding) set_padding(env, address, extents[k].padding);
    }
}

// Put the next block into a slot. Returns 0 when there is none.
static __device__ int next_block(Env* env) {
    Launch* launch = launch_of(env);
    if (env->taken == env->taken_end) {
        if (*(volatile u64*)&launch->next_block >= launch->until) return 0;
        env->taken = atomicAdd(&launch->next_block, launch->at_once);
        env->taken_end = env->taken + launch->at_once;
    }
    u64 i = env->taken++;
    if (i >= launch->blocks * launch->pieces || launch->stop) return 0;
    if (took_too_long(env, i)) return 0;
    env->first = 0;
    if (launch->pieces > 1) {
        env->first = i % launch->pieces * launch->piece;
        i /= launch->pieces;
    }
    u64 block = i;
    if (launch->block_multiplier != 1 || launch->block_offset)
        block = (i * launch->block_multiplier + launch->block_offset) % launch->blocks;
    begin_block(env, block);
    return 1;
}

// Whether all a block does any more is wait at the barrier of the grid.
static __device__ int only_polls(Env* env) {
    u32 polls = 0;
    for (u32 i = 0; i < launch_of(env)->threads; i++) {
        Thread* t = &threads_of(env)[i];
        if (t->wait == WAIT_TURN || t->wait == WAIT_CHANGE) return 0;
        if (t->wait != WAIT_READY) continue;
        if (!extra_of(env, t->linear)->polls) return 0;
        polls++;
    }
    return polls > 0;
}

// The blocks in these slots wait at the barrier of the grid for others that never arrive.
static __device__ void missing_block(Env* env, u32 slots) {
    Env* first = 0;
    u64 missing = 0, waiting = 0;
    for (u32 s = 0, found = 1; found; missing += found) {
        for (found = 0, s = 0; s < slots; s++) found |= env[s].running && env[s].block == missing;
    }
    for (u32 s = 0; s < slots; s++) {
        if (!env[s].running) continue;
        waiting++;
        if (!first || env[s].block < first->block) first = &env[s];
    }
    Thread* t = threads_of(first);
    while (t->wait != WAIT_READY) t++;
    record(first, t, extra_of(first, t->linear)->polls, FAULT_MISSING_BLOCK, waiting, launch_of(env)->blocks - waiting, 0, 0,
           missing);
}

// A worker's job: run blocks until there are none. If blocks may wait for one another, it runs several in turns.
EXPORT void rt_run(Env* env) {
    u32 slots = launch_of(env)->slots;
    prepare(env, slots);
    if (launch_of(env)->clustered) return run_clusters(env);
    if (slots == 1) {
        while (next_block(env)) {
            call_block((u64)env);
            end_block(env);
        }
        return;
    }
    u32 running = 0, faulted = 0, idle = 0;  // idle: how many times in a row all of them only waited for the grid
    for (u32 s = 0; s < slots; s++) running += env[s].running = next_block(&env[s]);
    while (running && idle < 2) {
        u32 waiting = 0;
        for (u32 s = 0; s < slots; s++) {
            if (!env[s].running) continue;
            if (!advance(&env[s])) {
                end_block(&env[s]);
                faulted |= env[s].faulted;
                running -= !(env[s].running = next_block(&env[s]));
            } else if (launch_of(env)->grid_sync) waiting += only_polls(&env[s]);
        }
        if (env->cells) next_round(env, slots);
        idle = running && waiting == running ? idle + 1 : 0;
    }
    if (running && !faulted) missing_block(env, slots);
}
