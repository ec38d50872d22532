// Textures: texels are found, looked at, and filtered as the CUDA C++ Programming Guide says (appendix "Texture
// Fetching"). Surfaces: where their elements are.

struct Axis {  // two neighbouring texels in one direction, -1 for one of the border, and how much of the second, of 256
    int first, second;
    u32 weight;
};

static __device__ Texture* texture_of(Env* env, u64 handle) {
    Texture* t = (Texture*)env->textures + (handle & (TEXTURES - 1));
    return env->textures && handle && t->handle == handle ? t : 0;
}

// Whether an object may be used so, and why not. how: as in emit/textures.py.
static __device__ u32 misfit(Texture* t, u64 how, int surface) {
    u32 geometry = how & 15, layered = geometry >= GEOMETRY_OF_A1D, cube = geometry < GEOMETRY_OF_CUBE ? 0 : geometry - GEOMETRY_OF_CUBE + 1;
    u32 dimensions = cube ? 2 : layered ? geometry - GEOMETRY_OF_A1D + 1 : geometry + 1;
    if (!t) return MISFIT_UNKNOWN;
    if (t->surface && !surface) return MISFIT_SURFACE;
    if (!t->surface && surface) return MISFIT_TEXTURE;
    if (!surface && how >> 8 & 1) return t->dimensions ? MISFIT_FETCH : MISFIT_NONE;
    if (!t->dimensions) return MISFIT_MEMORY;
    if (!surface && t->cube != cube) return MISFIT_GEOMETRY;
    return t->dimensions != dimensions || (t->layers != 0) != layered ? MISFIT_GEOMETRY : MISFIT_NONE;
}

static __device__ int placed(long long i, u32 n, u32 mode) {
    if (i >= 0 && i < n) return (int)i;
    if (mode == ADDRESS_BORDER) return -1;
    if (mode == ADDRESS_WRAP) return (int)((i % n + n) % n);
    return i < 0 ? 0 : n - 1;
}

// The texels that a coordinate is between. Fractions have 8 bits.
static __device__ Axis between(u32 n, u32 mode, int normalised, double x, int linear) {
    double u = x == x ? x : 0;
    if (normalised) {
        double whole = floor(u);
        if (mode == ADDRESS_WRAP) u -= whole;
        else if (mode == ADDRESS_MIRROR) u = whole - 2 * floor(whole / 2) ? 1 - (u - whole) : u - whole;
        u *= n;
    } else if (mode == ADDRESS_WRAP || mode == ADDRESS_MIRROR) mode = ADDRESS_CLAMP;
    u = u < -1e9 ? -1e9 : u > 1e9 ? 1e9 : u;
    long long at = (long long)(linear ? floor((u - 0.5) * 256 + 0.5) : floor(u) * 256);
    Axis a = {placed(at >> 8, n, mode), linear ? placed((at >> 8) + 1, n, mode) : 0, (u32)(at & 255)};
    return a;
}

// The face of a cube that a direction points to, and where, from 0 to 1.
static __device__ u32 face_of(double x, double y, double z, double* s, double* t) {
    double ax = fabs(x), ay = fabs(y), az = fabs(z), most;
    u32 face;
    if (az >= ax && az >= ay) most = az, face = z < 0 ? 5 : 4, *s = z < 0 ? -x : x, *t = -y;
    else if (ay >= ax) most = ay, face = y < 0 ? 3 : 2, *s = x, *t = y < 0 ? -z : z;
    else most = ax, face = x < 0 ? 1 : 0, *s = x < 0 ? z : -z, *t = -y;
    *s = (*s / most + 1) / 2;
    *t = (*t / most + 1) / 2;
    return face;
}

