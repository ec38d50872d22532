// Products of a warpgroup: four warps multiply a matrix in shared memory, or in registers, by one in shared memory. Called when
// all of its threads have arrived. The product is delivered at once; that what it reads does not change until it has been
// waited for is looked at then.
//
// Source: PTX ISA, section 9.7.15 (descriptors, layouts, fragments).

// Written in LLVM, see compile/group_products.py. C (64 x n) += A (64 x k) B (k x n), of doubles; a row of floats in registers
// as doubles, and back; eight halves or bfloat16 as doubles.
extern "C" __device__ void call_multiply(u64 a, u64 b, u64 c, u64 n, u64 k);
extern "C" __device__ void call_gather(u64 from, u64 to, u64 n);
extern "C" __device__ void call_scatter(u64 from, u64 to, u64 n);
extern "C" __device__ void call_widen(u64 from, u64 to, u64 stride, u64 is_bfloat);

static __device__ __forceinline__ Group* group_of(Env* env, u32 linear) { return (Group*)env->groups + linear / GROUP_THREADS; }

// The fields of `how`, see emit/matrices.py.
static __device__ __forceinline__ u32 columns_of(u64 how) { return (u32)how & 511; }
static __device__ __forceinline__ u32 a_type(u64 how) { return (u32)(how >> 12) & 15; }
static __device__ __forceinline__ u32 b_type(u64 how) { return (u32)(how >> 16) & 15; }
static __device__ __forceinline__ u32 d_type(u64 how) { return (u32)(how >> 20) & 15; }
static __device__ __forceinline__ int has(u64 how, u32 flag) { return (int)(how >> flag & 1); }
enum { TRANSPOSED_A = 24, TRANSPOSED_B, NEGATIVE_A, NEGATIVE_B, SCALED, REGISTERS_A, SATURATES };

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

// What is found on the way over an operand.
struct Seen { u64 hash, unset; u32 agent; Reads good; };

// A chunk of 16 bytes of an operand. t: the first of those who read it; 0: nothing is looked at.
static __device__ u64 chunk(Env* env, u64 at, u32 mask, Thread* t, Seen* seen) {
    u64 address = env->shared_base + (at ^ (at >> 7 & mask) << 4);
    u64* data = (u64*)(env->arena + address);
    seen->hash = (seen->hash ^ data[0]) * 0x9e3779b97f4a7c15ull;
    seen->hash = (seen->hash ^ data[1] ^ seen->hash >> 29) * 0xbf58476d1ce4e5b9ull;
    if (t)
        for (u32 k = 0; k < 16; k += 4) {
            if (!(*shadow_of(env, address + k) & INIT) && !seen->unset) seen->unset = address + k;
            read_as(env, t, GROUP_THREADS, seen->agent, t->site, address + k, &seen->good);
        }
    return (u64)data;
}

// The elements of a chunk as numbers, `stride` apart.
static __device__ void widen(const unsigned char* data, double* to, u32 stride, u32 type, double sign) {
    if (type <= WG_BF16 && sign == 1) return call_widen((u64)data, (u64)to, stride, type == WG_BF16);
    u32 size = size_of(type);
    for (u32 e = 0; e < 16 / size; e++) to[e * stride] = sign * element_at(data + e * size, type);
}

// Goes over an operand as its descriptor has it: `rows` of M or N, 32 bytes of K. to: its elements as numbers, `along_k` and
// `along_rows` apart; 0: only the hash is wanted.
static __device__ void read_operand(Env* env, u64 d, u32 rows, u32 type, int transposed, double sign, double* to, u32 along_rows,
                                    u32 along_k, Thread* t, Seen* seen) {
    u64 start = (d & 0x3fff) << 4, lbo = (d >> 16 & 0x3fff) << 4, sbo = (d >> 32 & 0x3fff) << 4;
    u32 mode = (u32)(d >> 62), bits = mode ? 4 - mode : 0, mask = (1u << bits) - 1, size = size_of(type), each = 16 / size;
    if (!transposed) {
        for (u32 r = 0; r < rows; r++)
            for (u32 c = 0; c < 2; c++) {
                u64 at = start + (r & 7) * (16u << bits) + (r >> 3) * sbo + c * (mode ? 16 : lbo);
                unsigned char* data = (unsigned char*)chunk(env, at, mask, t, seen);
                if (to) widen(data, to + r * along_rows + c * each * along_k, along_k, type, sign);
            }
        return;
    }
    u32 deep = 32 / size;
    for (u32 k = 0; k < deep; k++)
        for (u32 r = 0; r < rows; r += each) {
            u32 n = r / each;
            u64 at = mode ? start + (n & mask) * 16 + (n >> bits) * lbo + (k & 7) * (16u << bits) + (k >> 3) * sbo
                          : start + (k & 7) * 16 + n * sbo + (k >> 3) * lbo;
            unsigned char* data = (unsigned char*)chunk(env, at, mask, t, seen);
            if (to) widen(data, to + r * along_rows + k * along_k, along_rows, type, sign);
        }
}

