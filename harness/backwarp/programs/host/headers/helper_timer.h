// The stopwatch of NVIDIA's samples, in milliseconds of the host's clock.
#pragma once
#include <chrono>
struct StopWatchInterface {
    using Clock = std::chrono::steady_clock;
    Clock::time_point began;
    double total = 0;
    int runs = 0;
    bool running = false;
    double now() const { return running ? std::chrono::duration<double, std::milli>(Clock::now() - began).count() : 0; }
    void start() { began = Clock::now(); running = true; }
    void stop() { total += now(); runs++; running = false; }
    void reset() { total = 0; runs = 0; if (running) began = Clock::now(); }
};
static inline bool sdkCreateTimer(StopWatchInterface** t) { *t = new StopWatchInterface; return true; }
static inline bool sdkDeleteTimer(StopWatchInterface** t) { delete *t; *t = nullptr; return true; }
static inline bool sdkStartTimer(StopWatchInterface** t) { (*t)->start(); return true; }
static inline bool sdkStopTimer(StopWatchInterface** t) { (*t)->stop(); return true; }
static inline bool sdkResetTimer(StopWatchInterface** t) { (*t)->reset(); return true; }
static inline float sdkGetTimerValue(StopWatchInterface** t) { return (float)((*t)->total + (*t)->now()); }
static inline float sdkGetAverageTimerValue(StopWatchInterface** t) { return (*t)->runs ? (float)((*t)->total / (*t)->runs) : 0; }
