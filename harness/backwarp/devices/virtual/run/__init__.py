"""Running compiled code: the device's memory, its workers, and what is counted and recorded.

What threads of this process share without a lock of Python's, and what orders it. x86 keeps stores in their order, and loads
in theirs; ARM does not, so each row has a fence or an atomic in the code that LLVM makes. On x86 these cost what they did:
there the fences of volatile accesses only keep LLVM from moving others.

shared                             by                                what orders it
Member, Team, GraphNode,           who launches -> a worker          sem_post, sem_wait, sem_trywait (crew.cu)
  Launch as it begins, Env
what a launch has stored           workers -> who leads              the same semaphores
Member.calls, and the same         the first worker -> Python        a volatile store: `fence release` before it; Python gives
                                                                     its lock away and takes it again (crew.Crew._see)
Launch.next_block                  workers                           atomicAdd; the look before it may be old
records of faults, Launch.kept,    workers                           lock and unlock: a compare-and-swap, and fences (common.cu)
  Launch.faults, the heap
Launch.stop                        workers, Python                   compare-and-swap from 0 to 1; else a plain store of one
                                                                     value, which hands nothing on
Launch.ticks, printf_lines         workers                           atomicAdd
Launch.granted, visits, turns,     workers                           nothing: where there are several they decide nothing that
  chance                                                             counts, and may miss an addition
Graph.stop                         Python -> who leads               a volatile load
arrays, shared by blocks           workers                           as the kernel says: atomics are sequentially consistent,
                                                                     __threadfence() is `fence seq_cst`, strong and volatile
                                                                     loads have `fence acquire` behind them, stores `fence
                                                                     release` before them (emit/memory.py)
machine code                       who links -> workers              LLVM's linker clears the caches; `isb` before a call
                                                                     (compile/runtime_code.py)
texts and outputs of printf        workers -> Python                 a callback, which takes Python's lock

With full checks, and where accesses are counted, there is one worker: shadow bytes, cells, words, clocks, the pool of
racecheck, entries of counters and traces are its alone. With other checks shadow bytes only change under the heap's lock, of
memory that nobody owns. The cache on disk and messages between processes go through system calls.
"""
