// What a GPU has instructions for, on processors: see dialect.hpp.
#pragma once

template <class T>
WEFT_FUNCTION T weft_reciprocal(T x) {
  return T(1) / x;
}
