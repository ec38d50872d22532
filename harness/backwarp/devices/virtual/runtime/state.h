// The state that compiled kernels, the runtime and Python share. abi.py reads this file: every struct is declared here
// once, for all three. A line declares fields of one type. A device address is an offset into the arena; a host
// address is a pointer of this process.

typedef unsigned long long u64;
typedef unsigned u32;

// The place where a block runs: one for each slot. A worker (a CPU thread) has one slot or several.
struct Env {
    u64 arena;           // host address of device address 0
    u64 shadow;          // host address of the shadow of device address 0
    u64 shared_base;     // device address of this slot's shared window
    u64 local_base;      // device address of this slot's local memory
    u64 globals_base;    // device address of the module's variables
    u64 params;          // device address of the kernel's parameters
    u64 heap;            // device address of the Heap; 0 where no kernel has asked for memory
    u64 launch;          // host address of the Launch
    u64 threads;         // host address of Thread[1024]
    u64 frames;          // host address of the pool of coroutine frames
    u64 frames_used;
    u64 frames_size;
    u64 block_function;  // host address: runs one block
    u64 start_function;  // host address: starts one thread as a coroutine
    u64 arena_size;
    u64 extras;          // host address of Extra[1024]
    u64 copies;          // host address of Copies[1024]
    u64 fragments;       // host address of Fragments[32], one for each warp
    u64 bulks;           // host address of the Bulks of its block
    u64 groups;          // host address of Group[8]
    u64 tables;          // host address of Table[32], one for each warp; 0 when nothing is counted
    u64 counting;        // host address of the Counting
    u64 cells, colds;    // host addresses of the Cell and the Cold of device address 0; 0 without racecheck
    u64 words;           // host address of a u64 per granule: the epoch of its last accesses (see epochs.cu)
    u64 unset;           // host address of a byte per byte of device memory, its unset bits; 0 when values are not followed
    u64 traces;          // host address of the Trace of device address 0
    u64 textures;        // host address of Texture[TEXTURES]; 0 where there are none
    u64 block;           // linear index of the current block
    u32 ctaid_x, ctaid_y, ctaid_z;
    u32 worker, slot;
    u32 bar;             // time (Launch.now) of the block's last barrier, or of its start
    u32 shared_tag, global_tag;  // of the cells of shared memory in this interval, and of global memory
    u32 ordered;         // fences order threads: every access is checked in full
    u32 epochs;          // as in the Launch
    u32 fresh_shared, fresh_global;  // times before which nobody else can have accessed such memory; 0: accesses are recorded
    u32 began, span;     // when the block's last accesses to global memory were, if an epoch can tell: the first such time, how long
    u32 symmetric;       // as in the Launch
    u32 holes;           // threads that have ended after an access that later barriers do not order
    u32 clocks;          // a thread knows of others by more than barriers of the block and collectives of its warp
    u32 dirty;           // how many threads still hold such knowledge of this block
    u32 blind;           // a call is under way whose result is not used
    u32 final;           // a call after which the thread may end while others go on to a barrier
    u32 full[32];        // per warp: time of the last collective of all its lanes
    u64 started;         // processor time of the worker's thread when it was first asked for in the launch, in nanoseconds; or 0
    u64 arrived_clock[16];  // per barrier number: what bar.arrive has handed over
    u64 arrived_fences[80];  // and what fences of kind sc have: a Passed for each
    u32 arrived[16];     // per barrier number: arrivals by bar.arrive
    u32 arrival[16], arrival_site[16], arrival_thread[16];  // the first of them: as in schedule.cu, barrier_of
    u32 running;         // the block has threads that have not ended
    u32 start;           // its threads have not started yet
    u32 together;        // all of them wait at one plain __syncthreads(), so all may go on
    u32 faulted;
    u32 slice;           // back edges left before the next look at the watchdog
    u32 granted;         // how many the slice had at first
    u32 calls;           // calls of functions left before such a look
    u32 moved;           // in this round, a thread has done more than check whether others have moved
    u32 idle;            // in the last round none did, in any block of the worker
    u32 shape;           // of the block that its threads are prepared for; 0: none
    u32 layout;          // of the shared arrays that are marked in the shadow, as in the Launch
    u64 marked;          // bytes of the shared window that they reach to
    u64 taken, taken_end;  // blocks that it has taken and not begun, in the launch's order
    u32 clusterid_x, clusterid_y, clusterid_z, cluster_rank;  // where its cluster is in the grid, and which block of that it is
    u32 cluster_ctaid_x, cluster_ctaid_y, cluster_ctaid_z;
    u32 crossings;       // of the first block: how often all of the cluster have met at barrier.cluster
    u32 crossing, crossing_tick;  // the time at which its threads have begun to arrive there, and which crossing that is
    u64 crossed;         // of the first block: the Clock of those who have met
    u64 crossed_fences[5];  // and a Passed: what their fences hand on
    u64 crossed_from, crossed_with, crossed_made;  // what a thread knew before it waited there, and after: as in a Phase
    u32 first;           // of the block's threads, or groups, in their order, that it runs
};

