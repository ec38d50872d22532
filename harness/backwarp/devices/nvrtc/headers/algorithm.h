// The part of <algorithm> that kernels use.
#pragma once

namespace std {
template <class T>
__device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T>
__device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T>
__device__ constexpr const T& clamp(const T& x, const T& low, const T& high) {
  return x < low ? low : high < x ? high : x;
}
template <class T>
__device__ constexpr void swap(T& a, T& b) {
  T t = a;
  a = b;
  b = t;
}
}  // namespace std
