// Copies of many bytes and of tensors, and the barriers in memory that count their bytes. They arrive as late as allowed:
// a load when all threads of the block wait, a store when its group is waited for.

constexpr u32 GROUP_THREADS = WARPGROUP;
constexpr u64 OVERLAPPED = 1ull << 63;  // of a product: a load is under way meanwhile
// 64 x N x K, whose row of 32 bytes has so many elements.
static __device__ u64 flop_of(u64 how) {
    u32 type = (u32)(how >> 12) & 15;
    return 128 * (how & 511) * (type <= WG_BF16 ? 16 : type == WG_TF32 ? 8 : 32);
}

// How a copy was asked for: see emit/async_copies.py.
static __device__ __forceinline__ u32 kind_of(const Bulk* b) { return b->how & 15; }
static __device__ __forceinline__ int is_load(u32 kind) { return kind <= BULK_VALUE; }
static __device__ __forceinline__ int is_tensor(u32 kind) { return kind == BULK_TILE || kind == BULK_IM2COL || kind == BULK_STORE_TILE; }
static __device__ __forceinline__ Bulks* bulks_of(Env* env) { return (Bulks*)env->bulks; }
static __device__ __forceinline__ Bulk* bulk(Env* env, u32 i) { return (Bulk*)bulks_of(env)->data + i; }
static __device__ __forceinline__ TensorMap* map_of(const Bulk* b) { return (TensorMap*)b->map; }

// ---- rows -----------------------------------------------------------------------------------------------------

// Goes over what a copy of a tensor moves, row by row of the innermost axis: where a row is in global memory, and at what
// distance from the start in shared memory, before the swizzle.
struct Rows { TensorMap* m; const Bulk* b; int at[5]; u32 index[5], left; u64 row, offset; int inside; };

static __device__ u32 rank_of(const TensorMap* m) { return m->kind & 15; }
static __device__ u32 count_along(const TensorMap* m, u32 axis) {
    u32 step = m->steps >> 4 * axis & 15;
    return axis ? (m->box[axis] + step - 1) / step : m->box[0];
}
static __device__ int is_im2col(const TensorMap* m) { return m->kind >> 12 & 1; }

// Pixels are counted in the second entry of the box.
static __device__ u64 rows_of(const TensorMap* m) {
    if (is_im2col(m)) return m->box[1];
    u64 rows = 1;
    for (u32 axis = 1; axis < rank_of(m); axis++) rows *= count_along(m, axis);
    return rows;
}
static __device__ u64 bytes_of(const TensorMap* m) { return rows_of(m) * m->box[0] * m->size; }

// Whether it is one that the host has made. What a kernel has put together in its place must not lead anywhere either.
static __device__ int is_map(const TensorMap* m) {
    u32 rank = rank_of(m), type = m->kind >> 16, wide = type <= TENSOR_BFLOAT16 ? (u32)(0x1321332210ull >> 4 * type) & 15 : 15;  // a power of 2
    if (m->magic != TENSOR_MAGIC || !m->address || rank < 1 || rank > 5 || m->size != 1u << wide) return 0;
    if ((m->kind >> 4 & 15) > 3 || is_im2col(m) && rank < 3 || m->box[0] * m->size & 15) return 0;
    for (u32 axis = 0; axis < rank; axis++) {
        u32 most = is_im2col(m) && axis == 1 ? 1024 : 256, step = m->steps >> 4 * axis & 15;
        if (m->box[axis] < 1 || m->box[axis] > most || step < 1 || step > 8) return 0;
    }
    return 1;
}

static __device__ void find_row(Rows* r) {
    const TensorMap* m = r->m;
    r->row = m->address;
    r->inside = 1;
    for (u32 axis = 1; axis < rank_of(m); axis++) {
        int x = r->at[axis];
        if (is_im2col(m) && axis + 1 < rank_of(m)) x += (int)r->b->offset[axis - 1];
        r->inside &= x >= 0 && (u32)x < m->dims[axis];
        r->row += (u64)(long long)x * m->strides[axis - 1];
    }
}

static __device__ Rows begin_rows(Env* env, const Bulk* b) {
    Rows r;
    r.m = map_of(b); r.b = b;
    for (u32 axis = 0; axis < 5; axis++) r.at[axis] = (int)b->at[axis], r.index[axis] = 0;
    r.left = (u32)rows_of(r.m); r.offset = 0;
    find_row(&r);
    return r;
}

// Returns 0 behind the last one.
static __device__ int next_row(Rows* r) {
    const TensorMap* m = r->m;
    u32 rank = rank_of(m);
    if (!--r->left) return 0;
    r->offset += m->box[0] * m->size;
    for (u32 axis = 1; axis < rank; axis++) {
        u32 step = m->steps >> 4 * axis & 15;
        if (is_im2col(m)) {
            r->at[axis] += axis + 1 < rank ? (int)step : 1;
            if (axis + 1 == rank || r->at[axis] < (int)m->dims[axis] + (int)m->upper[axis - 1]) break;
            r->at[axis] = (int)m->lower[axis - 1];
        } else {
            r->at[axis] += step;
            if (++r->index[axis] < count_along(m, axis)) break;
            r->index[axis] = 0;
            r->at[axis] = (int)r->b->at[axis];
        }
    }
    find_row(r);
    return 1;
}