// One CUDA thread of the block that runs in a slot. What a barrier and a loop need lies in the first cache line.
struct Thread {
    u64 handle;  // its coroutine
    u64 steps;   // back edges left before the watchdog barks
    u32 wait;    // what it waits for: WAIT_*
    u32 op;      // the collective: OP_*
    u32 mask;    // member mask, or barrier number
    u32 site;
    u32 dead;    // it has faulted or executed `exit`: unwind
    u32 linear;
    u32 tid_x, tid_y, tid_z;
    u32 clock;   // time of its last synchronising event, unless that was a barrier of the block
    u32 depth;   // of device function calls
    u32 stack;   // where on the worker's stack the first recursive function was called, in units of 16 bytes
    u64 arg0, arg1, arg2;  // operands of the collective at which it waits
    u64 result0, result1;
    u64 local;      // device address of its local memory
    u64 local_top;  // first free byte of its local stack
    u64 local_end;
};

// Copies under way of a thread that is a lane, see emit/lanes/copies.py.
struct Copies {
    u64 data[128];
};

// A tensor as a kernel is given it, see devices/tensor_map.py. Axes are innermost first.
struct TensorMap {
    u64 magic, address;  // TENSOR_MAGIC; device address of the first element
    u64 strides[4];      // bytes, of all axes but the first
    u32 dims[5], size;   // elements; bytes of one
    u32 box[5];          // elements of a tile; for im2col, channels and pixels
    u32 steps;           // of an axis, from bit 4 * axis on
    u32 kind;            // from bit 0 on: axes; 4: bits of the swizzle; 8: NaN is what lies outside; 12: im2col; 16: TENSOR_*
    u32 lower[3], upper[3];  // corners of the box of pixels
    u32 unused;
};

// A copy under way of many bytes, or of a tensor's, see bulk.cu.
struct Bulk {
    u64 to, from;        // device addresses; in global memory, of a tensor its TensorMap's
    u64 barrier, bytes;  // host address of the barrier that counts them; 0: its group is waited for
    u64 from_env;        // host address of the Env of the thread that has started it
    u32 how, site, thread, group, agent, unused;
    u32 at[5], offset[3];  // coordinates; of a pixel in a filter
    u64 map[16];         // the TensorMap as it was when the copy began: the kernel may change its memory; the values of st.async
};

// Those of a block; and who has arrived last at barriers, by their addresses.
struct Bulks {
    u64 count, used;     // of copies; whether there has been any, or a product
    u64 data[28672];     // Bulk[MAX_BULKS]
    u64 last[2304];      // Arrival[LAST_ARRIVALS]
    u64 agents[2048];    // Agent[MAX_AGENTS]
    u32 agent_count, agent_serial;  // in use; begun so far
    u32 registers[32], register_site[32];  // of each warp's threads, since its last setmaxnreg; 0: it has had none
};

// A copy or a product that racecheck takes for a thread, see agents.cu. stamp: when it began.
struct Agent {
    u32 stamp, thread, group, what;
};

// Sites are one more than they are, 0 if there is none; made: of its mbarrier.init. over: whether any phase is; unseen: how many
// of the last ones that are nobody has waited for; seen: the threads that have waited for the last one; came: those
// that have arrived since.
struct Arrival {
    u64 barrier, block;  // host address; of the thread
    u32 site, thread, made, over, unseen, unused;
    u64 seen[16], came[16];
};

