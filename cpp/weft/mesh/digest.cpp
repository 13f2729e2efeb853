#include "weft/mesh/digest.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "weft/mesh/points.hpp"

namespace weft::mesh {
namespace {

constexpr int order = 2;
constexpr std::int64_t coordinates_of_element = 27 * 3;
constexpr int coordinate_bits = 40, weight_bits = 22;

// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace

Digest digest(const Mesh& mesh) {
  const std::vector<double> x = point_coordinates(mesh, order);
  double largest = 0;
  for (const double value : x) largest = std::max(largest, std::abs(value));
  Digest d{.elements = mesh.global_elements};
  // The factor keeps sizes that are powers of two away from the edge between two exponents, where rounding would
  // decide.
  std::frexp(1.0001 * mesh.comm.max(largest), &d.exponent);
  std::array<std::uint64_t, 5> sums{};  // unsigned sums wrap around, so they do not depend on the order
  for (std::size_t e = 0; e < mesh.element_ids.size(); ++e) {
    const std::uint64_t element = mix(static_cast<std::uint64_t>(mesh.element_ids[e]));
    std::uint64_t joined = element;
    for (const std::int64_t vertex : mesh.topology.vertices[e])
      joined = mix(joined ^ static_cast<std::uint64_t>(vertex));
    sums[4] += joined;
    for (std::int64_t c = 0; c < coordinates_of_element; ++c) {
      const auto units = static_cast<std::uint64_t>(std::llround(
          std::ldexp(x[e * coordinates_of_element + static_cast<std::size_t>(c)], coordinate_bits - d.exponent)));
      std::uint64_t weight = element + static_cast<std::uint64_t>(c);
      for (std::size_t k = 0; k < d.geometry.size(); ++k) {
        weight = mix(weight);
        sums[k] += (weight >> (64 - weight_bits)) * units;
      }
    }
  }
  std::array<std::int64_t, 5> all{};
  std::memcpy(all.data(), sums.data(), sizeof all);
  mesh.comm.sum(all.data(), static_cast<int>(all.size()));
  std::memcpy(sums.data(), all.data(), sizeof all);
  std::copy_n(sums.begin(), d.geometry.size(), d.geometry.begin());
  d.topology = sums[4];
  return d;
}

bool same(const Digest& a, const Digest& b) {
  if (a.elements != b.elements || a.topology != b.topology || a.exponent != b.exponent) return false;
  // Coordinates that were rounded differently may differ by a few units.
  const double tolerance =
      std::ldexp(std::sqrt(static_cast<double>(coordinates_of_element * a.elements)), weight_bits + 2);
  for (std::size_t k = 0; k < a.geometry.size(); ++k) {
    const auto apart = static_cast<std::int64_t>(a.geometry[k] - b.geometry[k]);
    if (std::abs(static_cast<double>(apart)) > tolerance) return false;
  }
  return true;
}

}  // namespace weft::mesh
