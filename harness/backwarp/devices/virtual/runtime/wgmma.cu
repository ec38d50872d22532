// Products of a warpgroup: four warps multiply a matrix in shared memory, or in registers, by one in shared memory. Called when
// all of its threads have arrived. The product is delivered at once; that what it reads does not change until it has been
// waited for is looked at then.
//
// Source: PTX ISA, section 9.7.15 (descriptors, layouts, fragments).

// Written in LLVM, see compile/group_products.py. C (64 x n) += A (64 x k) B (k x n); a row of sums, from registers and back; eight
// chunks of an operand; whether 128 numbers are the same.
extern "C" __device__ void call_multiply_double(u64 a, u64 b, u64 c, u64 n, u64 k);
extern "C" __device__ void call_multiply_float(u64 a, u64 b, u64 c, u64 n, u64 k);
extern "C" __device__ void call_gather(u64 from, u64 to, u64 n);
extern "C" __device__ void call_scatter(u64 from, u64 to, u64 n);
extern "C" __device__ void call_chunks(u64 shared, u64 at, u64 pitch, u64 mask, u64 sums, u64 key, u64 to, u64 stride, u64 how);
extern "C" __device__ u64 call_alike(u64 at);

static __device__ __forceinline__ Group* group_of(Env* env, u32 linear) { return (Group*)env->groups + linear / GROUP_THREADS; }

// The fields of `how`, see emit/matrices.py.
static __device__ __forceinline__ u32 columns_of(u64 how) { return (u32)how & 511; }
static __device__ __forceinline__ u32 a_type(u64 how) { return (u32)(how >> 12) & 15; }
static __device__ __forceinline__ u32 b_type(u64 how) { return (u32)(how >> 16) & 15; }
static __device__ __forceinline__ u32 d_type(u64 how) { return (u32)(how >> 20) & 15; }
static __device__ __forceinline__ int has(u64 how, u32 flag) { return (int)(how >> flag & 1); }
enum { TRANSPOSED_A = 24, TRANSPOSED_B, NEGATIVE_A, NEGATIVE_B, SCALED, REGISTERS_A, SATURATES, SUMS };

static __device__ __forceinline__ u32 size_of(u32 type) { return type <= WG_BF16 ? 2 : type == WG_TF32 ? 4 : 1; }

static __device__ float of_bits8(u32 bits, u32 type) {
    if (type == WG_E5M2) return widened((unsigned short)(bits << 8), 0);
    u32 exponent = bits >> 3 & 15, fraction = bits & 7;
    if ((bits & 127) == 127) return __int_as_float(0x7fc00000);
    float value = exponent ? __int_as_float(exponent + 120 << 23 | fraction << 20) : fraction * 0.001953125f;
    return bits & 128 ? -value : value;
}

static __device__ double element_at(const unsigned char* at, u32 type) {
    switch (type) {
        case WG_F16: return widened(*(unsigned short*)at, 0);
        case WG_BF16: return widened(*(unsigned short*)at, 1);
        case WG_TF32: return __int_as_float(*(u32*)at & 0xffffe000u);
        case WG_S8: return *(signed char*)at;
        case WG_U8: return *at;
        default: return of_bits8(*at, type);
    }
}

// What is found on the way over an operand. sums: of its hash; t: the first of those who read it, 0: nothing is looked at.
struct Seen { u64 sums[8], unset; u32 agent; Thread* t; Reads good; };

// An operand as its descriptor has it: rows of M or N, 32 bytes of K, in blocks of eight chunks of 16 bytes, `pitch` apart.
struct Operand { u64 start, lbo, sbo, pitch; u32 bits, mask, rows, type, turned; };

static __device__ Operand operand(u64 d, u32 rows, u32 type, int transposed) {
    Operand o;
    o.start = (d & 0x3fff) << 4; o.lbo = (d >> 16 & 0x3fff) << 4; o.sbo = (d >> 32 & 0x3fff) << 4;
    o.bits = (u32)(d >> 62) ? 4 - (u32)(d >> 62) : 0; o.mask = (1u << o.bits) - 1; o.pitch = 16u << o.bits;
    o.rows = rows; o.type = type; o.turned = transposed;
    return o;
}