// Where a byte of a copy is in shared memory. The swizzle is one of addresses within the block's shared memory.
static __device__ u64 in_shared(Env* env, const Bulk* b, const TensorMap* m, u64 offset) {
    u64 at = (is_load(kind_of(b)) ? b->to : b->from) - env->shared_base + offset;
    u32 mask = (1u << (m->kind >> 4 & 15)) - 1;
    return env->shared_base + (at ^ (at >> 7 & mask) << 4);
}

// ---- arriving -------------------------------------------------------------------------------------------------

// Bytes go from one place to the other; `size` is a multiple of 4 except for elements of 1 and 2 bytes.
static __device__ void move(Env* env, Thread* t, u32 site, u64 to, u64 from, u32 size) {
    if (env->unset) follow_copy(env, t, site, to, from, size, size);
    else if (launch_of(env)->check_sync && !granules_allowed(env, from, size, READ | INIT))
        for (u32 k = 0; k < size; k++)
            if (!byte_written(env, from + k)) { suspect(env, t, SUSPECT_UNSET); break; }
    u64 there = env->arena + to, here = env->arena + from;
    if (!((there | here | size) & 7))
        for (u32 k = 0; k < size; k += 8) *(u64*)(there + k) = *(u64*)(here + k);
    else
        for (u32 k = 0; k < size; k++) *(unsigned char*)(there + k) = *(unsigned char*)(here + k);
}

// What a copy brings that is outside the tensor.
static __device__ void fill(Env* env, u64 to, u32 size, const TensorMap* m) {
    u32 type = m->kind >> 16 & 15, nan = m->kind >> 8 & 1;
    for (u32 k = 0; k < size; k++) {
        u32 byte = m->size - 1 - k % m->size, value = 0;  // from the most significant one
        if (nan && byte == 0) value = 0x7f;
        if (nan && byte == 1) value = type == TENSOR_FLOAT16 ? 0 : type == TENSOR_FLOAT64 ? 0xf8 : 0xc0;
        if (nan && type == TENSOR_FLOAT16 && byte == 0) value = 0x7e;
        *(unsigned char*)(env->arena + to + k) = (unsigned char)value;
        if (env->unset) *unset_of(env, to + k) = 0;
    }
}

static __device__ __forceinline__ void landed(Env* env, u64 to, u32 size) {
    if (!launch_of(env)->check_sync) return;
    if (size == 16 && !(to & 15)) *(u32*)shadow_of(env, to) |= INIT * 0x01010101u;
    else
        for (u32 k = 0; k < size; k += 4) *shadow_of(env, to + k) |= INIT;
}

// A row of a tensor that is all inside arrives.
static __device__ void land_row(Env* env, Thread* t, const Bulk* b, u64 to, u64 from, u32 width, u32 mask) {
    u64 there = env->arena + env->shared_base, here = env->arena + from;
    u32 plain = !env->unset && !(here & 7) && (!launch_of(env)->check_sync || granules_allowed(env, from, width, READ | INIT));
    for (u32 x = 0; x < width; x += 16) {
        u64 at = to + x;
        at ^= (at >> 7 & mask) << 4;
        if (plain) {
            u64 *a = (u64*)(there + at), *data = (u64*)(here + x);
            a[0] = data[0]; a[1] = data[1];
        } else move(env, t, b->site, env->shared_base + at, from + x, 16);
        landed(env, env->shared_base + at, 16);
    }
}

static __device__ void update_element(u64 to, u64 from, u32 update, u32 type);

// Values of st.async or red.async arrive.
static __device__ void land_values(Env* env, const Bulk* b) {
    u32 update = b->how >> 4 & 15;
    if (update) return update_element(env->arena + b->to, (u64)b->map, update, b->how >> 8 & 15);
    for (u32 k = 0; k < b->bytes; k++) ((unsigned char*)(env->arena + b->to))[k] = ((unsigned char*)b->map)[k];
    for (u32 k = 0; k < b->bytes && env->unset; k++) *unset_of(env, b->to + k) = 0;
    landed(env, b->to, (u32)b->bytes);
}

