// Known fields and transforms, for the tests of distributed transforms.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <vector>

#include "weft/fft/decomposition.hpp"

namespace weft::fft {

// A value in [-1, 1) for each point, without any symmetry.
inline double field_value(int variable, std::int64_t x, std::int64_t y, std::int64_t z) {
  auto h = static_cast<std::uint64_t>(variable + 1) * 0x9e3779b97f4a7c15ULL +
           static_cast<std::uint64_t>(x) * 73856093ULL + static_cast<std::uint64_t>(y) * 19349663ULL +
           static_cast<std::uint64_t>(z) * 83492791ULL;
  h = (h ^ (h >> 31)) * 0xbf58476d1ce4e5b9ULL;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<double>(h >> 12) / static_cast<double>(std::uint64_t{1} << 51) - 1.0;
}

// One variable's values at a rank's points.
template <class T>
std::vector<T> field(int variable, const Box& box) {
  std::vector<T> values;
  for (std::int64_t z = 0; z < box.count[2]; ++z)
    for (std::int64_t y = 0; y < box.count[1]; ++y)
      for (std::int64_t x = 0; x < box.count[0]; ++x)
        values.push_back(static_cast<T>(field_value(variable, box.first[0] + x, box.first[1] + y, box.first[2] + z)));
  return values;
}

// The coefficients of Eq. 1 for all kx, ky, kz, from the sums of Eq. 2: [kz][ky][x / 2 + 1].
inline std::vector<std::complex<double>> coefficients(int variable, const Sizes& sizes) {
  using Complex = std::complex<double>;
  const auto root = [](std::int64_t n, std::int64_t jk) {
    return std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(jk % n) / static_cast<double>(n));
  };
  const std::int64_t modes = sizes.x / 2 + 1;
  const auto at = [&](std::int64_t kx, std::int64_t y, std::int64_t z) {
    return static_cast<std::size_t>((z * sizes.y + y) * modes + kx);
  };
  std::vector<Complex> values(static_cast<std::size_t>(modes * sizes.y * sizes.z));
  for (std::int64_t z = 0; z < sizes.z; ++z)
    for (std::int64_t y = 0; y < sizes.y; ++y)
      for (std::int64_t k = 0; k < modes; ++k)
        for (std::int64_t x = 0; x < sizes.x; ++x)
          values[at(k, y, z)] += field_value(variable, x, y, z) * root(sizes.x, x * k);
  std::vector<Complex> line;
  for (std::int64_t k = 0; k < modes; ++k) {
    for (std::int64_t y = 0; y < sizes.y; ++y) {
      line.assign(static_cast<std::size_t>(sizes.z), 0);
      for (std::int64_t kz = 0; kz < sizes.z; ++kz)
        for (std::int64_t z = 0; z < sizes.z; ++z)
          line[static_cast<std::size_t>(kz)] += values[at(k, y, z)] * root(sizes.z, z * kz);
      for (std::int64_t z = 0; z < sizes.z; ++z) values[at(k, y, z)] = line[static_cast<std::size_t>(z)];
    }
    for (std::int64_t z = 0; z < sizes.z; ++z) {
      line.assign(static_cast<std::size_t>(sizes.y), 0);
      for (std::int64_t ky = 0; ky < sizes.y; ++ky)
        for (std::int64_t y = 0; y < sizes.y; ++y)
          line[static_cast<std::size_t>(ky)] += values[at(k, y, z)] * root(sizes.y, y * ky);
      for (std::int64_t y = 0; y < sizes.y; ++y)
        values[at(k, y, z)] = line[static_cast<std::size_t>(y)] / static_cast<double>(sizes.points());
    }
  }
  return values;
}

}  // namespace weft::fft