// What four warps multiply, see wgmma.cu: products that have not been waited for; registers of all threads, one after the
// other; matrices as doubles.
struct Group {
    u64 count;
    u64 flights[320];    // Flight[MAX_FLIGHTS]
    u64 from, made;      // what a thread that waited for products knew before, and what it knows now: others share that
    u32 held, stale;     // which sums wide_c has, and whether a thread has handed over others since
    u32 since, until;    // Bulks.agent_serial then; the first group of products that it did not wait for
    u32 committed[128];  // of each thread: groups of products so far
    u32 waited[128];     // of each thread: how often
    u32 committed_at, waited_at;  // sites of the last one to do so
    u64 posted[3072];    // of MAX_CHAIN products: both descriptors, and how, of each thread
    u32 file[32768], a[4096];  // registers of SUMS lists of sums, and of A in MAX_CHAIN products
    u64 wide_a[2048], wide_b[8192], wide_c[16384];
};

struct Flight {
    u64 da, db, hash, how;  // descriptors; a hash of what was there
    u32 site, group;
};

// The matrices that a warp multiplies, see emit/products.py.
struct Fragments {
    u64 data[768];
};

// What few kernels need of a thread: rows of matrices and coordinates of textures, pending copies, what fences order, counting.
struct Extra {
    u64 cursor;     // host address of the Entry that it is expected to reach next
    u64 path;       // hash of the calls that led to the current function
    u64 data[8];    // coordinates of a texture, then its texels; addresses of rows
    u64 unset[24];  // which bits of what it gives to a matrix instruction are unset; of a shuffle's operand: the first
    u64 from;       // their origin
    u64 given_unset, given_from;  // of what the thread gets
    u32 copies, first_copy;  // pending, in a ring
    u32 group;      // number of the group of copies that is not committed yet
    u32 bulk_group;  // the same of bulk copies
    u64 copy_to[64], copy_from[64];    // device addresses
    u32 copy_size[64], copy_bytes[64]; // bytes written, and how many of them are read: the rest is zero
    u32 copy_site[64], copy_group[64];
    u32 copy_work[64];  // when counting: `work` when the copy was started
    u32 work;       // grows with what the thread computes in floating point
    u64 known;      // host address of the Clock with what it knows of others; void unless Env.clocks
    u64 fences[24]; // six Fences: the last one, the last one that reached other blocks; the same of those of kind sc; fence.proxy.async of
                    // shared memory, and of global memory
    u32 pending;    // what it has read of others' releases and not acquired: a place in the pool
    u32 observed;   // and what its fences of kind sc acquire beside that, as threads that it has met have read it
    u64 watched, seen;  // what it last looked at that others change (host address), and the value found there
    u32 watched_site, watched_size;
    u32 in_vain;    // 1: the value was the same as before; 2: it was another one, after a wait
    u32 patience, waited_site;  // how many rounds it was to wait the last time, and in which loop
    u64 kept;       // the last calm access that it made (see races.cu)
    u32 kept_key, kept_stamp;
    u32 touched;    // Env.bar when it made an access that may be its last
    u32 hole;       // it has ended after such an access: the most that others know of it; 0: it has not
    u64 out;        // its way out of the kernel, and the loops around that (see leaving.py)
    u64 behind;     // of the place where it waits: the ways out that lie behind it, and the loops around it
    u32 polls;      // the site at which it waits at the barrier of its grid, while it does
    u32 arrivals, waits;  // at barrier.cluster: how often all had met when it came the last time, and one; the same of its waits
    u32 arrived_tick;  // when it arrived
    u64 arrived_knowing;  // host address of the Clock with what it knew then
    u32 visited[16], visited_site[16];  // per rank in its cluster: when it last accessed that one's shared memory, and where
    u64 visited_at[16];   // device addresses
    u32 turns[16];  // iterations begun of each numbered loop since it reached the loop
};

// Who has touched a granule, for racecheck (see records.cu). Void when the tag is not that of the interval.
struct Cell {
    u32 tag;
    u32 more;  // the granule's Cold is in use
    u32 record[8];
};