// A load arrives in the block's shared memory.
static __device__ void land(Env* env, const Bulk* b) {
    Thread* t = threads_of((Env*)b->from_env) + b->thread;  // who has started it
    if (kind_of(b) == BULK_VALUE) return land_values(env, b);
    if (!is_tensor(kind_of(b))) {
        for (u64 k = 0; k < b->bytes; k += 16) move(env, t, b->site, b->to + k, b->from + k, 16);
        landed(env, b->to, (u32)b->bytes);
        return;
    }
    Rows r = begin_rows(env, b);
    TensorMap* m = r.m;
    u32 width = m->box[0] * m->size, each = 16 / m->size;
    u32 mask = (1u << (m->kind >> 4 & 15)) - 1;
    do {
        if (r.inside && r.at[0] >= 0 && r.at[0] + (int)m->box[0] <= (int)m->dims[0]) {
            land_row(env, t, b, b->to - env->shared_base + r.offset, r.row + (u64)r.at[0] * m->size, width, mask);
            continue;
        }
        for (u32 x = 0; x < width; x += 16) {
            u64 to = in_shared(env, b, m, r.offset + x);
            int column = r.at[0] + (int)(x / m->size);
            u64 from = r.row + (u64)(long long)column * m->size;
            if (r.inside && column >= 0 && column + (int)each <= (int)m->dims[0]) move(env, t, b->site, to, from, 16);
            else
                for (u32 e = 0; e < each; e++) {
                    int there = column + (int)e;
                    if (r.inside && there >= 0 && there < (int)m->dims[0])
                        move(env, t, b->site, to + e * m->size, from + e * m->size, m->size);
                    else fill(env, to + e * m->size, m->size, m);
                }
            landed(env, to, 16);
        }
    } while (next_row(&r));
}

template <typename T> static __device__ T updated(u32 update, T old, T by) {
    switch (update) {
        case UPDATE_ADD: return old + by;
        case UPDATE_MIN: return by < old ? by : old;
        case UPDATE_MAX: return by > old ? by : old;
        case UPDATE_INC: return old >= by ? T(0) : old + T(1);
        case UPDATE_DEC: return old == T(0) || old > by ? by : old - T(1);
        default: return by;
    }
}

static __device__ float widened(unsigned short bits, int bfloat) {
    float wide;
    if (bfloat) return __int_as_float((u32)bits << 16);
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
    return wide;
}

static __device__ unsigned short narrowed(float wide, int bfloat) {
    unsigned short bits;
    if (bfloat) asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(wide));
    else asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(wide));
    return bits;
}

// One element of a reduction.
static __device__ void update_element(u64 to, u64 from, u32 update, u32 type) {
    u32 bytes = type == TENSOR_UINT64 || type == TENSOR_INT64 || type == TENSOR_FLOAT64 ? 8 : 4;
    if (update >= UPDATE_AND) {
        u64 old = bytes == 8 ? *(u64*)to : *(u32*)to, by = bytes == 8 ? *(u64*)from : *(u32*)from;
        old = update == UPDATE_AND ? old & by : update == UPDATE_OR ? old | by : old ^ by;
        if (bytes == 8) *(u64*)to = old; else *(u32*)to = (u32)old;
        return;
    }
    switch (type) {
        case TENSOR_INT32: *(int*)to = updated(update, *(int*)to, *(int*)from); break;
        case TENSOR_INT64: *(long long*)to = updated(update, *(long long*)to, *(long long*)from); break;
        case TENSOR_UINT64: *(u64*)to = updated(update, *(u64*)to, *(u64*)from); break;
        case TENSOR_FLOAT32: *(float*)to = updated(update, *(float*)to, *(float*)from); break;
        case TENSOR_FLOAT64: *(double*)to = updated(update, *(double*)to, *(double*)from); break;
        case TENSOR_FLOAT16: case TENSOR_BFLOAT16: {
            int bfloat = type == TENSOR_BFLOAT16;
            float sum = updated(update, widened(*(unsigned short*)to, bfloat), widened(*(unsigned short*)from, bfloat));
            *(unsigned short*)to = narrowed(sum, bfloat);
            break;
        }
        default: *(u32*)to = updated(update, *(u32*)to, *(u32*)from);
    }
}

// Some bytes of a store, or of a reduction, arrive in global memory.
static __device__ void put(Env* env, Thread* t, const Bulk* b, u64 to, u64 from, u32 size, u32 element, u32 type) {
    u32 update = b->how >> 4 & 15;
    if (!update) move(env, t, b->site, to, from, size);
    else
        for (u32 k = 0; k < size; k += element) update_element(env->arena + to + k, env->arena + from + k, update, type);
    if (launch_of(env)->check_sync && !update) set_written(env, to, size);
}

// A store arrives.
static __device__ void store(Env* env, Thread* t, const Bulk* b) {
    u32 type = b->how >> 8 & 15, width;
    if (kind_of(b) == BULK_STORE) {
        u32 element = type == TENSOR_FLOAT16 || type == TENSOR_BFLOAT16 ? 2 : type == TENSOR_UINT64 || type == TENSOR_INT64 || type == TENSOR_FLOAT64 ? 8 : 4;
        for (u64 k = 0; k < b->bytes; k += 16) put(env, t, b, b->to + k, b->from + k, 16, element, type);
        return;
    }
    Rows r = begin_rows(env, b);
    TensorMap* m = r.m;
    width = m->box[0] * m->size;
    do
        for (u32 x = 0; x < width && r.inside; x += m->size) {
            int column = r.at[0] + (int)(x / m->size);
            if (column < 0 || column >= (int)m->dims[0]) continue;
            put(env, t, b, r.row + (u64)(long long)column * m->size, in_shared(env, b, m, r.offset + x), m->size, m->size, m->kind >> 16 & 15);
        }
    while (next_row(&r));
}

