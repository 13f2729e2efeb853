// What a GPU has instructions for, on processors: see dialect.hpp.
#pragma once

#include <cmath>

WEFT_FUNCTION void weft_prefetch(const void*, int) {}
template <class T>
WEFT_FUNCTION const T* weft_anew(const T* pointer) {
  return pointer;
}
template <class T>
WEFT_FUNCTION T weft_reciprocal(T x) {
  return T(1) / x;
}
template <class T>
WEFT_FUNCTION T weft_reciprocal_root(T x) {
  return T(1) / std::sqrt(x);
}