// What few granules need beside their Cell.
struct Cold {
    u32 record[8];
    u32 launch;  // Launch.tag of the launch that made the chain
    u32 chain;   // more records: the place of a Chain in the launch's pool
    u32 writer, writer_place;  // key of the last strong write
    u32 seer_place, seer_lane, seer_stamp;  // who has seen that one, and everything before it
    u32 since;   // of accesses no older than this; after a plain store, those of the next chain: writer_place
};

// A granule that holds an unset value: where the value came from, and who stored it.
struct Trace {
    u64 origin, block;
    u32 site, thread;
    u32 copy_site;  // the last copy (cp.async) into it
    u32 unused;
};

// Two instructions that race: on which bytes of a granule, in one barrier interval of a block (global memory: of the
// launch).
struct Hazard {
    u64 address, block;
    u32 interval;
    u32 site, other_site;
    u32 kind, other_kind;  // 1 writes, 2 strong, scope << 2, 16 the same value
    u32 bytes, across;     // a bit for each byte; across: those on which different warps race
};

// One launch, shared by all workers.
struct Launch {
    u64 next_block;      // taken with an atomic add
    u64 at_once;         // so many at a time
    u64 until;           // once so many have been taken, no worker takes any more until Python has been asked
    u64 blocks;
    u32 pieces;          // of each block, for several workers if its threads cannot tell; 1: it is not split
    u32 piece;           // how many threads, or groups of them, are in each
    u64 block_multiplier, block_offset;  // the order of blocks: i -> (i * multiplier + offset) % blocks
    u64 order;           // host address of the linear thread ids of a block, in the order in which they start
    u64 site_lines;      // host address of a number for each site's line, in their order; 0 when barriers need not match
    u64 step_budget;
    u64 time_limit;      // nanoseconds of processor time that a worker may take
    u64 faults;          // faults seen, kept or not
    u64 printf_lines;    // lines not taken by Python
    u32 grid_x, grid_y, grid_z;
    u32 cluster, cluster_x, cluster_y, cluster_z;  // blocks of a cluster
    u32 nclusterid_x, nclusterid_y, nclusterid_z;
    u32 clustered;       // its blocks run by clusters
    u32 block_x, block_y, block_z;
    u32 threads;
    u32 coarsening;      // threads that one coroutine, or a group of lanes, stands for; it has the state of the first of them
    u32 stop;            // 1: no further block starts; GIVEN_UP: threads end at their next slice as well
    u32 lock;            // over the records of faults
    u32 kept;            // records in use
    u32 printf_open;
    u32 shared_bytes;    // of a block, guards included
    u32 shared_static;   // as CUDA counts it, without guards
    u32 shared_dynamic;
    u32 check_sync;
    u32 suspect;         // SUSPECT_*: why it has to run again; 0: it has not
    u32 guarded;         // some arrays are read-only in this launch alone
    u32 registers;       // that each thread has when it begins; 0: they are not to be changed
    u64 unset_argument;  // device address of one of printf's
    u32 slots;           // blocks that a worker runs in turns
    u32 grid_sync;       // blocks wait for one another at the barrier of their grid, and threads report it
    u64 grid_workspace;  // device address of what cooperative groups synchronise a grid with
    u32 now;             // racecheck's time: the number of synchronising events so far
    u32 tag;             // of cells of global memory in this launch
    u32 symmetric;       // SYMMETRIC_* bits: which events order threads alike
    u32 ordered;         // the kernel has fences, releases or acquires
    u32 epochs;          // 1: racecheck only looks whether there could be a race (see epochs.cu)
    u32 finals;          // it has accesses that may be a thread's last while others go on to a barrier
    u32 silent;          // the pool is used up: races are no longer reported
    u32 races, hazard_count;
    u32 serial;          // strong writes so far
    u64 pool, pool_used, pool_size;  // host address; bytes
    u32 nodes, nodes_left;  // room for records in the pool
    u64 hazards, places; // host addresses of tables at the start of the pool
    u32 looks, most_looks;  // looks at memory that has changed, in this round: those left, and how many at first
    u64 granted;         // steps in loops, so far
    u64 visits;          // of threads that may or may not continue, so far
    u64 turns;           // places at which a thread could let others run, so far
    u64 ticks;           // what clocks show
    u64 chance;          // random bits, for who waits how long; 0: nobody does
    u32 erratic;         // 1: threads pause at random, where others can see what they do, or they what others do
    u32 after, before;   // how often, in eighths: after an access; before one that reads
    u32 anything;        // 1: who is about to look waits until anything has been shown; 0: until what it looks at changes
    u32 shown;           // writes of what others may read without a race, so far
    u32 idles, passed;   // rounds in a row in which threads only waited for memory to change; how many did in this one, so far
    u64 rows, rows_end;  // host addresses: where the next Row of the record goes, if there is room; 0: nothing is recorded
    u64 rows_first, rows_blocks;  // the first block that is recorded, and how many
    u64 rows_pair;       // 0, or the only two threads that are: Row.who of one, and of the other << 32
    u64 batch;           // host address of the Batch of which it is one
    u64 block_function, start_function;  // host addresses, as in Env
    u64 globals_base;    // device address of the module's variables
    u64 frames_size;     // bytes for the frames of each slot
    u64 extents;         // host address of Extent[]: the shared arrays of a block
    u32 extent_count;
    u32 layout;          // a number for these Extents; 0: blocks change what is marked
    u64 paddings;        // host address of Padding[]
};

