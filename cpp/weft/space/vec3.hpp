// Vectors of three components, each a vector of lanes.
#pragma once

#include "weft/kernels/cross.hpp"
#include "weft/simd/vector.hpp"

namespace weft::space {

using simd::Vec;

template <class T>
struct Vec3 {
  Vec<T> x, y, z;
};
template <class T>
WEFT_ALWAYS_INLINE Vec3<T> operator+(const Vec3<T>& a, const Vec3<T>& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z};
}
template <class T>
WEFT_ALWAYS_INLINE Vec3<T> operator-(const Vec3<T>& a, const Vec3<T>& b) {
  return {a.x - b.x, a.y - b.y, a.z - b.z};
}
template <class T>
WEFT_ALWAYS_INLINE Vec3<T> operator*(const Vec3<T>& a, T s) {
  return {a.x * s, a.y * s, a.z * s};
}
template <class T>
WEFT_ALWAYS_INLINE Vec3<T> cross(const Vec3<T>& a, const Vec3<T>& b) {
  return weft::cross(a, b);
}
template <class T>
WEFT_ALWAYS_INLINE Vec<T> dot(const Vec3<T>& a, const Vec3<T>& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}

}  // namespace weft::space
