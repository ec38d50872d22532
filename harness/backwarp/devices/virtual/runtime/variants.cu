// Many launches of one kernel that differ in a __constant__ variable alone (see launch.Execution.variants).

static __device__ void copy_bytes(u64 to, u64 from, u64 bytes) {
    u64 words = bytes / 4;
    for (u64 i = 0; i < words; i++) ((u32*)to)[i] = ((u32*)from)[i];
    for (u64 i = 4 * words; i < bytes; i++) ((unsigned char*)to)[i] = ((unsigned char*)from)[i];
}

static __device__ int is_right(Target* t, u64 i) {
    double got = t->is_integer ? (double)((int*)t->at)[i] : (double)((float*)t->at)[i];
    double wanted = ((double*)t->values)[i], apart = got > wanted ? got - wanted : wanted - got;
    if (apart <= ((double*)t->tolerances)[i]) return 1;  // neither is infinite or NaN
    return t->special && (got == wanted || (got != got && wanted != wanted));
}

// Whether all elements are right; not at the end: all that have been written.
static __device__ int are_right(Batch* batch, int at_end) {
    Target* targets = (Target*)batch->targets;
    for (u32 k = 0; k < batch->target_count; k++) {
        Target* t = &targets[k];
        for (u64 i = 0; i < t->count; i++) {
            if (!at_end && ((u32*)t->at)[i] == ((u32*)t->before)[i]) continue;
            if (!is_right(t, i)) return 0;
        }
    }
    return 1;
}

// One launch, part after part as long as nothing is wrong. Returns the part that is, or ALL_RIGHT.
static __device__ u32 try_variant(Env* env, Batch* batch) {
    Launch* launch = launch_of(env);
    Part* parts = (Part*)batch->parts;
    for (u32 k = 0; k < batch->part_count; k++) {
        launch->next_block = parts[k].first;
        launch->blocks = parts[k].end;
        launch->order = parts[k].order;
        launch->threads = parts[k].threads;
        rt_run(env);
        if (launch->faults || launch->suspect) return k | FAULTY;
        int at_end = k + 1 == batch->part_count && !batch->probes;
        int looks = at_end || batch->probes || !(k & (k + 1));
        if (looks && !are_right(batch, at_end)) return k;
    }
    return ALL_RIGHT;
}

EXPORT void rt_variants(Env* env) {
    Batch* batch = (Batch*)launch_of(env)->batch;
    Region* regions = (Region*)batch->regions;
    for (; batch->done < batch->count; batch->done++) {
        if (monotonic_time() > batch->end) return;
        copy_bytes(env->launch, batch->fresh, sizeof(Launch));
        copy_bytes(batch->constant, batch->rows + batch->done * batch->row_bytes, batch->row_bytes);
        ((u32*)batch->results)[batch->done] = try_variant(env, batch);
        for (u32 k = 0; k < batch->region_count; k++) copy_bytes(regions[k].at, regions[k].before, regions[k].bytes);
    }
}