// A store that this launch has made to some of these bytes, and that is ordered before what the thread does now: texture
// caches need not show it. (Any other is a race.)
static __device__ Record* stored_before(Env* env, Thread* thread, u64 address, u32 size) {
    Record* found = 0;
    for (u64 at = address & ~3ull; at < address + size; at += 4) {
        Cell* c = cell_of(env, at);
        if (c->tag != tag_of(env, at)) continue;
        for (Record* r = first_of(c); r; r = next_record(env, c, at, r, RESTLESS | CALM)) {
            if (!r->lanes || !(r->key & KEY_WRITE) || !(bytes_of(r->key) & bytes_of(shape_of(address, size)))) continue;
            if (unordered(env, thread, r->place, r->stamp, r->lanes)) return 0;
            if (r->lanes2 && unordered(env, thread, r->place2, r->stamp2, r->lanes2)) return 0;
            found = r;
        }
    }
    return found;
}

// A texel is about to be read. Returns whether the thread may go on.
static __device__ int looked_at(Env* env, Thread* thread, u32 site, u64 address, u32 size) {
    if (!launch_of(env)->check_sync) return 1;
    if (env->unset) {
        for (u32 k = 0; k < size; k++)
            if (*unset_of(env, address + k)) {
                rt_unset_used(env, thread, site, USE_READ, rt_unset_loaded(env, thread, site, address, size, POISON));
                break;
            }
    } else
        for (u32 k = 0; k < size; k++)
            if (!byte_written(env, address + k)) return rt_suspect(env, thread, site);
    if (Record* r = stored_before(env, thread, address, size)) {
        record(env, thread, site, FAULT_STALE_TEXEL, address, size, r->key & KEY_SITE, (r->place & 31) * 32 + __ffs(r->lanes) - 1, r->place / 32);
        thread->dead = DEAD_FAULT;
        return 0;
    }
    rt_race(env, thread, site, address, size, 0);
    return 1;
}

static __device__ double channel(Env* env, Texture* t, u64 address) {
    u32 bits = 0;
    for (u32 k = 0; k < t->bytes; k++) bits |= (u32)*(unsigned char*)(env->arena + address + k) << 8 * k;
    if (t->texel == TEXEL_FLOAT) {
        float f = __uint_as_float(bits);
        if (t->bytes == 2) asm("{.reg .b16 h; cvt.u16.u32 h, %1; cvt.f32.f16 %0, h;}" : "=f"(f) : "r"(bits));
        return f;
    }
    double most = t->bytes == 1 ? 255 : 65535, x = bits;
    if (t->texel == TEXEL_SIGNED) {
        u32 rest = 32 - 8 * t->bytes;
        x = (int)(bits << rest) >> rest;
        most = most / 2 - 0.5;
    }
    if (!t->as_float) return x;
    return x < -most ? -1 : x / most;
}

// Add up to four channels of a texel, weighted. Returns whether the thread may go on.
static __device__ int add_texel(Env* env, Thread* thread, u32 site, Texture* t, int x, int y, int z, double weight, double* sum) {
    int outside = x < 0 || y < 0 || z < 0;
    u32 size = t->channels * t->bytes;
    u64 address = t->data + z * t->slice + y * t->row + (u64)x * size;
    if (!outside && !looked_at(env, thread, site, address, size)) return 0;
    for (u32 c = 0; c < t->channels; c++)
        sum[c] += weight * (outside ? (double)__uint_as_float(t->border[c]) : channel(env, t, address + c * t->bytes));
    return 1;
}