static __device__ void drop(Env* env, u32 i) {
    Bulks* all = bulks_of(env);
    all->count--;
    for (; i < all->count; i++) *bulk(env, i) = *bulk(env, i + 1);
}

// ---- barriers -------------------------------------------------------------------------------------------------

// Of 64 bits, a barrier has 20 for the count that is expected, 20 for what is pending of it, 3 for the phase and 21, with a
// sign, for the bytes that are expected.
constexpr u64 MB_COUNT = 0xfffff, MB_PHASE = 7;
static __device__ __forceinline__ u64 mb_word(u64 expected, u64 pending, u64 phase, long long bytes) {
    return expected | pending << 20 | (phase & MB_PHASE) << 40 | (u64)bytes << 43;
}
static __device__ __forceinline__ long long mb_bytes(u64 word) { return (long long)word >> 43; }

// Whether the phase that a thread asks for is over.
static __device__ int is_over(u64 word, u32 what, u64 argument) {
    u64 phase = word >> 40 & MB_PHASE;
    return what == MBARRIER_TEST ? phase != (argument >> 40 & MB_PHASE) : (phase & 1) != (argument & 1);
}

// What is known of a barrier in a block's shared memory, if it is of this one.
static __device__ __forceinline__ Arrival* arrival_at(Env* env, u64 barrier) {
    return (Arrival*)bulks_of(env)->last + (barrier >> 3) % LAST_ARRIVALS;
}

// The same, of this one from now on. made: it is initialised.
static __device__ Arrival* open_arrival(Env* env, u64 barrier, int made) {
    Arrival* a = arrival_at(env, barrier);
    if (a->barrier == barrier && !made) return a;
    a->barrier = barrier;
    a->site = a->made = a->over = a->unseen = 0;
    for (u32 k = 0; k < 16; k++) a->seen[k] = a->came[k] = 0;
    return a;
}

// Whether a thread has waited for the last phase that is over.
static __device__ u32 has_seen(Env* env, Thread* t, u64 barrier) {
    Arrival* a = arrival_at(env, barrier);
    return a->barrier == barrier && a->seen[t->linear / 64] >> (t->linear & 63) & 1;
}

// A thread goes on, as the phase it asks for is over.
static __device__ void see_phase(Env* env, Thread* t, u64 barrier) {
    Arrival* a = arrival_at(env, barrier);
    if (a->barrier == barrier) {
        for (u32 k = 0; k < 16 && a->unseen; k++) a->came[k] = 0;
        a->unseen = 0;
        a->seen[t->linear / 64] |= 1ull << (t->linear & 63);
    }
    if (Phase* p = env->cells ? find_phase(env, barrier) : 0) wait_for_phase(env, t, p);
}

// Everything that a phase waits for has happened.
static __device__ void complete_phase(Env* env, u64* barrier) {
    Arrival* a = arrival_at(owner_of(env, (u64)barrier - env->arena), (u64)barrier);
    if (a->barrier == (u64)barrier) {
        a->over = 1;
        if (a->unseen < MB_COUNT) a->unseen++;
        for (u32 k = 0; k < 16; k++) a->seen[k] = 0;
    }
    u64 word = *barrier, expected = word & MB_COUNT;
    *barrier = mb_word(expected, expected, (word >> 40) + 1, 0);
    if (Phase* p = env->cells ? find_phase(env, (u64)barrier) : 0) finish_phase(env, p);
}

// A load has arrived, and threads that wait for the phase know that.
static __device__ void count_in(Env* env, const Bulk* b) {
    if (Phase* p = env->cells ? find_phase(env, b->barrier) : 0) p->arrived = merge(env, p->arrived, completion((Env*)b->from_env, b->agent), 0);
}

// Let loads arrive that complete a phase at which all threads have arrived: as many, in their order, as have its bytes.
static __device__ int land_for(Env* env, u64* barrier) {
    Bulks* all = bulks_of(env);
    u64 word = *barrier;
    long long bytes = mb_bytes(word);
    if (word >> 20 & MB_COUNT || bytes <= 0) return 0;
    u32 needed = 0;
    for (u32 i = 0; i < all->count && bytes > 0; i++)
        if (bulk(env, i)->barrier == (u64)barrier) bytes -= (long long)bulk(env, i)->bytes, needed++;
    if (bytes) return 0;
    for (u32 i = 0; needed; i++)
        while (needed && i < all->count && bulk(env, i)->barrier == (u64)barrier) {
            Bulk b = *bulk(env, i);
            drop(env, i);
            land(env, &b);
            count_in(env, &b);
            needed--;
        }
    complete_phase(env, barrier);
    return 1;
}

// No thread of the block can go on: let what one of them waits for arrive. Returns 0 if nothing can.
static __device__ int land_something(Env* env) {
    for (u32 i = 0; i < launch_of(env)->threads; i++) {
        Thread* t = &threads_of(env)[i];
        if (t->wait == WAIT_PHASE && land_for(env, (u64*)t->arg0)) return 1;
    }
    return 0;
}

