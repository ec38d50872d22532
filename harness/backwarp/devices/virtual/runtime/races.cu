// racecheck: each access is compared with its granule's records and then recorded. rt_race, at the end, decides the
// common cases itself, in a few comparisons.

// Follow the strong accesses to a granule: while each sees all writes before it, or is ordered after a thread that did, a
// thread that is ordered after the last of them (the seer) is ordered after all.
static __device__ void extend_chain(Env* env, Thread* t, Visit* v, Cell* cell) {
    u32 strong = v->key & KEY_STRONG, write = v->key & KEY_WRITE;
    if (!strong && (!write || !cell->more || !cold_of(env, v->address)->writer)) return;
    Cold* c = open_cold(env, cell, v->address);
    int first = !c->writer, linked = see_each_other(launch_of(env), v->key, c->writer & ~BROKEN, v->place, c->writer_place);
    if (write && !(v->key & KEY_ATOMIC)) linked = 0;
    int closed = (c->writer & ~BROKEN) == CLOSED;
    if (!linked && !first && (closed || !strong || !write)) linked = c->seer_lane && !unordered(env, t, c->seer_place, c->seer_stamp, c->seer_lane);
    if (write) {
        u32 broken = first || linked ? c->writer & BROKEN : BROKEN;
        if (closed && strong) c->since = c->writer_place;  // seeing this write says nothing of those before the plain store
        c->writer = broken | (strong ? v->key & ~BROKEN : CLOSED);
        c->writer_place = strong ? v->place : launch_of(env)->now + 1;
    } else if (!linked) return;
    c->seer_place = v->place; c->seer_stamp = v->stamp;
    c->seer_lane = v->info & INFO_BLIND ? 0 : v->bit;
}

static __device__ int is_product(Env* env, u32 place, u32 lanes) {
    if (!(place & AGENT)) return 0;
    return agent_of(env_of(env, (place & ~AGENT) / 32), (place & 31) * 32 + __ffs(lanes) - 1)->what == AGENT_PRODUCT;
}

// A product reads what a copy has not been seen to bring, or what it reads is overwritten. Any other race: 0.
static __device__ int race_of_product(Env* env, Thread* t, Visit* v, u32 key, u32 place, u32 lanes) {
    u32 other = key & KEY_SITE;
    if (v->address < env->arena_size / 2) return 0;
    if (is_product(env, v->place, v->bit) && place & AGENT)
        record(env, t, v->site, FAULT_UNLANDED, v->address, 1, other, 0, (place & ~AGENT) / 32);
    else if (!is_product(env, place, lanes)) return 0;
    else if (v->place & AGENT) record(env, t, v->site, FAULT_REFILLED, v->address, 0, other, place & 31, (place & ~AGENT) / 32);
    else record(env, t, other, FAULT_OVERWRITTEN, v->address, 1, v->site, t->linear, env->block);
    return 1;
}

