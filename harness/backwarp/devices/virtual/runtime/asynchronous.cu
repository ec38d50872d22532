// cp.async: copies that arrive at the wait, as late as allowed.

EXPORT int rt_copy_reset(Env* env, Thread* thread, u32 site) {
    Extra* e = extra_of(env, thread->linear);
    e->copies = e->first_copy = e->group = e->bulk_group = 0;
    Group* g = (Group*)env->groups + thread->linear / WARPGROUP;
    g->committed[thread->linear % WARPGROUP] = g->waited[thread->linear % WARPGROUP] = 0;
    return 0;
}

// The unset bits of the copied data.
static __device__ void follow_copy(Env* env, Thread* thread, u32 site, u64 to, u64 from, u32 size, u32 bytes) {
    for (u32 k = 0; k < size; k++) {
        unsigned char unset = k < bytes ? *unset_of(env, from + k) : 0;
        *unset_of(env, to + k) = unset;
        if (unset) rt_unset_stored(env, thread, site, to + k, 1, rt_unset_loaded(env, thread, site, from + k, 1, 1));
    }
}

// Let copy `i` arrive: its source is read only now.
static __device__ void arrive(Env* env, Thread* thread, Extra* e, u32 i) {
    u64 to = e->copy_to[i], from = e->copy_from[i];
    u32 size = e->copy_size[i], bytes = e->copy_bytes[i], site = e->copy_site[i];
    if (env->counting && e->copy_work[i] == e->work) ((Counting*)env->counting)->idle_copies++;
    if (launch_of(env)->check_sync) {
        if (env->unset) follow_copy(env, thread, site, to, from, size, bytes);
        else
            for (u32 k = 0; k < bytes; k++)
                if (!byte_written(env, from + k)) suspect(env, thread, SUSPECT_UNSET);
        for (u32 k = 0; k < size; k += 4) {
            if (k < bytes) rt_race(env, thread, site, from + k, 4, 0);
            rt_race(env, thread, site, to + k, 4 | INFO_WRITE, 0);
            *shadow_of(env, to + k) |= INIT;
        }
    }
    u64 there = env->arena + to, here = env->arena + from;
    for (u32 k = 0; k < size; k += 4) {
        if (k + 4 <= bytes) *(u32*)(there + k) = *(u32*)(here + k);
        else
            for (u32 b = k; b < k + 4; b++) *(unsigned char*)(there + b) = b < bytes ? *(unsigned char*)(here + b) : 0;
    }
}

// Let all copies of the groups before `group` arrive, in the order in which they were started.
static __device__ void arrive_before(Env* env, Thread* thread, Extra* e, u64 group) {
    while (e->copies && e->copy_group[e->first_copy] < group) {
        arrive(env, thread, e, e->first_copy);
        e->first_copy = (e->first_copy + 1) % MAX_COPIES;
        e->copies--;
    }
}

// Whether all granules of some bytes may be accessed whole.
static __device__ int granules_allowed(Env* env, u64 address, u64 bytes, u32 need) {
    if ((address | bytes) & 3 || address >= env->arena_size || env->arena_size - address < bytes) return 0;
    unsigned char *shadow = shadow_of(env, address), *end = shadow + (bytes >> 2);
    u64 several = need * 0x0101010101010101ull, allowed = several;
    for (; shadow + 8 <= end; shadow += 8) allowed &= *(u64*)shadow;
    if (allowed != several) return 0;
    for (; shadow < end; shadow++) allowed &= *shadow;
    return (allowed & 255) == need;
}

// Whether a thread may start a copy.
EXPORT int rt_copy_check(Env* env, Thread* thread, u32 site, u64 to, u64 from, u64 size, u64 bytes) {
    int odd_to = (to & (size - 1)) != 0, odd_from = (from & (size - 1)) && bytes;
    int whole = granules_allowed(env, to, size, WRITE) && (!bytes || granules_allowed(env, from, bytes, READ));
    for (u32 k = 0; k < size && !(odd_to && k) && !whole; k++)
        if (!byte_allowed(env, to + k, WRITE)) return rt_fault(env, thread, site, FAULT_OUT_OF_BOUNDS, to + k, size | INFO_WRITE);
    for (u32 k = 0; k < bytes && !(odd_from && k) && !whole; k++)
        if (!byte_allowed(env, from + k, READ)) return rt_fault(env, thread, site, FAULT_OUT_OF_BOUNDS, from + k, size);
    if (odd_to) return rt_fault(env, thread, site, FAULT_MISALIGNED, to, size | INFO_WRITE);
    if (odd_from) return rt_fault(env, thread, site, FAULT_MISALIGNED, from, size);
    return 1;
}

EXPORT int rt_copy(Env* env, Thread* thread, u32 site, u64 to, u64 from, u64 size, u64 bytes) {
    Extra* e = extra_of(env, thread->linear);
    if (bytes > size) bytes = size;
    if (!rt_copy_check(env, thread, site, to, from, size, bytes)) return 0;
    if (launch_of(env)->check_sync)
        for (u32 k = 0; k < size; k += 4) {  // it may arrive at once: others may not use the place any more, and nobody yet
            rt_race(env, thread, site, to + k, 4 | INFO_WRITE, 0);
            *shadow_of(env, to + k) &= READ | WRITE;
            if (env->unset) {
                unset_all(env, to + k, 4);
                trace_of(env, to + k)->origin = origin(ORIGIN_COPYING, site, to + k);
                trace_of(env, to + k)->copy_site = site;
            }
        }
    if (e->copies == MAX_COPIES) arrive_before(env, thread, e, e->copy_group[e->first_copy] + 1);
    u32 i = (e->first_copy + e->copies++) % MAX_COPIES;
    e->copy_to[i] = to; e->copy_from[i] = from; e->copy_size[i] = (u32)size; e->copy_bytes[i] = (u32)bytes;
    e->copy_site[i] = site; e->copy_group[i] = e->group; e->copy_work[i] = e->work;
    return 1;
}

EXPORT int rt_copy_commit(Env* env, Thread* thread, u32 site) {
    extra_of(env, thread->linear)->group++;
    return 0;
}

// All but the `pending` newest committed groups have arrived; NOBODY: everything, committed or not.
EXPORT int rt_copy_wait(Env* env, Thread* thread, u32 site, u64 pending) {
    Extra* e = extra_of(env, thread->linear);
    if (pending == NOBODY) arrive_before(env, thread, e, ~0ull);
    else if (e->group > pending) arrive_before(env, thread, e, e->group - pending);
    return 0;
}
