// The threads of a device that run compiled code, and how one of them, or the one that launches, shares work out.
//
// Who waits looks again and again for a moment before it sleeps: work mostly comes at once, and to be woken takes longer
// than a small launch.

extern "C" __device__ int sem_post(u64 semaphore);
extern "C" __device__ int sem_wait(u64 semaphore);
extern "C" __device__ int sem_trywait(u64 semaphore);

static __device__ void await(u64* semaphore) {
    for (u32 i = 0; i < LOOKS; i++)
        if (!sem_trywait((u64)semaphore)) return;
    while (sem_wait((u64)semaphore)) {  // a signal has interrupted it
    }
}

// What each thread of the crew does until it is given nothing to call.
EXPORT void rt_serve(Member* member) {
    for (;;) {
        await(member->wake);
        if (!member->function) return;
        call_with(member->function, member->argument);
        *(volatile u64*)&member->calls = member->calls + 1;  // after all that the call has stored
        sem_post(member->done);
    }
}

// Call a function, rt_run, on this many workers: on the first of them in this thread.
static __device__ void share_out(Team* team, u64 function, u32 workers) {
    Member* members = (Member*)team->members;
    for (u32 i = 1; i < workers; i++) {
        members[i].function = function;
        members[i].argument = team->envs + i * team->stride;
        members[i].done = (u64)team->done;
        sem_post((u64)members[i].wake);
    }
    call_with(function, team->envs);
    for (u32 i = 1; i < workers; i++) await(team->done);
}

EXPORT void rt_lead(Team* team) { share_out(team, team->function, team->workers); }