// Compare an access with one record of its granule. Returns whether they race.
static __device__ int compare(Env* env, Thread* t, Visit* v, Record* r) {
    u32 bytes = bytes_of(r->key) & bytes_of(v->key), found = 0;
    if (!bytes || !((r->key | v->key) & KEY_WRITE)) return 0;
    int strong = (r->key | v->key) & KEY_STRONG;  // two plain stores of one value do no harm on today's hardware
    int alike = !strong && r->key & v->key & KEY_WRITE && r->key & v->key & KEY_KNOWN && r->value == v->value &&
                !((r->key ^ v->key) & KEY_SHAPE);
    u32 past = r->key >> KEY_PAST & 3;
    for (u32 i = 0; i < 2; i++) {
        u32 lanes = i ? r->lanes2 : r->lanes, place = i ? r->place2 : r->place, stamp = i ? r->stamp2 : r->stamp;
        if (!lanes) break;
        if (see_each_other(launch_of(env), r->key, v->key, v->place, place)) continue;
        lanes = unordered(env, t, place, stamp, lanes);
        if (!lanes) continue;
        int same = alike && past <= (place == v->place ? PAST_OF_WARP : place / 32 == v->place / 32 ? PAST_OF_BLOCK : PAST_NONE);
        if (same && place == v->place && (r->key & KEY_SITE) == v->site) {  // lanes of one instruction
            u32 other = (place & 31) * 32 + __ffs(lanes) - 1;
            if (v->address < env->arena_size / 2)  // harmless, but the same work done twice
                record(env, t, v->site, FAULT_SAME_WRITE, v->address, v->info, r->key & KEY_SITE, other, place / 32);
            continue;
        }
        u32 strong_write = KEY_STRONG | KEY_WRITE;  // a thread that has seen all of these is ordered after them
        Cold* c = cold_of(env, v->address);
        if ((r->key & strong_write) == strong_write && c->seer_lane && !(c->writer & BROKEN) && stamp >= c->since &&
            !unordered(env, t, c->seer_place, c->seer_stamp, c->seer_lane)) continue;
        found = 1;
        if ((place | v->place) & AGENT && race_of_product(env, t, v, r->key, place, lanes)) continue;
        int near = place == v->place && !(place & AGENT);
        race(env, t, v, bytes, r->key, place, lanes, same ? FAULT_SAME_VALUE : near ? FAULT_WARP_RACE : FAULT_RACE);
    }
    return found;
}

// Where a granule is only read in an interval, and more reads by this instruction would add nothing, its word says so.
static __device__ __forceinline__ u64 quiet_token(Env* env, u32 site) {
    return (u64)env->bar << 32 | 1u << 31 | site & KEY_SITE;
}

static __device__ __forceinline__ int is_quiet(Env* env, u32 site, u64 address, u32 info) {
    if (info & (INFO_WRITE | STRONG | INFO_FINAL) || env->final) return 0;
    for (u32 at = 0; at < (info & 255); at += 4)
        if (*word_of(env, address + at) != quiet_token(env, site)) return 0;
    return 1;
}

static __device__ void visit(Env* env, Thread* t, Visit* v) {
    Cell* c = cell_of(env, v->address);
    u32 tag = tag_of(env, v->address);
    if (c->tag != tag) {
        c->tag = tag; c->more = 0;
        first_of(c)->lanes = 0;
    }
    Extra* e = extra_of(env, t->linear);
    int calm = is_calm(env, c, v);
    if (v->info & INFO_FINAL) e->touched = env->bar;
    for (Record* r = first_of(c); r; r = next_record(env, c, v->address, r, calm ? RESTLESS : RESTLESS | CALM))
        if (r->lanes) compare(env, t, v, r);
    extend_chain(env, t, v, c);
    if (calm && e->kept == v->address && e->kept_key == v->key && e->kept_stamp == v->stamp) return;  // once more
    int enough = keep(env, t, v, c, calm);
    if (calm) {
        e->kept = v->address; e->kept_key = v->key; e->kept_stamp = v->stamp;
        soil(env);
    }
    if (enough && !(v->key & (KEY_WRITE | KEY_STRONG)) && bytes_of(v->key) == 15)
        *word_of(env, v->address) = quiet_token(env, v->site);
}