// Whether a thread that waits for a phase may go on.
static __device__ int phase_is_over(Env* env, Thread* t) {
    if (!is_over(*(u64*)t->arg0, (u32)t->arg1, t->arg2)) return 0;
    see_phase(env, t, t->arg0);
    t->wait = WAIT_READY;
    return 1;
}

EXPORT u64 rt_mbarrier(Env* env, Thread* thread, u32 site, u64 what, u64* barrier, u64 argument) {
    Env* at = owner_of(env, (u64)barrier - env->arena);
    u64 old = *barrier, expected = old & MB_COUNT, pending = old >> 20 & MB_COUNT;
    long long bytes = mb_bytes(old);
    Phase* p = what == MBARRIER_INIT || what == MBARRIER_INVAL ? env->cells ? find_phase(env, (u64)barrier) : 0 : 0;
    if (p && what == MBARRIER_INVAL) p->made_at = 0;
    if (what == MBARRIER_INIT) {
        int used = p && (p->complete || p->arrived || old != mb_word(expected, expected, 0, 0));
        if (p && p->made_at && used) record(env, thread, site, FAULT_MADE_AGAIN, (u64)barrier - env->arena, 0, p->made_at - 1, thread->linear, env->block);
        if (p) p->made_at = site + 1;
        open_arrival(at, (u64)barrier, 1)->made = site + 1;
        *barrier = mb_word(argument & MB_COUNT, argument & MB_COUNT, 0, 0);
    } else if ((what & ~MB_LOOK) == MBARRIER_TEST || (what & ~MB_LOOK) == MBARRIER_PARITY) {
        u32 which = (u32)what & ~MB_LOOK;
        if (which == MBARRIER_PARITY && argument > 1 && launch_of(env)->check_sync)
            record(env, thread, site, FAULT_PARITY, (u64)barrier - env->arena, argument, 0, 0, env->block);
        if (env->counting && is_over(old, which, argument)) ((u64*)((Counting*)env->counting)->complete)[site]++;
        if (!(what & MB_LOOK) && !is_over(old, which, argument)) land_for(env, barrier);
        if (!is_over(*barrier, which, argument)) return 0;
        see_phase(env, thread, (u64)barrier);
        return 1;
    } else if (what == MBARRIER_EXPECT_TX || what == MBARRIER_COMPLETE_TX) {
        bytes += what == MBARRIER_EXPECT_TX ? (long long)(u32)argument : -(long long)(u32)argument;
        *barrier = mb_word(expected, pending, old >> 40, bytes);
        if (!pending && !bytes) complete_phase(env, barrier);
    } else if (what == MBARRIER_ARRIVE || what == MBARRIER_ARRIVE_DROP) {
        if ((long long)argument > (long long)pending && launch_of(env)->check_sync) {
            Arrival* last = arrival_at(at, (u64)barrier);
            int known = last->barrier == (u64)barrier && last->site;
            record(env, thread, site, FAULT_TOO_MANY, (u64)barrier - env->arena, expected, known ? last->site - 1 : 0, known ? last->thread : 0, known ? last->block : 0);
        }
        if (what == MBARRIER_ARRIVE_DROP) expected -= argument;
        pending = pending - argument & MB_COUNT;
        *barrier = mb_word(expected, pending, old >> 40, bytes);
        if (Phase* p = env->cells ? find_phase(env, (u64)barrier) : 0) arrive_at_phase(env, thread, p);
        Arrival* last = open_arrival(at, (u64)barrier, 0);
        last->came[thread->linear / 64] |= 1ull << (thread->linear & 63);
        last->site = site + 1; last->thread = thread->linear; last->block = env->block;
        if (!pending && !bytes) complete_phase(env, barrier);
    }
    return old;
}

// Whether two threads wait for the same, in the same line, with the same behind them.
static __device__ int wait_alike(Env* env, Thread* t, Thread* other) {
    if (t->wait != other->wait || t->site != other->site) return 0;
    if (t->wait != WAIT_PHASE) return 1;
    return t->result1 == other->result1 && t->arg0 == other->arg0 && t->arg1 == other->arg1 && t->arg2 == other->arg2 && has_seen(env, t, t->arg0) == has_seen(env, other, t->arg0);
}