static __device__ u64 hash_of(Env* env, u64 da, u64 db, u64 how) {
    Seen a = {}, b = {};
    if (!has(how, REGISTERS_A)) read_operand(env, da, 64, a_type(how), has(how, TRANSPOSED_A), 1, 0, 0, 0, 0, &a);
    read_operand(env, db, columns_of(how), b_type(how), has(how, TRANSPOSED_B), 1, 0, 0, 0, 0, &b);
    return a.hash ^ 3 * b.hash;
}

// Row and column of an accumulator that a thread has.
static __device__ __forceinline__ u32 row_of(u32 thread, u32 i) { return 16 * (thread >> 5) + ((thread & 31) >> 2) + 8 * (i >> 1 & 1); }
static __device__ __forceinline__ u32 column_of(u32 thread, u32 i) { return 8 * (i >> 2) + 2 * (thread & 3) + (i & 1); }

// Where the registers of four neighbours begin that hold a row's first columns.
static __device__ __forceinline__ u32 start_of_row(u32 row) {
    return (row >> 3 & 1) * 2 * GROUP_THREADS + (row >> 4) * 32 + (row & 7) * 4;
}

static __device__ void read_a_registers(Group* g, u64 how, double sign) {
    u32 type = a_type(how), size = size_of(type), each = 4 / size, deep = 32 / size;
    double* a = (double*)g->wide_a;
    for (u32 t = 0; t < GROUP_THREADS; t++)
        for (u32 e = 0; e < 4 * each; e++) {
            u32 reg = e / each, sub = e % each;
            u32 row = 16 * (t >> 5) + ((t & 31) >> 2) + 8 * (reg & 1), k = each * (t & 3) + sub + 4 * each * (reg >> 1);
            a[row * deep + k] = sign * element_at((unsigned char*)&g->a[reg * GROUP_THREADS + t] + sub * size, type);
        }
}

static __device__ void read_accumulators(Group* g, u64 how) {
    u32 n = columns_of(how), type = d_type(how);
    double* c = (double*)g->wide_c;
    if (type == WG_F32 && has(how, SCALED)) {
        for (u32 row = 0; row < 64; row++) call_gather((u64)&g->file[start_of_row(row)], (u64)&c[row * n], n);
        return;
    }
    for (u32 i = 0; i < n / 2; i++)
        for (u32 t = 0; t < GROUP_THREADS; t++) {
            double* to = &c[row_of(t, i) * n + column_of(t, i)];
            if (!has(how, SCALED)) *to = 0;
            else if (type == WG_S32) *to = (int)g->file[i * GROUP_THREADS + t];
            else *to = widened((unsigned short)(g->file[(i >> 1) * GROUP_THREADS + t] >> 16 * (i & 1)), 0);
        }
}

