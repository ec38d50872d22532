"""The virtual GPU: NVRTC's PTX, translated to LLVM, run on the CPU, every access checked.

device.py is what users see, confined.py the same in a process without rights. A file is compiled as
compile/pipeline.py says: parsed (ptx/), looked at (analyse/), transformed (rewrite/), given its checks (instrument/),
written as LLVM (emit/). run/ and runtime/ execute it, explain/ says what went wrong.
"""