// The coordinates are in Extra.data, and the texel goes there: poison where it has no such channel.
EXPORT int rt_texture(Env* env, Thread* thread, u32 site, u64 handle, u64 how) {
    Texture* t = texture_of(env, handle);
    u32 wanted = how >> 4 & 15, fetch = how >> 8 & 1, gather = how >> 12 & 7, wrong = misfit(t, how, 0);
    if (!wrong && (wanted == TEXEL_FLOAT) != (t->texel == TEXEL_FLOAT || t->as_float)) wrong = MISFIT_TYPE;
    if (!wrong && gather && !t->gather) wrong = MISFIT_GATHER;
    if (wrong) return rt_fault(env, thread, site, FAULT_INVALID_TEXTURE, handle, how << 8 | wrong);
    u64* data = extra_of(env, thread->linear)->data;
    int linear = t->linear && !gather, layer = 0;
    double sums[4][4] = {};
    Axis axes[3] = {};
    if (fetch) {  // of linear memory: zero outside
        int x = (int)(u32)data[0];
        axes[0].first = x < 0 || x >= t->extent[0] ? -1 : x;
    } else {
        int given = t->cube == 2 || (t->layers && !t->cube), most = t->cube ? t->layers / 6 : t->layers;
        if (given) {
            layer = (int)(u32)data[0];
            layer = layer < 0 ? 0 : layer >= most ? most - 1 : layer;
        }
        double at[3];
        for (u32 i = 0; i < 3; i++) at[i] = __uint_as_float((u32)data[i + given]);
        if (t->cube) layer = 6 * layer + face_of(at[0], at[1], at[2], &at[0], &at[1]);
        for (u32 i = 0; i < t->dimensions; i++)
            axes[i] = between(t->extent[i], t->cube ? (u32)ADDRESS_CLAMP : t->address[i], t->cube || t->normalised, at[i], linear || gather);
    }
    u32 corners = linear || gather ? 1u << t->dimensions : 1;
    for (u32 corner = 0; corner < corners; corner++) {
        double weight = 1;
        int at[3];
        for (u32 i = 0; i < 3; i++) {
            Axis a = axes[i];
            u32 second = corner >> i & 1;
            at[i] = second ? a.second : a.first;
            if (!gather) weight *= (second ? a.weight : 256 - a.weight) / 256.0;
        }
        if (weight && !add_texel(env, thread, site, t, at[0], at[1], t->layers ? layer : at[2], weight, sums[gather ? corner : 0])) return 0;
    }
    for (u32 c = 0; c < 4; c++) {
        // the four texels of a gather, from the lower left corner against the clock
        u32 corner = c == 0 ? 2 : c == 1 ? 3 : c == 2 ? 1 : 0, from = gather ? gather - 1 : c;
        double x = sums[gather ? corner : 0][from];
        data[c] = wanted == TEXEL_FLOAT ? __float_as_uint((float)x) : (u32)(long long)x;
        if (from >= t->channels) data[c] = FULL;
    }
    return 1;
}

// The address of an element of a surface; 0 outside, where that is allowed, all ones for a fault.
EXPORT u64 rt_surface(Env* env, Thread* thread, u32 site, u64 handle, u64 how, u64 xy, u64 third) {
    Texture* t = texture_of(env, handle);
    u32 wrong = misfit(t, how, 1), boundary = how >> 4 & 15, size = how >> 16 & 255;
    if (wrong) {
        rt_fault(env, thread, site, FAULT_INVALID_TEXTURE, handle, how << 8 | wrong);
        return POISON;
    }
    long long at[3] = {(int)(u32)xy, (int)(u32)(xy >> 32), (int)(u32)third};
    long long most[3] = {(long long)t->extent[0] * t->channels * t->bytes - size, (long long)t->extent[1] - 1,
                         (long long)(t->layers ? t->layers : t->extent[2]) - 1};
    int bad = 0;
    for (u32 i = 0; i < 3; i++) {
        if (at[i] >= 0 && at[i] <= most[i]) continue;
        if (boundary == BOUNDARY_ZERO) return 0;
        bad = boundary == BOUNDARY_TRAP || most[i] < 0;
        if (bad) break;
        at[i] = at[i] < 0 ? 0 : most[i];
    }
    if (bad || at[0] & (size - 1)) {
        record(env, thread, site, FAULT_OUTSIDE_SURFACE, handle, how << 32 | (u32)third, 0, 0, xy);
        thread->dead = DEAD_FAULT;
        return POISON;
    }
    return t->data + at[2] * t->slice + at[1] * t->row + at[0];
}
