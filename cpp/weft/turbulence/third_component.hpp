// The velocity component that a checkpoint omits, from k . u = 0 (GESTS, Eq. 12).
//
// The paper omits u2 and recovers it as -(k1 u1 + k3 u3) / k2 where k2 is not 0. Rounding errors then grow by |k| /
// |k2|, and the planes k2 = 0 need another rule. weft omits, mode by mode, the component along which |k| is largest (if
// equal, the first of y, x, z): nothing is divided by less than |k| / sqrt(3), the planes k2 = 0 need no special rule,
// and a mode and its conjugate omit the same component. The mean, k = 0, is stored separately.
#pragma once

#include <array>
#include <cmath>
#include <complex>
#include <cstdint>

#include "weft/turbulence/wavenumbers.hpp"

namespace weft::turbulence {

// Which component a checkpoint omits for a mode, and which two it stores.
struct LeftOut {
  int component, first, second;
};
inline LeftOut left_out(const std::array<double, 3>& k) {
  const double x = std::abs(k[0]), y = std::abs(k[1]), z = std::abs(k[2]);
  if (y >= x && y >= z) return {1, 0, 2};
  return x >= z ? LeftOut{0, 1, 2} : LeftOut{2, 0, 1};
}

template <class T>
std::complex<T> third_component(const std::array<double, 3>& k, const LeftOut& left, std::complex<T> first,
                                std::complex<T> second) {
  const double k3 = k[static_cast<std::size_t>(left.component)];
  if (k3 == 0) return {};  // the mean
  const T a = static_cast<T>(k[static_cast<std::size_t>(left.first)] / k3);
  const T b = static_cast<T>(k[static_cast<std::size_t>(left.second)] / k3);
  return {-(a * first.real() + b * second.real()), -(a * first.imag() + b * second.imag())};
}

}  // namespace weft::turbulence