// An access of any size and kind.
static __device__ __noinline__ int race_anyhow(Env* env, Thread* thread, u32 site, u64 address, u32 info, u64 value) {
    Launch* launch = launch_of(env);
    u32 size = info & 255, scope = info >> SCOPE_SHIFT & 3;
    Chains handed = {0, 0};
    int strong = (info & STRONG) != 0, write = (info & INFO_WRITE) != 0;
    if (strong && write) launch->most_looks = FEW_LOOKS;
    if (launch->ordered && strong && (!write || info & INFO_ATOMIC)) handed = strong_read(env, thread, address, size, info);
    Visit v;
    v.key = (site & KEY_SITE) | (write ? KEY_WRITE : 0) | (strong ? KEY_STRONG | scope << KEY_SCOPE : 0) |
            (info & INFO_ATOMIC ? KEY_ATOMIC : 0) | (info & INFO_VALUE && write ? KEY_KNOWN : 0) | shape_of(address, size);
    v.place = place_of(env, thread); v.bit = 1u << (thread->linear & 31); v.stamp = stamp_of(env, thread);
    v.site = site & KEY_SITE; v.info = info;
    for (u32 at = 0; at < size; at += 4) {
        v.address = address + at;
        v.value = info & INFO_VALUE && write ? (u32)(value >> 8 * at) : 0;
        if (size < 4) v.value &= (1u << 8 * size) - 1;
        visit(env, thread, &v);
    }
    if (!launch->ordered || !write) return 0;
    if (strong) strong_write(env, thread, address, size, info, handed);
    else plain_write(env, address, size);
    return 0;
}

// ---- shared memory of other blocks of the cluster -------------------------------------------------------

// An access may be to the shared memory of another block: that one must have begun before it, and end after it.
static __device__ void visit_peer(Env* env, Thread* t, u32 site, u64 address) {
    Env* owner = owner_of(env, address);
    if (owner == env || !env->cells) return;
    u64 who = owner->block << 12;
    int began = 0;
    for (Clock* c = (Clock*)known(env, t->linear); c && !began; c = base_of(env, c)) {
        u32 i = place_in(c, who);
        began = i < c->count && c->ticks[i].who >> 12 == owner->block;
    }
    if (!began) record(env, t, site, FAULT_UNSTARTED_BLOCK, address, 0, 0, 0, owner->block);
    Extra* e = extra_of(env, t->linear);
    e->visited[owner->cluster_rank] = stamp_of(env, t);
    e->visited_site[owner->cluster_rank] = site;
    e->visited_at[owner->cluster_rank] = address;
}

// ---- the common cases, quickly ---------------------------------------------------------------------------

// A thread repeats an access that only it has made so far.
static __device__ __noinline__ int repeat(Env* env, Thread* t, Record* r, u32 key, u32 value, u32 stamp) {
    r->key = with_past(key, past_with(r, value, past_of(env, t, r->place, r->stamp)));
    r->stamp = stamp; r->value = value;
    return 1;
}

// Another thread makes a read that is on record. Returns whether it is now recorded; then others like it in this interval
// need no check.
static __device__ __noinline__ int read_on(Env* env, Record* r, u64 address, u32 site, u32 place, u32 bit, u32 stamp) {
    u32 symmetric = env->symmetric;
    if (r->place == place && r->stamp == stamp && !r->lanes2) {  // lanes of a warp read a row
        r->lanes |= bit;
        return 1;
    }
    u32 block = place / 32;
    if (!(symmetric & SYMMETRIC_WARPS) || r->place / 32 != block || r->stamp < env->bar) return 0;
    if (!r->lanes2) {
        if (r->place == place) return 0;
        r->place2 = place; r->stamp2 = stamp; r->lanes2 = bit;
    } else if (r->place2 / 32 != block || r->stamp2 < env->bar || r->place == r->place2) return 0;
    *word_of(env, address) = quiet_token(env, site);
    return 1;
}

// The quick decision of rt_race where several instructions have accessed the granule.
static __device__ __noinline__ int less_quickly(Env* env, Thread* t, u64 address, u32 key, u32 value) {
    Cell* c = cell_of(env, address);
    u32 place = place_of(env, t), bit = 1u << (t->linear & 31), stamp = stamp_of(env, t);
    Record *like = 0, *room = 0;
    Cold* cold = cold_of(env, address);
    for (Record* r = first_of(c); r; r = next_record(env, c, address, r, RESTLESS | CALM)) {
        if (!r->lanes) {
            if (!room && (!c->more || !cold->chain || !chain_of(env, cold)->calm)) room = r;  // which are not for plain ones
            continue;
        }
        int mine = r->place == place && r->lanes == bit && !r->lanes2;
        if ((r->key | key) & (KEY_WRITE | KEY_STRONG) && !mine) return 0;
        if (!((r->key ^ key) & ~KEY_VALUE)) like = r;
    }
    if (!like) {
        if (!room && c->more) return 0;
        fill(room ? room : (Record*)open_cold(env, c, address)->record, key, value, place, bit, stamp);
        return 1;
    }
    if (like->place == place && like->lanes == bit && !like->lanes2) return repeat(env, t, like, key, value, stamp);
    return read_on(env, like, address, key & KEY_SITE, place, bit, stamp);
}