// Tell of some threads that wait for the same. In Fault.wait: in 20 bits how many arrivals the barrier was made for, in 20 the last
// phases that nobody has waited for, the parity, whether any phase is over, whether these threads have waited for the last one,
// whether more threads have arrived since than it was made for, and in 20 the site that made it, plus 1. Those that do not wait for
// a phase have no address, and how they wait as `extra`.
static __device__ void tell_waiters(Env* env, Thread* t, u32 count, u32 last_one) {
    if (t->wait != WAIT_PHASE) {
        record_wait(env, t, t->site, FAULT_STUCK_AT_PHASE, 0, t->wait, 0, 0, 0, 1, count, last_one, 0);
        return;
    }
    u64 word = *(u64*)t->arg0, under_way = 0;
    for (u32 i = 0; i < bulks_of(env)->count; i++)
        if (bulk(env, i)->barrier == t->arg0) under_way += bulk(env, i)->bytes;
    Arrival* a = arrival_at(env, t->arg0);
    int known = a->barrier == t->arg0, arrived = known && a->site;
    u64 extra = word >> 20 & MB_COUNT | ((u64)mb_bytes(word) & 0x1fffff) << 20 | (under_way & 0x3fffff) << 41;
    u64 parity = ((u32)t->arg1 == MBARRIER_TEST ? t->arg2 >> 40 : t->arg2) & 1, came = 0;
    u64 wait = word & MB_COUNT | parity << 40;
    for (u32 k = 0; k < 16; k++) came += __popcll(a->came[k]);
    if (known) wait |= (u64)(came > (word & MB_COUNT)) << 43 | (u64)a->unseen << 20 | (u64)(a->over > 0) << 41 | (u64)has_seen(env, t, t->arg0) << 42 | (u64)a->made << 44;
    record_wait(env, t, t->site, FAULT_STUCK_AT_PHASE, t->arg0 - env->arena, extra, arrived ? a->site - 1 : 0, arrived ? a->thread : 0,
                arrived ? a->block : 0, wait, count, last_one, (u32)t->result1);
}

// All threads of the block, or of its cluster, wait, some of them for phases: tell who waits for what.
static __device__ void stuck_at_phase(Env* env) {
    u32 blocks = launch_of(env)->clustered ? launch_of(env)->cluster : 1;
    Env* first = launch_of(env)->clustered ? leader_of(env) : env;
    for (u32 rank = 0; rank < blocks; rank++) {
        Env* at = first + rank;
        Thread* threads = threads_of(at);
        for (u32 i = 0; i < launch_of(env)->threads && (blocks == 1 || at->running); i++) {
            u32 count = 0, last_one = i, before = 0;
            for (u32 k = 0; k < launch_of(env)->threads && threads[i].wait != WAIT_EXITED; k++) {
                if (!wait_alike(at, threads + i, threads + k)) continue;
                if (k < i) { before = 1; break; }
                count++; last_one = k;
            }
            if (count && !before) tell_waiters(at, threads + i, count, last_one);
        }
    }
    env->faulted = 1;
}

// ---- starting -------------------------------------------------------------------------------------------------

static __device__ int wrong(Env* env, Thread* t, u32 site, u32 kind, u64 address, u64 info) {
    rt_fault(env, t, site, kind, address, info);
    return 0;
}

// Whether all of these bytes may be accessed; else the first that may not is reported.
static __device__ int is_allowed(Env* env, Thread* t, u32 site, u64 address, u64 bytes, u32 need) {
    if (granules_allowed(env, address, bytes, need)) return 1;
    u32 info = 16 | (need & WRITE ? INFO_WRITE : 0);
    for (u64 k = 0; k < bytes; k++) {
        if (byte_allowed(env, address + k, need)) continue;
        if (need & WRITE && launch_of(env)->guarded && byte_allowed(env, address + k, READ)) {
            suspect(env, t, SUSPECT_STORED);
            return 0;
        }
        if (!byte_allowed(env, address + k, READ)) return outside(env, t, site, address + k, info);
        return wrong(env, t, site, FAULT_READ_ONLY, address + k, info);
    }
    return 1;
}

// Others may not use the place of a load any more, and nobody yet.
static __device__ void claim(Env* env, u32 site, u64 to) {
    *shadow_of(env, to) &= READ | WRITE;
    if (!env->unset) return;
    unset_all(env, to, 4);
    trace_of(env, to)->origin = origin(ORIGIN_COPYING, site, to);
    trace_of(env, to)->copy_site = site;
}

// What a copy reads in global memory, or writes there, is accessed by its agent; nobody writes what is read-only.
static __device__ void touch_global(Env* env, Thread* t, const Bulk* b, u32 agent, u64 start, u64 bytes, u32 size) {
    if (agent == NO_AGENT) return;
    u32 info = is_load(kind_of(b)) ? 0 : INFO_WRITE | (b->how >> 4 & 15 ? INFO_ATOMIC | INFO_BLIND : 0);
    for (u64 k = start & ~(u64)(size - 1); k < start + bytes; k += size) {
        if (info || *shadow_of(env, k) & WRITE) touch(env, t, agent, b->site, k, size, info, b->how >> 4 & 15);
        if (info && !(info & INFO_ATOMIC) && launch_of(env)->ordered) plain_write(env, k, size);
    }
}

// What a copy reads, or a store will write, in the tensor.
static __device__ int check_rows(Env* env, Thread* t, const Bulk* b, u32 need, u32 agent) {
    Rows r = begin_rows(env, b);
    TensorMap* m = r.m;
    do {
        int first = r.at[0] < 0 ? 0 : r.at[0], last = r.at[0] + (int)m->box[0];
        if (last > (int)m->dims[0]) last = (int)m->dims[0];
        if (!r.inside || first >= last) continue;
        u64 start = r.row + (u64)first * m->size, bytes = (u64)(last - first) * m->size;
        if (!is_allowed(env, t, b->site, start, bytes, need)) return 0;
        touch_global(env, t, b, agent, start, bytes, need & WRITE && m->size < 4 ? m->size : 4);
    } while (next_row(&r));
    return 1;
}