// Where its block begins that has rows from 8 * i on, and half c of K.
static __device__ u64 block_at(const Operand* o, u32 i, u32 c) {
    if (!o->turned) return o->start + i * o->sbo + c * (o->bits ? 16 : o->lbo);
    return o->start + (o->bits ? (i & o->mask) * 16 + (i >> o->bits) * o->lbo + c * o->sbo : i * o->sbo + c * o->lbo);
}

static __device__ __forceinline__ u64 chunk_at(Env* env, const Operand* o, u64 at, u32 i) {
    at += i * o->pitch;
    return env->shared_base + (at ^ (at >> 7 & o->mask) << 4);
}

// Those who multiply read a block.
static __device__ void look_at_block(Env* env, const Operand* o, u64 at, Seen* seen) {
    for (u32 i = 0; i < 8; i++) {
        u64 address = chunk_at(env, o, at, i);
        for (u32 k = 0; k < 16; k += 4) {
            if (!(*shadow_of(env, address + k) & INIT) && !seen->unset) seen->unset = address + k;
            read_as(env, seen->t, GROUP_THREADS, seen->agent, seen->t->site, address + k, &seen->good);
        }
    }
}

// Goes over an operand. to: its elements as numbers, in rows of K (by_rows) or of M or N, `stride` apart; 0: only the hash is wanted.
static __device__ void read_operand(Env* env, const Operand* o, double* to, u32 stride, u32 by_rows, Seen* seen) {
    u32 size = size_of(o->type), each = 16 / size, here = to && size == 2, along = o->turned != by_rows;
    u64 key = 0;
    for (u32 i = 0; i < o->rows / 8; i++)
        for (u32 c = 0; c < 2; c++) {
            u64 at = block_at(o, i, c);
            double* rows = to + (by_rows ? 8 * i * stride + c * each : c * each * stride + 8 * i);
            if (seen->t) look_at_block(env, o, at, seen);
            call_chunks(env->arena + env->shared_base, at, o->pitch, o->mask, (u64)seen->sums, key += 0xc2b2ae3d27d4eb4full, here ? (u64)rows : 0,
                       stride, (o->type == WG_BF16) | (along ? 0 : 2));
            for (u32 k = 0; k < 8 && to && !here; k++) {
                unsigned char* data = (unsigned char*)(env->arena + chunk_at(env, o, at, k));
                for (u32 e = 0; e < each; e++) rows[by_rows ? k * stride + e : e * stride + k] = element_at(data + e * size, o->type);
            }
        }
}

static __device__ void negate(double* of, u32 count) {
    for (u32 i = 0; i < count; i++) of[i] = -of[i];
}

// One number for what two operands hold.
static __device__ u64 hash_of(const Seen* a, const Seen* b) {
    u64 hash = 0;
    for (u32 i = 0; i < 16; i++) hash = (hash ^ hash >> 29 ^ (i < 8 ? a : b)->sums[i & 7]) * 0x9e3779b97f4a7c15ull;
    return hash;
}

static __device__ Operand operand_a(u64 da, u64 how) { return operand(da, 64, a_type(how), has(how, TRANSPOSED_A)); }
static __device__ Operand operand_b(u64 db, u64 how) { return operand(db, columns_of(how), b_type(how), has(how, TRANSPOSED_B)); }

static __device__ u64 hash_now(Env* env, u64 da, u64 db, u64 how) {
    Seen a = {}, b = {};
    Operand first = operand_a(da, how), second = operand_b(db, how);
    if (!has(how, REGISTERS_A)) read_operand(env, &first, 0, 0, 1, &a);
    read_operand(env, &second, 0, 0, 0, &b);
    return hash_of(&a, &b);
}

// Row and column of an accumulator that a thread has.
static __device__ __forceinline__ u32 row_of(u32 thread, u32 i) { return 16 * (thread >> 5) + ((thread & 31) >> 2) + 8 * (i >> 1 & 1); }
static __device__ __forceinline__ u32 column_of(u32 thread, u32 i) { return 8 * (i >> 2) + 2 * (thread & 3) + (i & 1); }