// One thing that a thread does, see instrument/steps.py.
struct Row {
    u32 point;   // number of the place in the code
    u32 who;     // thread in the block, and the block << 10
    u64 value;   // bits of a value; an address
};

// A shared array.
struct Extent {
    u64 offset, bytes;   // in the shared window
    u32 written;         // it holds values from the start
    u32 padding;         // see set_padding
};

// Bytes of structs of which no member uses `bits`: `nbytes` of them from `offset` in each of `count` elements.
struct Padding { u32 offset, nbytes, bits, stride, count; };

// The threads of a device that run compiled code.
struct Team {
    u64 done[4];         // a semaphore (sem_t): members have done what the leader gave them
    u64 members;         // host address of Member[], one for each worker
    u64 envs, stride;    // host address of the first worker's Env, and how far apart they are
    u64 function;        // host address of what the leader has `workers` of them run
    u32 workers;
};

struct Member {
    u64 wake[4];         // a semaphore: there is something to call
    u64 function, argument;  // host address; 0: the thread ends
    u64 done;            // host address of the semaphore to be raised afterwards
    u64 calls;           // finished so far
};

// Launches and copies that run one after the other.
struct Graph {
    u64 nodes, count;    // host address of GraphNode[]
    u64 done;            // nodes so far
    u64 launch;          // host address of the Launch that all of them use
    u64 team;            // host address of the Team
    u64 events;          // the last launch's `now`
    u64 printf_lines;    // as in the Launch, of all of them
    u32 stop;            // no further one starts
};

struct GraphNode {
    u64 to, source, bytes; // host addresses: what is copied; before a launch, its parameters
    u64 launch;          // host address of its Launch as it begins; 0: nothing is launched
    u64 run;             // host address of rt_run
    u64 nanoseconds;     // that the launch took, the last time
    u64 on_one;          // that it took or would have taken on one worker
    u64 small;           // it runs on one worker unless that takes so many nanoseconds
    u32 workers;
};

// Launches of one kernel that differ in a __constant__ variable alone (see variants.cu). Addresses are the host's.
struct Batch {
    u64 rows, row_bytes, count;  // what the variable holds in each
    u64 constant;                // where it lies
    u64 done;                    // launches so far
    u64 results;                 // u32 for each: the part at which something is wrong, with FAULTY; or ALL_RIGHT
    u64 end;                     // of the monotonic clock, in nanoseconds: after it no launch begins
    u64 fresh;                   // the Launch as each begins
    u64 parts, regions, targets; // Part[], Region[], Target[]
    u32 part_count, region_count, target_count;
    u32 probes;                  // looks after every part, and only at what has been written
};

// Blocks of a launch, or threads of one of them, that run before the others.
struct Part {
    u64 first, end;  // of the blocks, in the launch's order
    u64 order;       // host address of the threads' linear ids
    u32 threads, unused;
};

// Memory that a launch may change.
struct Region {
    u64 at, before, bytes;  // before: host address of what is put back
};

