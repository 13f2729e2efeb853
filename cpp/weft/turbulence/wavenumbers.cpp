#include "weft/turbulence/wavenumbers.hpp"

#include <algorithm>
#include <cmath>

namespace weft::turbulence {

std::string name(Dealiasing dealiasing) { return dealiasing == Dealiasing::phase_shift ? "phase-shift" : "two-thirds"; }

Truncation::Truncation(const Box& box, Dealiasing dealiasing) : box_(box), dealiasing_(dealiasing) {}

// Computed in integers, so that rounding cannot affect modes exactly on the boundary, which are not kept.
bool Truncation::keeps(std::int64_t nx, std::int64_t ny, std::int64_t nz) const {
  const std::array<std::int64_t, 3> n{nx, ny, nz};
  if (dealiasing_ == Dealiasing::two_thirds) {
    for (int axis = 0; axis < 3; ++axis)
      if (3 * std::abs(n[axis]) >= box_.sizes[axis]) return false;
    return true;
  }
  __extension__ using Wide = __int128;  // sizes to the fourth power times indices squared
  std::array<Wide, 3> squares;
  for (int axis = 0; axis < 3; ++axis) squares[axis] = Wide(box_.sizes[axis]) * box_.sizes[axis];
  const Wide sum = Wide(nx * nx) * squares[1] * squares[2] + Wide(ny * ny) * squares[0] * squares[2] +
                   Wide(nz * nz) * squares[0] * squares[1];
  return 9 * sum < 2 * squares[0] * squares[1] * squares[2];
}

std::int64_t Truncation::kept(std::int64_t ny, std::int64_t nz) const {
  std::int64_t low = 0, high = box_.sizes[0] / 2 + 1;  // the first mode not kept is in [low, high]
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (keeps(middle, ny, nz))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

double Truncation::largest_wavenumber() const {
  const double part = dealiasing_ == Dealiasing::two_thirds ? 1.0 / 3 : std::sqrt(2.0) / 3;
  double smallest = box_.unit(0) * part * static_cast<double>(box_.sizes[0]);
  for (int axis = 1; axis < 3; ++axis)
    smallest = std::min(smallest, box_.unit(axis) * part * static_cast<double>(box_.sizes[axis]));
  return smallest;
}

std::int64_t SpectralPart::place(std::int64_t nx, std::int64_t ny, std::int64_t nz) const {
  const std::int64_t iy = ny < 0 ? ny + box.sizes[1] : ny, iz = (nz < 0 ? nz + box.sizes[2] : nz) - z.begin;
  const std::int64_t ix = nx - x.begin;
  if (ix < 0 || ix >= x.count || iz < 0 || iz >= z.count) return -1;
  return (iz * box.sizes[1] + iy) * x.count + ix;
}

std::vector<std::int32_t> kept_modes(const SpectralPart& part, const Truncation& truncation) {
  std::vector<std::int32_t> kept(part.rows());
  for (std::int64_t row = 0; row < part.rows(); ++row)
    kept[row] = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(truncation.kept(part.ny(row), part.nz(row)) - part.x.begin, 0, part.x.count));
  return kept;
}

}  // namespace weft::turbulence
