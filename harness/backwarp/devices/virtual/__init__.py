"""The virtual GPU: NVRTC's PTX, translated to LLVM and run on the CPU, with every access checked.

device.py is the public interface, confined.py the same in an unprivileged process. compile/pipeline.py
compiles a file: it is parsed (ptx/), analysed (analyse/), transformed (rewrite/), instrumented with checks
(instrument/) and emitted as LLVM (emit/). run/ and runtime/ execute it, explain/ explains faults.
"""

REASON = "runs real CUDA on the CPU and checks every access"