// An output, with 4 bytes an element.
struct Target {
    u64 at, before, count;
    u64 values, tolerances;  // double for each element
    u32 is_integer, special; // special: infinity and NaN may be right
};

// What malloc() has given out (see heap.cu): Blocks follow it.
struct Heap {
    u64 top;     // bytes of the data in use, from its start
    u64 live;    // bytes that have been given out and not freed
    u32 lock;
    u32 blocks;  // in the table
    u32 cursor;  // behind the freed one that was found last
    u32 unused;
};

struct Block {
    u64 address, bytes, room;  // room: with the unowned bytes after it
    u64 block;                 // of the grid: who asked for it
    u32 thread, site;
    u32 launch, freed;         // Launch.tag of the launches; 0: it has not been freed
    u32 freed_site, unused;
};

// A texture object or a surface object.
struct Texture {
    u64 handle;      // what a kernel is given; 0: none
    u64 data;        // device address of its first texel
    u64 row, slice;  // bytes from one row to the next, and from one slice or layer
    u32 extent[3];   // texels in x, y and z
    u32 layers;      // 0: it has none; faces of cubes are layers
    u32 cube;        // 1: its layers are the faces of a cube; 2: of several
    u32 dimensions;  // 0: it is linear memory
    u32 texel, channels, bytes;  // TEXEL_*; of a texel; of a channel
    u32 surface, gather;  // what may be done with it
    u32 linear, normalised, as_float;
    u32 address[3];  // ADDRESS_*, in x, y and z
    u32 border[4];   // bits of floats
};

// What is counted in a launch (see counters.cu).
struct Counting {
    u64 segments, accesses;  // host addresses of Segment[], Access[]
    u64 totals;       // host address of Total[], three for each access: global, shared, local
    u64 split;        // entries that had to be added up before every lane had passed them
    u64 idle_copies;  // waited for by threads that had computed nothing since they started them
    u64 bulk_bytes;   // that bulk copies move
    u64 complete;     // host address: for each site, waits at mbarriers that found the phase complete
    u64 overlapped;   // FLOP of products of warpgroups that began while a load was under way
    u64 busiest;      // summed over blocks: requests to global memory by the warp of the block that makes most
    u64 kept, kept_end;  // host addresses: where the next Request goes, if there is room
};

// Code without a branch, a call or a wait: all of it is executed, or none.
struct Segment {
    u32 first, accesses;   // its accesses
    u32 bytes;             // of an Entry for it
    u32 unused;
    u64 warps, threads;    // how often it was executed
    u64 divergent;         // executions in which the branch at its end went both ways
    u64 overlapped;        // of `threads`, those that had copies (cp.async) pending
};

// One access of one warp, kept for those who want to look at single ones.
struct Request {
    u32 access, space, block, warp;
    u32 addresses[32];
};

struct Access {
    u32 size, space, atomic, unused;
};

struct Total {
    u64 requests, lanes, sectors, sectors_ideal;
    u64 wavefronts, wavefronts_ideal, serial;
};

// One execution of a segment by lanes of a warp. For each access, u32[32] follows: the addresses of the lanes.
struct Entry {
    u64 key;
    u32 mask;     // lanes that have been here
    u32 bytes;
    u32 taken;    // lanes that took the branch at its end
    u32 segment, creator;
    u32 copying;  // lanes that arrived with copies (cp.async) pending
};

// The entries of one warp that further lanes may reach.
struct Table {
    u64 base, top, end;  // host addresses of the entries
    u64 index;           // host address of offsets of entries + 1, by hash
    u32 index_size;      // 0: there is none
    u32 entries;
    u32 creators;        // lanes that made them
    u32 requests;        // to global memory, of the warp in this block
    u32 most;            // in the first table of a block: the most requests of a warp
    u32 unused;
};

// A record of a fault, for explain/faults.py.
struct Fault {
    u64 address, block, extra, other_block;
    u64 wait;  // of a thread that waits for ever, see tell_waiters()
    u32 kind, site, thread, other_site, other_thread;
    u32 count;
    u32 slot, last;  // last: of several threads that are told of together
    u32 called, unused;  // where the function is called that waits
};