// Where the registers of four neighbours begin that hold a row's first columns.
static __device__ __forceinline__ u32 start_of_row(u32 row) {
    return (row >> 3 & 1) * 2 * GROUP_THREADS + (row >> 4) * 32 + (row & 7) * 4;
}

static __device__ void read_a_registers(Group* g, u64 how, const u32* registers) {
    u32 type = a_type(how), size = size_of(type), each = 4 / size, deep = 32 / size;
    double* a = (double*)g->wide_a;
    for (u32 t = 0; t < GROUP_THREADS; t++)
        for (u32 e = 0; e < 4 * each; e++) {
            u32 reg = e / each, sub = e % each;
            u32 row = 16 * (t >> 5) + ((t & 31) >> 2) + 8 * (reg & 1), k = each * (t & 3) + sub + 4 * each * (reg >> 1);
            a[row * deep + k] = element_at((unsigned char*)&registers[reg * GROUP_THREADS + t] + sub * size, type);
        }
}

// The registers of the sums of a product.
static __device__ __forceinline__ u32* file_of(Group* g, u64 how) { return &g->file[has(how, SUMS) * MOST_SUMS * GROUP_THREADS]; }

// The sums of a product's threads as a matrix: of floats, or doubles for the other types.
static __device__ void read_accumulators(Group* g, u64 how) {
    u32 n = columns_of(how), type = d_type(how), *file = file_of(g, how);
    double* c = (double*)g->wide_c;
    float* sums = (float*)c;
    if (type == WG_F32) {
        for (u32 row = 0; row < 64; row++) call_gather((u64)&file[start_of_row(row)], (u64)&sums[row * n], n);
        return;
    }
    for (u32 i = 0; i < n / 2; i++)
        for (u32 t = 0; t < GROUP_THREADS; t++) {
            double* to = &c[row_of(t, i) * n + column_of(t, i)];
            if (type == WG_S32) *to = (int)file[i * GROUP_THREADS + t];
            else *to = widened((unsigned short)(file[(i >> 1) * GROUP_THREADS + t] >> 16 * (i & 1)), 0);
        }
}

static __device__ void clear_accumulators(Group* g, u64 how) {
    u32 words = columns_of(how) * (d_type(how) == WG_F32 ? 32 : 64);
    for (u32 i = 0; i < words; i++) g->wide_c[i] = 0;
}

static __device__ void write_accumulators(Group* g, u64 how) {
    u32 n = columns_of(how), type = d_type(how), *file = file_of(g, how);
    double* c = (double*)g->wide_c;
    float* sums = (float*)c;
    if (type == WG_F32) {
        for (u32 row = 0; row < 64; row++) call_scatter((u64)&sums[row * n], (u64)&file[start_of_row(row)], n);
        return;
    }
    for (u32 i = 0; i < n / 2; i++)
        for (u32 t = 0; t < GROUP_THREADS; t++) {
            double value = c[row_of(t, i) * n + column_of(t, i)];
            u32* to = &file[(type == WG_F16 ? i >> 1 : i) * GROUP_THREADS + t];
            if (type == WG_S32) {
                if (has(how, SATURATES)) value = value > 2147483647.0 ? 2147483647.0 : value < -2147483648.0 ? -2147483648.0 : value;
                *to = (u32)(long long)value;
            } else {
                u32 half = narrowed((float)value, 0);
                *to = i & 1 ? *to & 0xffff | half << 16 : half;
            }
        }
}

static __device__ __forceinline__ u32 swizzle_of(u64 d) { return (u32)(d >> 62) ? 4 - (u32)(d >> 62) : 0; }  // in bits

