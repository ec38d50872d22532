"""The virtual GPU: NVRTC's PTX, translated to LLVM, run on the CPU, every access checked.

The pipeline, one module a step: ptx (text -> instructions), opcodes and lower (-> LLVM IR),
jit (-> machine code), schedule (blocks over cores), memory (the arena that all of it runs in).
"""
