// What programs take from the header of this name in NVIDIA's samples: timers, options and comparisons.
#pragma once
#include <cmath>
#include <cstdio>
#include <helper_string.h>
#include <helper_timer.h>
template <class T> bool backwarp_near(const T* reference, const T* data, unsigned n, double most, float share) {
    unsigned far = 0;
    for (unsigned i = 0; i < n; i++) far += std::abs((double)reference[i] - (double)data[i]) > most;
    return far <= share * n;
}
static inline bool compareData(const float* reference, const float* data, unsigned n, float most, float share) { return backwarp_near(reference, data, n, most, share); }
static inline bool sdkCompareL2fe(const float* reference, const float* data, unsigned n, float most) {
    double error = 0, sum = 0;
    for (unsigned i = 0; i < n; i++) { double d = (double)reference[i] - data[i]; error += d * d; sum += (double)reference[i] * reference[i]; }
    return std::sqrt(error) <= most * std::sqrt(sum);
}