// A descriptor that cannot be meant: its groups of 8 rows overlap, or its tile begins within the pattern that the swizzle repeats; what
// a tensor copy brings lies as addresses say, wherever it begins, so read_as() looks whether one has brought it.
static __device__ void check_descriptor(Env* env, Thread* t, u64 d, u32 operand, u32 rows, int transposed, Seen* seen) {
    u32 bits = swizzle_of(d), row = 16u << bits, off = (u32)(d & 0x3fff) << 4 & 8 * row - 1 & ~(row - 1), sbo = (u32)(d >> 32 & 0x3fff) << 4;
    seen->good.swizzle = bits + 1; seen->good.operand = operand;
    if (!bits) return;
    seen->good.off = (off >> 7 & 7) != (d >> 49 & 7) ? off : 0;
    u32 lbo = (u32)(d >> 16 & 0x3fff) << 4, wide = row / 2;  // elements of a row of the pattern
    if (!transposed && rows > 8 && sbo && sbo < 8 * row)
        record(env, t, t->site, FAULT_DESCRIPTOR, 0, misfit(DESCRIPTOR_STRIDE, operand, sbo, bits), 0, 0, env->block);
    if (transposed && (rows > wide && lbo < 8 * row || sbo < 8 * row)) {
        int leading = rows > wide && lbo < 8 * row;
        record(env, t, t->site, FAULT_DESCRIPTOR, 0, misfit(DESCRIPTOR_LEADING, operand + 2 * leading, leading ? lbo : sbo, bits), 0, 0, env->block);
    }
}

// Product k of those that a group has begun: its threads have posted its descriptors, and `how` with its site above.
static __device__ u64* posted(Group* g, u32 k, u32 field) { return &g->posted[(3 * k + field) * GROUP_THREADS]; }

// One of them; its sums are in wide_c.
static __device__ void multiply(Env* env, Thread* first, Group* g, u32 k) {
    u64 da = *posted(g, k, 0), db = *posted(g, k, 1), how = *posted(g, k, 2) & FULL;
    Thread* t = launch_of(env)->check_sync ? first : 0;
    u32 n = columns_of(how), deep = 32 / size_of(a_type(how)), site = (u32)(*posted(g, k, 2) >> 32);
    double *a = (double*)g->wide_a, *b = (double*)g->wide_b;
    u32 committed = g->committed[0];
    Seen of_a = {}, of_b = {};
    Operand first_operand = operand_a(da, how), second = operand_b(db, how);
    first->site = site;
    of_a.t = of_b.t = t;
    of_a.agent = of_b.agent = t ? begin_agent(env, first, AGENT_PRODUCT, committed) : NO_AGENT;
    if (t && !has(how, REGISTERS_A)) check_descriptor(env, t, da, 0, 64, has(how, TRANSPOSED_A), &of_a);
    if (t) check_descriptor(env, t, db, 1, n, has(how, TRANSPOSED_B), &of_b);
    if (has(how, REGISTERS_A)) read_a_registers(g, how, &g->a[k * 4 * GROUP_THREADS]);
    else read_operand(env, &first_operand, a, deep, 1, &of_a);
    read_operand(env, &second, b, n, 0, &of_b);
    if (has(how, NEGATIVE_A) != has(how, NEGATIVE_B)) negate(a, 64 * deep);
    u64 unset = of_a.unset ? of_a.unset : of_b.unset;
    if (unset) record(env, first, site, FAULT_UNLANDED, unset, 0, 0, 0, env->block);
    bulks_of(env)->used = 1;
    if (!has(how, SCALED)) clear_accumulators(g, how);
    if (d_type(how) == WG_F32) call_multiply_float((u64)a, (u64)b, (u64)g->wide_c, n, deep);
    else call_multiply_double((u64)a, (u64)b, (u64)g->wide_c, n, deep);
    if (g->count < MAX_FLIGHTS) {
        Flight* f = (Flight*)g->flights + g->count++;
        f->da = da; f->db = db; f->hash = hash_of(&of_a, &of_b); f->how = how;
        f->site = site; f->group = committed;
    }
}

