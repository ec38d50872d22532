// What a worker sets up in its slots before it runs the blocks of a launch. Most of it is as the last launch has left it.

static __device__ void unmark(Env* env, u64 address, u64 bytes) {
    unsigned char* shadow = shadow_of(env, address);
    for (u64 i = 0; i < (bytes + 3) >> 2; i++) shadow[i] = 0;
}

// As Arena.mark does it, for memory that may be written. An array that begins within a granule has all of that.
static __device__ void mark(Env* env, u64 address, u64 bytes, u32 written) {
    unsigned char* shadow = shadow_of(env, address);
    bytes += address & 3;
    u64 whole = bytes >> 2;
    u32 rest = bytes & 3;
    for (u64 i = 0; i < whole; i++) shadow[i] = READ | WRITE | (written ? INIT : 0);
    if (rest) shadow[whole] = PARTIAL | INIT | (1 << rest | (written ? (1 << rest) - 1 : 0)) << 4;
}

static __device__ void mark_shared(Env* env) {
    Launch* launch = launch_of(env);
    Extent* extents = (Extent*)launch->extents;
    if (launch->layout && env->layout == launch->layout) return;
    unmark(env, env->shared_base, env->marked);
    env->layout = launch->layout;
    env->marked = 0;
    for (u32 i = 0; i < launch->extent_count; i++) {
        u64 end = extents[i].offset + extents[i].bytes;
        mark(env, env->shared_base + extents[i].offset, extents[i].bytes, extents[i].written);
        if (end > env->marked) env->marked = end;
    }
}

// Coordinates and local memory of every thread of a block. What the threads before them have left in theirs has no owner.
static __device__ void shape_threads(Env* env) {
    Launch* launch = launch_of(env);
    Thread* threads = threads_of(env);
    u32 x = launch->block_x, y = launch->block_y, shape = x | y << 11 | launch->block_z << 22;
    if (env->shape == shape) return;
    u32 before = (env->shape & 2047) * (env->shape >> 11 & 2047) * (env->shape >> 22), n = x * y * launch->block_z;
    for (u32 i = 0; i < before; i++) unmark(env, threads[i].local, threads[i].local_top - threads[i].local);
    u64 each = (SLOT_BYTES - LOCAL_START) / n / 4096 * 4096;
    for (u32 i = 0; i < n; i++) {
        Thread* t = &threads[i];
        t->linear = i;
        t->tid_x = i % x;
        t->tid_y = i / x % y;
        t->tid_z = i / x / y;
        t->local = t->local_top = env->local_base + i * each;
        t->local_end = t->local + each;
    }
    env->shape = shape;
}

// The slots of a worker share its memory for frames.
static __device__ void prepare(Env* env, u32 slots) {
    Launch* launch = launch_of(env);
    for (u32 s = 0; s < slots; s++) {
        env[s].launch = env->launch;
        env[s].block_function = launch->block_function;
        env[s].start_function = launch->start_function;
        env[s].globals_base = launch->globals_base;
        env[s].frames = env->frames + s * launch->frames_size;
        env[s].frames_size = launch->frames_size;
        env[s].taken = env[s].taken_end = 0;
        env[s].started = env[s].cluster_rank = 0;
        mark_shared(&env[s]);
        shape_threads(&env[s]);
        // lanes do not do this when they start; a clock of an earlier block is older than the block's own time
        for (u32 i = 0; i < launch->threads && launch->coarsening > 1; i++) threads_of(&env[s])[i].clock = 0;
    }
}
