// The virtual GPU's own runtime, whose parts are compiled as one (see compile/link.py).
//
// CUDA C++ through the same pipeline as a student's kernel, but on host addresses. Structs are declared in
// state.h, constants in abi.py; functions without a body are found in the process (clock_gettime,
// bw_printf) or written in LLVM by link.py (call_*). Every rt_* function is called by generated code.

extern "C" __device__ int clock_gettime(int clock, u64* seconds_and_nanoseconds);
extern "C" __device__ int bw_printf(u64 launch, u64 format, u64 arguments);
extern "C" __device__ void call_with(u64 function, u64 argument);  // function(argument)
extern "C" __device__ void call_block(u64 env);               // env->block_function(env)
extern "C" __device__ void call_start(u64 env, u64 thread);   // env->start_function(env, thread)
extern "C" __device__ void call_resume(u64 handle);           // continues where the coroutine suspended
extern "C" __device__ void call_prefetch(u64 address);        // it will be needed soon

#define EXPORT extern "C" __device__ __noinline__

constexpr int CLOCK_MONOTONIC = 1, CLOCK_THREAD_CPUTIME_ID = 3;
constexpr u32 FULL = 0xffffffffu;
constexpr u64 POISON = 0xffffffffffffffffull;

static __device__ __forceinline__ Thread* threads_of(Env* env) { return (Thread*)env->threads; }
static __device__ __forceinline__ Launch* launch_of(Env* env) { return (Launch*)env->launch; }
static __device__ __forceinline__ Extra* extra_of(Env* env, u32 thread) { return (Extra*)env->extras + thread; }

// ---- clusters: their blocks run in neighbouring slots -------------------------------------------------

static __device__ __forceinline__ Env* leader_of(Env* env) { return env - env->cluster_rank; }

// Whether an address is in shared memory of the block's cluster.
static __device__ __forceinline__ int is_of_cluster(Env* env, u64 address) {
    u64 from = address - leader_of(env)->shared_base;
    return from < (u64)launch_of(env)->cluster * SLOT_BYTES && (from & (SLOT_BYTES - 1)) < SHARED_WINDOW;
}

// The block whose shared memory an address is in; for all others, the block itself.
static __device__ __forceinline__ Env* owner_of(Env* env, u64 address) {
    if (!launch_of(env)->clustered || !is_of_cluster(env, address)) return env;
    return leader_of(env) + (address - leader_of(env)->shared_base) / SLOT_BYTES;
}

// The block of the cluster with this index in the grid.
static __device__ Env* env_of(Env* env, u64 block) {
    Env* first = leader_of(env);
    for (u32 rank = 0; rank < launch_of(env)->cluster && launch_of(env)->clustered; rank++)
        if (first[rank].block == block) return first + rank;
    return env;
}

// Which cluster a block of the grid is in.
static __device__ u64 cluster_of(Launch* launch, u64 block) {
    u64 row = block / launch->grid_x, x = block % launch->grid_x / launch->cluster_x;
    u64 y = row % launch->grid_y / launch->cluster_y, z = row / launch->grid_y / launch->cluster_z;
    return x + launch->nclusterid_x * (y + launch->nclusterid_y * z);
}

static __device__ __forceinline__ u64 value_at(u64 where, u32 size) {
    if (size == 4) return *(volatile u32*)where;
    if (size == 8) return *(volatile u64*)where;
    return size == 2 ? *(volatile unsigned short*)where : *(volatile unsigned char*)where;
}

// Processor time of this thread, in nanoseconds: on a machine with other work to do, a launch takes no more of it.
static __device__ u64 processor_time() {
    u64 now[2];
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, now);
    return now[0] * 1000000000ull + now[1];
}

static __device__ u64 monotonic_time() {
    u64 now[2];
    clock_gettime(CLOCK_MONOTONIC, now);
    return now[0] * 1000000000ull + now[1];
}

// A worker's clock takes as long to read as a small block runs, so that is first done after a slice.
static __device__ int is_late(Env* env) {
    u64 now = processor_time();
    if (!env->started) env->started = now;
    return now - env->started > launch_of(env)->time_limit;
}

// What a kernel's clocks show: every read of one advances them all. Builds of a kernel take different times, which the
// kernel must not see, and none of them is a GPU's time.
EXPORT u64 rt_ticks(Env* env) { return atomicAdd(&launch_of(env)->ticks, 40ull); }

// A lock of workers. On ARM, too, what one of them has stored under it is there for the next: see run/__init__.py.
static __device__ void lock(u32* word) {
    while (atomicCAS(word, 0u, 1u)) {
    }
    __threadfence();
}

static __device__ void unlock(u32* word) {
    __threadfence();
    atomicExch(word, 0u);
}

// ---- faults -----------------------------------------------------------------------------------------

// Whether the launch is being ended early. Threads that go on miss what the others would have done, so what they do
// says nothing about the kernel.
static __device__ __forceinline__ int given_up(Launch* launch) { return launch->stop == GIVEN_UP; }

// Keep the first fault of each kind and site; count the rest. Returns whether this one was new.
// wait: what several threads that are told of together wait for, if they do; to the last of them.
static __device__ int record_wait(Env* env, Thread* thread, u32 site, u32 kind, u64 address, u64 extra,
                                  u32 other_site, u32 other_thread, u64 other_block, u64 wait, u32 count, u32 last, u32 called) {
    Launch* launch = launch_of(env);
    if (given_up(launch) && kind != FAULT_TIMEOUT) return 0;
    lock(&launch->lock);
    Fault* records = (Fault*)(launch + 1);
    u32 i = 0;
    while (i < launch->kept && !(records[i].kind == kind && records[i].site == site && records[i].wait == wait && records[i].called == called &&
                                 (!wait || (records[i].address - address) % SLOT_BYTES == 0))) i++;
    int fresh = i == launch->kept;
    if (i < MAX_RECORDS) {
        Fault* r = &records[i];
        // among several threads at one place, report the first in the grid: the message does not depend on the
        // schedule
        int earlier = fresh || env->block < r->block || (env->block == r->block && thread->linear < r->thread);
        if (earlier) {
            r->address = address; r->block = env->block; r->extra = extra;
            r->kind = kind; r->site = site; r->thread = thread->linear;
            r->slot = env->slot;
            r->other_site = other_site; r->other_thread = other_thread; r->other_block = other_block;
            r->wait = wait; r->last = last; r->called = called;
        }
        if (fresh) { r->count = 0; launch->kept++; }
        if (wait) { if (earlier) r->count = count; }
        else r->count++;
    }
    if (kind != FAULT_EXITED_EARLY && kind != FAULT_SAME_WRITE && kind != FAULT_PARITY && ++launch->faults >= STOP_AFTER) atomicCAS(&launch->stop, 0u, 1u);
    unlock(&launch->lock);
    return fresh;
}

static __device__ int record(Env* env, Thread* thread, u32 site, u32 kind, u64 address, u64 extra,
                             u32 other_site, u32 other_thread, u64 other_block) {
    return record_wait(env, thread, site, kind, address, extra, other_site, other_thread, other_block, 0, 1, 0, 0);
}

EXPORT int rt_fault(Env* env, Thread* thread, u32 site, u64 kind, u64 address, u64 extra) {
    record(env, thread, site, (u32)kind, address, extra, 0, 0, env->block);
    thread->dead = DEAD_FAULT;
    return 0;
}