// A load is under way together with the products that have not been waited for.
static __device__ void overlap(Env* env) {
    for (u32 g = 0; g < launch_of(env)->threads / GROUP_THREADS; g++) {
        Group* group = (Group*)env->groups + g;
        for (u32 i = 0; i < group->count; i++) {
            Flight* f = (Flight*)group->flights + i;
            if (!(f->how & OVERLAPPED)) ((Counting*)env->counting)->overlapped += flop_of(f->how);
            f->how |= OVERLAPPED;
        }
    }
}

// Whether what a copy moves may be read and written: `at` is the block whose shared memory it concerns. told: racecheck knows
// already what is read in global memory.
static __device__ int check_bulk(Env* env, Env* at, Thread* thread, Bulk* b, u64 barrier, int told) {
    u32 kind = kind_of(b), tensor = is_tensor(kind), load = is_load(kind), site = b->site, step = kind == BULK_VALUE ? 4 : 16;
    u32 need = load ? READ : WRITE;
    u64 shared = load ? b->to : b->from, other = load ? b->from : b->to;
    // the swizzle changes places within rows of its own width
    if (!granules_allowed(env, shared, b->bytes, load ? WRITE : READ) || tensor && b->bytes & (16u << (map_of(b)->kind >> 4 & 15)) - 1)
        for (u64 k = 0; k < b->bytes; k += step)
            if (!is_allowed(env, thread, site, tensor ? in_shared(at, b, map_of(b), k) : shared + k, step, load ? WRITE : READ)) return 0;
    b->agent = begin_agent(env, thread, load ? AGENT_LOAD : AGENT_STORE, b->group);
    u32 agent = told ? NO_AGENT : b->agent;
    if (tensor ? !check_rows(env, thread, b, need, agent) : kind != BULK_VALUE && !is_allowed(env, thread, site, other, b->bytes, need)) return 0;
    if (kind == BULK_LOAD || kind == BULK_STORE) touch_global(env, thread, b, agent, other, b->bytes, 4);
    if (!load) return 1;
    if (barrier & 7) return wrong(env, thread, site, FAULT_MISALIGNED, barrier, 8 | INFO_WRITE);
    return granules_allowed(env, barrier, 8, READ | WRITE) || outside(env, thread, site, barrier, 8 | INFO_WRITE);
}

// Racecheck gets to know what a copy does in shared memory.
static __device__ void tell_bulk(Env* env, Env* at, Thread* thread, const Bulk* b) {
    u32 kind = kind_of(b), load = is_load(kind), site = b->site, update = kind == BULK_VALUE && b->how >> 4 & 15;
    u32 reads = load && kind != BULK_SEND ? NO_AGENT : begin_agent(env, thread, AGENT_SOURCE, b->group);
    Reads good = {};
    u32 swizzle = is_tensor(kind) ? 1 + (map_of(b)->kind >> 4 & 15) : 0;
    for (u64 k = 0; k < b->bytes; k += 4) {
        u64 to = is_tensor(kind) ? in_shared(at, b, map_of(b), k) : (load ? b->to : b->from) + k;
        if (load && env->cells) visit_peer(env, thread, site, to);
        if (load) touch(env, thread, b->agent, site, to, 4, INFO_WRITE | (update ? INFO_ATOMIC | INFO_BLIND : 0), swizzle);
        if (load && !update) claim(env, site, to);
        if (!load || kind == BULK_SEND) read_as(env, thread, 1, reads, site, kind == BULK_SEND ? b->from + k : to, &good);
    }
}

// A copy is under way: `at` is the block whose barrier counts it, or whose thread waits for it.
static __device__ void add_bulk(Env* env, Env* at, Thread* thread, const Bulk* b) {
    int load = is_load(kind_of(b));
    if (Phase* p = load && env->cells ? find_phase(env, b->barrier) : 0) arrive_at_phase(env, thread, p);
    if (bulks_of(at)->count == MAX_BULKS) {  // the oldest arrives
        Bulk first = *bulk(at, 0);
        drop(at, 0);
        if (is_load(kind_of(&first))) {
            land(at, &first);
            count_in(at, &first);
            rt_mbarrier(env, thread, b->site, MBARRIER_COMPLETE_TX, (u64*)first.barrier, first.bytes);
        } else store(at, threads_of(at) + first.thread, &first);
    }
    bulks_of(at)->used = 1;
    if (env->counting && load) overlap(at);
    *bulk(at, bulks_of(at)->count++) = *b;
}