// An atomic update of 4 bytes by the only instruction that has accessed the granule so far.
static __device__ __forceinline__ int updated_quickly(Env* env, Thread* t, u32 site, u64 address, u32 info) {
    Cell* c = cell_of(env, address);
    Record* r = first_of(c);
    Cold* cold = cold_of(env, address);
    u32 key = site | 8u << 20 | KEY_WRITE | KEY_STRONG | KEY_ATOMIC | (info >> SCOPE_SHIFT & 3) << KEY_SCOPE;
    u32 place = place_of(env, t), stamp = stamp_of(env, t), bit = 1u << (t->linear & 31);
    if (c->tag != tag_of(env, address) || !c->more || r->key != key || cold->writer != key || cold->chain ||
        ((Record*)cold->record)->lanes) return 0;
    if ((info >> SCOPE_SHIFT & 3) < SCOPE_GPU && cold->writer_place / 32 != place / 32) return 0;
    if (r->place == place && r->stamp == stamp) r->lanes |= bit;
    else if (r->lanes2 && r->place2 == place && r->stamp2 == stamp) r->lanes2 |= bit;
    else if (!r->lanes2 || !stand_for(env, address, info, place / 32, r->place, r->place2)) return 0;
    cold->writer_place = cold->seer_place = place;
    cold->seer_lane = info & INFO_BLIND ? 0 : bit; cold->seer_stamp = stamp;
    return 1;
}

static __device__ __forceinline__ int is_local(Env* env, u64 address) {  // a thread's own
    u64 in_slots = address - env->arena_size / 2;
    return address >= env->arena_size / 2 && (in_slots & (SLOT_BYTES - 1)) >= SHARED_WINDOW;
}

// A thread reads what others may change: does it find the same as at its last visit to this place in the program?
static __device__ void look(Env* env, Thread* t, u32 site, u64 address, u32 size, u32 blind) {
    Extra* e = extra_of(env, t->linear);
    u64 where = env->arena + address, value = size <= 8 ? value_at(where, size) : 0;
    if (e->watched != where || e->watched_site != site || size > 8 || blind) {
        soil(env);
        e->watched = where; e->watched_site = site; e->watched_size = size; e->in_vain = e->patience = 0;
    } else e->in_vain = value == e->seen ? 1 : e->patience ? 2 : 0;
    e->seen = value;
}

// The cases that rt_race does not decide itself.
static __device__ __noinline__ int race_otherwise(Env* env, Thread* thread, u32 site, u64 address, u32 info, u64 value) {
    if (info & INFO_ATOMIC && env->blind) info |= INFO_BLIND;
    launch_of(env)->shown += info & STRONG && info & INFO_WRITE;
    if (env->final) info |= INFO_FINAL;
    u32 kind = info & (255 | STRONG | INFO_FINAL | INFO_WRITE);
    if (kind == (4 | INFO_ATOMIC | INFO_WRITE) && !launch_of(env)->ordered && updated_quickly(env, thread, site & KEY_SITE, address, info)) return 0;
    if (is_local(env, address)) return 0;
    if (launch_of(env)->clustered) visit_peer(env, thread, site, address);
    if (info & STRONG) look(env, thread, site, address, info & 255, info & INFO_BLIND);
    return race_anyhow(env, thread, site, address, info, value);
}