// All threads of a group wait for the same products.
static __device__ void multiply_group(Env* env, Thread* first, u32 count) {
    Group* g = group_of(env, first->linear);
    u64 how = *posted(g, 0, 2);
    u32 floats = d_type(how) == WG_F32, which = (u32)how & (1u << SUMS | 511);
    if (has(how, SCALED) && (g->stale || g->held != which)) read_accumulators(g, how);
    for (u32 k = 0; k < count; k++) {
        multiply(env, first, g, k);
        if (k + 1 == count || !floats) write_accumulators(g, *posted(g, k, 2));
        if (k + 1 < count && !floats) read_accumulators(g, how);  // rounded
    }
    g->held = floats ? which : 0; g->stale = 0;
    for (u32 i = 0; env->counting && i < bulks_of(env)->count; i++)
        if (is_load(kind_of(bulk(env, i)))) {
            overlap(env);
            break;
        }
}

// How many products a thread of the group has begun as its first one has, in the same lines or, of optimised code, in others.
static __device__ u32 begun_alike(Group* g, u32 thread, u32 count, u64 mask) {
    u32 k = 0;
    for (; k < count; k++) {
        u64 apart = *posted(g, k, 0) ^ posted(g, k, 0)[thread] | *posted(g, k, 1) ^ posted(g, k, 1)[thread];
        if (apart | (*posted(g, k, 2) ^ posted(g, k, 2)[thread]) & mask) break;
    }
    return k;
}

// Whether some threads of a warp have committed or waited without others: all of them execute these instructions (.aligned).
static __device__ int part_of_warp(Env* env, Group* g, Thread* first) {
    for (u32 i = 0; i < GROUP_THREADS && launch_of(env)->check_sync; i++) {
        u32 lane = i & ~31u, waits = g->committed[i] == g->committed[lane], *did = waits ? g->waited : g->committed;
        if (did[i] == did[lane]) continue;
        u32 more = did[i] > did[lane] ? i : lane, fewer = more == i ? lane : i;
        record(env, first + more, waits ? g->waited_at : g->committed_at, FAULT_LANES_DIFFER, 0, 2 + waits, 0, first[fewer].linear, env->block);
        return env->faulted = 1;
    }
    return 0;
}

// Whether a group can go on: all of its threads have arrived at a product.
static __device__ int serve_group(Env* env, Thread* first) {
    u32 count = (u32)first->arg0;
    Group* g = group_of(env, first->linear);
    u64 alike = 1;
    for (u32 i = 0; i < GROUP_THREADS; i++) {
        if (first[i].wait != WAIT_GROUP) return 0;
        alike &= first[i].arg0 == count;
    }
    for (u32 i = 0; i < 3 * count && alike; i++) alike = call_alike((u64)posted(g, 0, i));
    int wrong = part_of_warp(env, g, first);
    for (u32 i = 1; i < GROUP_THREADS && !alike && !wrong; i++) {
        u32 fewer = first[i].arg0 < count ? (u32)first[i].arg0 : count;
        u32 k = begun_alike(g, i, fewer, launch_of(env)->check_sync ? ~0ull : FULL);
        if (k == count && first[i].arg0 == count) continue;
        if (k == fewer) k--;
        record(env, first, (u32)(*posted(g, k, 2) >> 32), FAULT_LANES_DIFFER, 0, 1, (u32)(posted(g, k, 2)[i] >> 32), first[i].linear, env->block);
        wrong = env->faulted = 1;
    }
    if (!wrong) multiply_group(env, first, count);
    for (u32 i = 0; i < GROUP_THREADS; i++) first[i].wait = wrong ? WAIT_EXITED : WAIT_READY;
    return 1;
}

EXPORT int rt_wgmma_commit(Env* env, Thread* thread, u32 site) {
    Group* g = group_of(env, thread->linear);
    g->committed[thread->linear % GROUP_THREADS]++; g->committed_at = site;
    return 0;
}

