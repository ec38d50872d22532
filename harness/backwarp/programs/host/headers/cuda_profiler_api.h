// A profiler is told where to begin and to end.
#pragma once
extern "C" cudaError_t cudaProfilerStart(), cudaProfilerStop();