// An access that is recorded. The most frequent cases are decided here, in one function that calls no other, since calls
// are slow: a plain access of 4 bytes to a granule that nobody has accessed in this interval, or only this thread by this
// instruction, or only threads of the block by this instruction if it is a read.
static __device__ __noinline__ int race_on_record(Env* env, Thread* thread, u32 site, u64 address, u64 info, u64 value) {
    if (is_quiet(env, site, address, (u32)info)) return 0;
    if (!env->ordered && (info & (255 | STRONG | INFO_FINAL)) == 4 && !env->final) {
        u32* tags = info & INFO_SHARED || address >= env->arena_size / 2 ? &env->shared_tag : &env->global_tag;
        Cell* c = (Cell*)env->cells + (address >> 2);
        Record* r = (Record*)c->record;
        u32 linear = thread->linear, stamp = thread->clock > env->bar ? thread->clock : env->bar;
        u32 place = (u32)env->block * 32 + linear / 32, bit = 1u << (linear & 31);
        u32 key = site & KEY_SITE | 8u << 20 | ((u32)info & INFO_WRITE) << 16 | ((u32)info & INFO_VALUE) << 19;
        if (c->tag != *tags) {
            c->tag = *tags; c->more = 0;
            r->key = key; r->value = (u32)value; r->place = place; r->stamp = stamp; r->lanes = bit; r->lanes2 = 0;
            return 0;
        }
        if (!c->more && !((r->key ^ key) & ~KEY_VALUE)) {
            if (r->place == place && !r->lanes2) {
                if (r->lanes == bit) {
                    if (r->stamp != stamp && info & INFO_WRITE) return repeat(env, thread, r, key, (u32)value, stamp) - 1;
                    if (r->value != (u32)value) r->key &= ~KEY_VALUE;
                    r->stamp = stamp; r->value = (u32)value;
                    return 0;
                }
                if (!(info & INFO_WRITE) && r->stamp == stamp) {  // lanes of a warp read a row
                    r->lanes |= bit;
                    return 0;
                }
            }
            if (!(info & INFO_WRITE) && read_on(env, r, address, site & KEY_SITE, place, bit, stamp)) return 0;
        } else if (less_quickly(env, thread, address, key, (u32)value)) return 0;
    }
    return race_otherwise(env, thread, site, address, (u32)info, value);
}

// An access. Where there are only epochs, the most frequent cases are decided here: a plain access of 4 bytes to a granule
// that nobody has accessed before, or a read where others only read.
EXPORT int rt_race(Env* env, Thread* thread, u32 site, u64 address, u64 info, u64 value) {
    if (info & INFO_SHARED) address += env->shared_base;
    if (!env->epochs) return race_on_record(env, thread, site, address, info, value);
    if ((info & (255 | STRONG | INFO_FINAL)) == 4 && !env->final) {
        u64 *at = (u64*)(env->words + 2 * address), word = *at;
        u32 when = (u32)(word >> 32), bar = env->bar, stamp = thread->clock > bar ? thread->clock : bar;
        u32 oldest = address >= env->arena_size / 2 ? bar : env->global_tag, write = (u32)info & INFO_WRITE;
        u32 unseen = info & (INFO_WRITE | INFO_SEEN) ? 0 : WORD_UNSEEN;
        if (when < oldest) {
            *at = (u64)stamp << 32 | thread->linear + 1 << 8 | write >> 1 | unseen;  // WORD_WRITTEN
            return 0;
        }
        if (write && word >> 8 == ((u64)stamp << 24 | thread->linear + 1) && !(word & WORD_OTHERS)) {
            *at = word | WORD_WRITTEN;
            return 0;
        }
        if (when == bar && !write && !(word & WORD_WROTE) && env->symmetric & SYMMETRIC_LANES) {
            *at = word | WHO_SEVERAL << 8 | unseen;
            return 0;
        }
    }
    return look_at(env, thread, address, (u32)info);
}