static __device__ void write_accumulators(Group* g, u64 how) {
    u32 n = columns_of(how), type = d_type(how);
    double* c = (double*)g->wide_c;
    if (type == WG_F32) {
        for (u32 row = 0; row < 64; row++) call_scatter((u64)&c[row * n], (u64)&g->file[start_of_row(row)], n);
        return;
    }
    for (u32 i = 0; i < n / 2; i++)
        for (u32 t = 0; t < GROUP_THREADS; t++) {
            double value = c[row_of(t, i) * n + column_of(t, i)];
            u32* to = &g->file[(type == WG_F16 ? i >> 1 : i) * GROUP_THREADS + t];
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
    if (!transposed && rows > 8 && sbo && sbo < 8 * row)
        record(env, t, t->site, FAULT_DESCRIPTOR, 0, misfit(DESCRIPTOR_STRIDE, operand, sbo, bits), 0, 0, env->block);
}

// All threads of a group wait for the same product.
static __device__ void multiply_group(Env* env, Thread* first) {
    Group* g = group_of(env, first->linear);
    u64 how = first->arg2;
    Thread* t = launch_of(env)->check_sync ? first : 0;
    u32 n = columns_of(how), deep = 32 / size_of(a_type(how));
    double *a = (double*)g->wide_a, *b = (double*)g->wide_b;
    u32 committed = extra_of(env, first->linear)->products;
    Seen of_a = {}, of_b = {};
    of_a.agent = of_b.agent = t ? begin_agent(env, first, AGENT_PRODUCT, committed) : NO_AGENT;
    if (t && !has(how, REGISTERS_A)) check_descriptor(env, t, first->arg0, 0, 64, has(how, TRANSPOSED_A), &of_a);
    if (t) check_descriptor(env, t, first->arg1, 1, n, has(how, TRANSPOSED_B), &of_b);
    if (has(how, REGISTERS_A)) read_a_registers(g, how, has(how, NEGATIVE_A) ? -1 : 1);
    else read_operand(env, first->arg0, 64, a_type(how), has(how, TRANSPOSED_A), has(how, NEGATIVE_A) ? -1 : 1, a, deep, 1, t, &of_a);
    read_operand(env, first->arg1, n, b_type(how), has(how, TRANSPOSED_B), has(how, NEGATIVE_B) ? -1 : 1, b, 1, n, t, &of_b);
    u64 unset = of_a.unset ? of_a.unset : of_b.unset;
    if (unset) record(env, first, first->site, FAULT_UNLANDED, unset, 0, 0, 0, env->block);
    bulks_of(env)->used = 1;
    read_accumulators(g, how);
    call_multiply((u64)a, (u64)b, (u64)g->wide_c, n, deep);
    write_accumulators(g, how);
    if (g->count < MAX_FLIGHTS) {
        Flight* f = (Flight*)g->flights + g->count++;
        f->da = first->arg0; f->db = first->arg1; f->hash = of_a.hash ^ 3 * of_b.hash; f->how = how;
        f->site = first->site; f->group = committed;
    }
    for (u32 i = 0; env->counting && i < bulks_of(env)->count; i++)
        if (is_load(kind_of(bulk(env, i)))) {
            overlap(env);
            break;
        }
}

// Whether a group can go on: all of its threads have arrived at a product.
static __device__ int serve_group(Env* env, Thread* first) {
    for (u32 i = 0; i < GROUP_THREADS; i++)
        if (first[i].wait != WAIT_GROUP) return 0;
    for (u32 i = 1; i < GROUP_THREADS; i++) {
        Thread* t = first + i;
        if (t->arg0 == first->arg0 && t->arg1 == first->arg1 && t->arg2 == first->arg2) continue;
        record(env, first, first->site, FAULT_LANES_DIFFER, 0, 1, t->site, t->linear, env->block);
        for (u32 k = 0; k < GROUP_THREADS; k++) first[k].wait = WAIT_EXITED;
        env->faulted = 1;
        return 1;
    }
    multiply_group(env, first);
    for (u32 i = 0; i < GROUP_THREADS; i++) first[i].wait = WAIT_READY;
    return 1;
}

EXPORT int rt_wgmma_commit(Env* env, Thread* thread, u32 site) {
    extra_of(env, thread->linear)->products++;
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
    u32 kept = 0, committed = extra_of(env, thread->linear)->products;
    for (u32 i = 0; i < g->count; i++) {
        Flight f = ((Flight*)g->flights)[i];
        if (f.group + pending >= committed) ((Flight*)g->flights)[kept++] = f;
        else if (hash_of(env, f.da, f.db, f.how) != f.hash) record(env, thread, f.site, FAULT_OVERWRITTEN, 0, 0, site, thread->linear, env->block);
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
