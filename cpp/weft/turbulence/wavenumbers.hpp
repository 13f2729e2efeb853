// The box, its wavenumbers, the truncation, and the modes of each rank.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::turbulence {

// Points and lengths along x, y, z. A mode has indices n = (nx, ny, nz) and the wavenumber k = 2 pi (nx/Lx, ny/Ly,
// nz/Lz).
struct Box {
  std::array<std::int64_t, 3> sizes{64, 64, 64};
  std::array<double, 3> lengths{6.283185307179586, 6.283185307179586, 6.283185307179586};

  std::int64_t points() const { return sizes[0] * sizes[1] * sizes[2]; }
  double spacing(int axis) const { return lengths[axis] / static_cast<double>(sizes[axis]); }
  double unit(int axis) const { return 6.283185307179586 / lengths[axis]; }  // the smallest wavenumber
};

// The index of entry i of a transform of n points: 0, 1, …, n/2, -(n/2 - 1), …, -1.
inline std::int64_t signed_index(std::int64_t i, std::int64_t n) { return i <= n / 2 ? i : i - n; }

// How aliases are removed from products.
//   phase_shift  transforms to a grid that is shifted by a random fraction of a cell in the first half of a step, and
//                by half a cell more in the second; modes with (nx/Nx)^2 + (ny/Ny)^2 + (nz/Nz)^2 < 2/9 are kept: a
//                sphere of radius sqrt(2) N / 3 if the sides are equal, otherwise an ellipsoid in the indices (and in
//                wavenumbers) (Rogallo 1981; Patterson & Orszag 1971)
//   two_thirds   no shifts, |n| < N / 3 in each direction: no aliases at all
// Both drop all modes that coincide with their conjugates only because of the grid (n = N/2).
enum class Dealiasing { phase_shift, two_thirds };
std::string name(Dealiasing dealiasing);

// Which modes are kept.
class Truncation {
 public:
  Truncation(const Box& box, Dealiasing dealiasing);
  Dealiasing dealiasing() const { return dealiasing_; }
  bool keeps(std::int64_t nx, std::int64_t ny, std::int64_t nz) const;
  // Of the modes nx = 0, 1, … of a line, those below this value are kept, the others are not.
  std::int64_t kept(std::int64_t ny, std::int64_t nz) const;
  std::int64_t modes_x() const { return kept(0, 0); }
  // The largest |k| up to which all modes are kept.
  double largest_wavenumber() const;

 private:
  Box box_;
  Dealiasing dealiasing_;
};

// The part of a spectral field on one rank: [z.count][Ny][x.count] (C order), with z in the order of the transform.
struct SpectralPart {
  struct Range {
    std::int64_t begin = 0, count = 0;
  };
  Box box;
  Range x, z;  // ranges of kx and kz

  std::int64_t rows() const { return z.count * box.sizes[1]; }
  std::int64_t modes() const { return rows() * x.count; }
  std::int64_t ny(std::int64_t row) const { return signed_index(row % box.sizes[1], box.sizes[1]); }
  std::int64_t nz(std::int64_t row) const { return signed_index(z.begin + row / box.sizes[1], box.sizes[2]); }
  // The index of a mode, or -1 if another rank has it.
  std::int64_t place(std::int64_t nx, std::int64_t ny, std::int64_t nz) const;
};

// [rows] for each row, how many of its modes, counted from the first, are kept.
std::vector<std::int32_t> kept_modes(const SpectralPart& part, const Truncation& truncation);

}  // namespace weft::turbulence