// Checks a copy and starts it. how: see emit/async_copies.py. The coordinates, or values, are in Extra.data. bytes: and from bit
// 32 on, for a multicast, the ranks of the blocks that get it.
EXPORT int rt_bulk(Env* env, Thread* thread, u32 site, u64 how, u64 to, u64 from, u64 barrier, u64 bytes) {
    Bulk b;
    Extra* e = extra_of(env, thread->linear);
    b.to = to; b.from = from; b.bytes = (u32)bytes; b.how = (u32)how; b.site = site; b.thread = thread->linear; b.group = e->bulk_group;
    b.barrier = 0; b.from_env = (u64)env;
    for (u32 i = 0; i < 5; i++) b.at[i] = (u32)e->data[i];
    for (u32 i = 0; i < 3; i++) b.offset[i] = (u32)e->data[5 + i];
    u32 kind = kind_of(&b), tensor = is_tensor(kind), load = is_load(kind), mask = (u32)(bytes >> 32) & 0xffff;
    u64 shared = load ? to : from, global = load ? from : to;
    if (tensor) {
        if (global & 7 || !granules_allowed(env, global, sizeof(TensorMap), READ)) return wrong(env, thread, site, FAULT_INVALID_MAP, global, 0);
        for (u32 i = 0; i < 16; i++) b.map[i] = ((u64*)(env->arena + global))[i];
        TensorMap* m = map_of(&b);
        u32 update = (u32)how >> 4 & 15, type = m->kind >> 16, half = type == TENSOR_FLOAT16 || type == TENSOR_BFLOAT16;
        u32 why = !is_map(m) ? 1 : rank_of(m) != (how >> 12 & 15) ? 2 : is_im2col(m) != (kind == BULK_IM2COL) ? 3 : 0;
        if (!why && update && m->size < 4 && !(half && update <= UPDATE_MAX)) why = 4;
        if (why) return wrong(env, thread, site, FAULT_INVALID_MAP, global, why | (u64)rank_of(m) << 8 | (how & 0xffff) << 16);
        b.bytes = bytes_of(m);
    }
    if (kind == BULK_VALUE) {
        u32 each = (u32)b.bytes / (how >> 12 & 15);
        for (u32 k = 0; k < b.bytes; k++) ((unsigned char*)b.map)[k] = ((unsigned char*)&e->data[k / each])[k % each];
    }
    u32 align = tensor ? 128 : kind == BULK_VALUE ? (u32)b.bytes : 16;
    if (shared & align - 1) return wrong(env, thread, site, FAULT_MISALIGNED, shared, align | (load ? INFO_WRITE : 0));
    if (!tensor && kind != BULK_VALUE && (global & 15 || b.bytes & 15 || !b.bytes))
        return wrong(env, thread, site, FAULT_MISALIGNED, global, 16 | (load ? 0 : INFO_WRITE));
    if (load && !is_of_cluster(env, to)) return outside(env, thread, site, to, 16 | INFO_WRITE);
    Env *own = load ? owner_of(env, to) : env, *first = leader_of(env);
    u32 blocks = launch_of(env)->cluster, several = (u32)how >> 16 & 1;
    if (several && (!mask || mask >> blocks)) return wrong(env, thread, site, FAULT_NO_RANK, 0, 1ull << 63 | mask);
    if (env->counting && kind != BULK_SEND && kind != BULK_VALUE) ((Counting*)env->counting)->bulk_bytes += b.bytes;
    u32 told = 0;
    for (u32 rank = 0; rank < (several ? blocks : 1); rank++) {
        Env* at = several ? first + rank : own;
        u64 apart = at->shared_base - own->shared_base;
        if (several && !(mask >> rank & 1)) continue;
        if (load) b.to = to + apart;
        if (!check_bulk(env, at, thread, &b, barrier + apart, told)) return 0;
        told = 1;
        if (load) b.barrier = env->arena + barrier + apart;
        if (launch_of(env)->check_sync) tell_bulk(env, at, thread, &b);
        add_bulk(env, at, thread, &b);
    }
    return 1;
}

EXPORT int rt_bulk_commit(Env* env, Thread* thread, u32 site) {
    extra_of(env, thread->linear)->bulk_group++;
    return 0;
}

// All of a thread's stores but those of its `pending` newest groups arrive. reads: only that they have read is waited for.
EXPORT int rt_bulk_wait(Env* env, Thread* thread, u32 site, u64 pending, u64 reads) {
    u32 group = extra_of(env, thread->linear)->bulk_group;
    if (env->cells && group > pending)
        join_agents(env, thread->linear, thread->linear, 1 << AGENT_SOURCE | (reads ? 0 : 1 << AGENT_STORE), group - (u32)pending);
    for (u32 i = 0; i < bulks_of(env)->count;) {
        Bulk b = *bulk(env, i);
        if (is_load(kind_of(&b)) || b.thread != thread->linear || b.group + pending >= group) { i++; continue; }
        drop(env, i);
        store(env, thread, &b);
    }
    return 0;
}

// A block has ended: nothing may be under way any more.
static __device__ void end_copies(Env* env) {
    Bulks* all = bulks_of(env);
    while (all->count) {
        Bulk b = *bulk(env, 0);
        Env* from = (Env*)b.from_env;
        drop(env, 0);
        if (!env->faulted && launch_of(env)->check_sync)
            record(from, threads_of(from) + b.thread, b.site, FAULT_UNDER_WAY, 0, is_load(kind_of(&b)), 0, 0, env->block);
        if (!is_load(kind_of(&b))) store(env, threads_of(env) + b.thread, &b);
    }
}
