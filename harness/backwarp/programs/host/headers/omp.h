// OpenMP with one thread: its pragmas are comments here.
#pragma once
#include <chrono>
static inline int omp_get_thread_num() { return 0; }
static inline int omp_get_num_threads() { return 1; }
static inline int omp_get_max_threads() { return 1; }
static inline int omp_get_num_procs() { return 1; }
static inline int omp_in_parallel() { return 0; }
static inline void omp_set_num_threads(int) {}
static inline void omp_set_dynamic(int) {}
static inline void omp_set_nested(int) {}
static inline double omp_get_wtime() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
static inline double omp_get_wtick() { return 1e-9; }