// A thread that has waited knows of a group's products, others do not: those of its warps are complete together (section
// 9.7.15.7.2: a group is one of all four warps, and an executing thread can wait for it).
static __device__ void join_products(Env* env, Thread* thread, Group* g, u32 until) {
    u32 first = thread->linear & ~(GROUP_THREADS - 1);
    u64 from = known(env, thread->linear);
    if (g->made && g->from == from && g->until == until && g->since == bulks_of(env)->agent_serial) {
        begin_clocks(env);
        extra_of(env, thread->linear)->known = g->made;
        return;
    }
    join_agents(env, thread->linear, first, 1 << AGENT_PRODUCT, until);
    g->from = from; g->made = known(env, thread->linear); g->until = until; g->since = bulks_of(env)->agent_serial;
}

// All but the `pending` newest groups of products are complete. What they read must be what was there when they began.
EXPORT int rt_wgmma_wait(Env* env, Thread* thread, u32 site, u64 pending) {
    Group* g = group_of(env, thread->linear);
    u32 kept = 0, committed = g->committed[thread->linear % GROUP_THREADS];
    g->waited[thread->linear % GROUP_THREADS]++; g->waited_at = site;
    for (u32 i = 0; i < g->count; i++) {
        Flight f = ((Flight*)g->flights)[i];
        if (f.group + pending >= committed) ((Flight*)g->flights)[kept++] = f;
        else if (hash_now(env, f.da, f.db, f.how) != f.hash) record(env, thread, f.site, FAULT_OVERWRITTEN, 0, 0, site, thread->linear, env->block);
    }
    g->count = kept;
    if (env->cells && committed > pending) join_products(env, thread, g, committed - (u32)pending);
    return 0;
}

// A warp's threads have so many registers from here on.
EXPORT int rt_registers(Env* env, Thread* thread, u32 site, u64 count) {
    Bulks* all = bulks_of(env);
    all->used = 1;
    all->registers[thread->linear / 32] = (u32)count; all->register_site[thread->linear / 32] = site;
    return 0;
}

// What its threads ask for together a block must have; and the warps of a group ask for the same.
static __device__ void end_registers(Env* env) {
    Bulks* all = bulks_of(env);
    u32 own = launch_of(env)->registers, warps = (launch_of(env)->threads + 31) / 32, sum = 0, most = 0, apart = NOBODY;
    for (u32 w = 0; w < warps; w++) {
        u32 count = all->registers[w] ? all->registers[w] : own;
        sum += count;
        if (count > (all->registers[most] ? all->registers[most] : own)) most = w;
        if (all->registers[w & ~3u] != all->registers[w] && apart == NOBODY) apart = w;
    }
    if (own && !env->faulted && launch_of(env)->check_sync) {
        if (apart != NOBODY) {
            u32 has = all->registers[apart] ? apart : apart & ~3u, other = has == apart ? apart & ~3u : apart;
            u64 counts = all->registers[has] | (u64)all->registers[other] << 16 | 1ull << 32;
            record(env, threads_of(env) + 32 * has, all->register_site[has], FAULT_REGISTERS, 0, counts, all->register_site[other], 32 * other, env->block);
        } else if (sum > own * warps)
            record(env, threads_of(env) + 32 * most, all->register_site[most], FAULT_REGISTERS, 0, all->registers[most] | own << 16 | (u64)sum << 33, 0, 0, env->block);
    }
    for (u32 w = 0; w < warps; w++) all->registers[w] = 0;
}

// Some threads of a block wait for a product and no thread can go on.
static __device__ void stuck_at_product(Env* env, Thread* t) {
    Thread* first = threads_of(env) + t->linear / GROUP_THREADS * GROUP_THREADS;
    Thread* other = 0;
    u32 n = launch_of(env)->threads - first->linear, waiting = 0;
    if (n > GROUP_THREADS) n = GROUP_THREADS;
    for (u32 i = 0; i < n; i++) {
        if (first[i].wait == WAIT_GROUP) waiting++;
        else if (!other) other = first + i;
    }
    u32 ended = other && other->wait == WAIT_EXITED;
    record(env, t, t->site, FAULT_GROUP_INCOMPLETE, 0, waiting | n << 8 | (u64)ended << 16, other && !ended ? other->site : 0, other ? other->linear : 0, env->block);
    env->faulted = 1;
}
