// malloc() and free() of kernels: the heap of the device, whose blocks stay from launch to launch.
//
// Its memory begins with a Heap and a table of Blocks, which no kernel can reach; the data follows. The blocks lie in the
// order of their addresses, with unowned bytes after each. Freed memory is given out again only when there is no other
// left, so that who uses it after free() is found out.

static __device__ __forceinline__ Heap* heap_of(Env* env) { return (Heap*)(env->arena + env->heap); }
static __device__ __forceinline__ Block* blocks_of(Heap* heap) { return (Block*)(heap + 1); }

// A freed block with this much room, searched for from behind the last one found: one that was freed long ago.
static __device__ Block* freed_block(Heap* heap, u64 room) {
    Block* blocks = blocks_of(heap);
    for (u32 i = 0; i < heap->blocks; i++) {
        u32 n = (heap->cursor + i) % heap->blocks;
        if (blocks[n].freed && blocks[n].room >= room) {
            heap->cursor = n + 1;
            return &blocks[n];
        }
    }
    return 0;
}

static __device__ Block* new_block(Env* env, Heap* heap, u64 room) {
    if (heap->blocks == HEAP_BLOCKS || room > HEAP_BYTES - heap->top) return freed_block(heap, room);
    Block* b = &blocks_of(heap)[heap->blocks++];
    b->address = env->heap + sizeof(Heap) + HEAP_BLOCKS * sizeof(Block) + heap->top;
    b->room = room;
    heap->top += room;
    return b;
}

// Nothing in it is set, and nobody has touched it: who uses memory after it has been freed and given out again is ordered
// after those who used it before.
static __device__ void give_out(Env* env, Block* b) {
    u64 first = b->address >> 2, whole = b->bytes >> 2, rest = b->bytes & 3;
    u32* words = (u32*)(env->arena + b->address);
    unsigned char* shadow = shadow_of(env, b->address);
    for (u64 i = 0; i < whole + (rest != 0); i++) {
        words[i] = (u32)POISON;
        shadow[i] = i < whole ? READ | WRITE : PARTIAL | INIT | 1u << rest << 4;
        if (env->cells) {
            cell_of(env, 4 * (first + i))->tag = 0;
            *word_of(env, 4 * (first + i)) = 0;
        }
    }
    if (env->unset) unset_all(env, b->address, (b->bytes + 3) & ~3ull);
}

EXPORT u64 rt_malloc(Env* env, Thread* thread, u32 site, u64 bytes) {
    Heap* heap = heap_of(env);
    if (bytes > HEAP_LIMIT) return 0;
    lock(&heap->lock);
    Block* b = heap->live + bytes > HEAP_LIMIT ? 0 : new_block(env, heap, ((bytes + 15) & ~15ull) + HEAP_GUARD);
    u64 address = 0;
    if (b) {
        address = b->address;
        heap->live += bytes;
        b->bytes = bytes; b->block = env->block; b->thread = thread->linear;
        b->site = site; b->launch = launch_of(env)->tag; b->freed = 0;
        give_out(env, b);
    }
    unlock(&heap->lock);
    return address;
}

// The block that begins at an address, if there has been one.
static __device__ Block* block_at(Heap* heap, u64 address) {
    Block* blocks = blocks_of(heap);
    u32 first = 0, end = heap->blocks;
    while (first < end) {
        u32 middle = (first + end) / 2;
        if (blocks[middle].address < address) first = middle + 1;
        else end = middle;
    }
    return first < heap->blocks && blocks[first].address == address ? &blocks[first] : 0;
}

EXPORT int rt_free(Env* env, Thread* thread, u32 site, u64 address) {
    if (!address) return 1;
    Heap* heap = heap_of(env);
    lock(&heap->lock);
    Block* b = block_at(heap, address);
    int good = b && !b->freed;
    if (good) {
        b->freed = launch_of(env)->tag;
        b->freed_site = site;
        heap->live -= b->bytes;
        for (u64 i = 0; i < (b->bytes + 3) >> 2; i++) shadow_of(env, address)[i] = 0;
    }
    unlock(&heap->lock);
    return good || rt_fault(env, thread, site, FAULT_INVALID_FREE, address, b != 0);
}
