#include "weft/fft/decomposition.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace weft::fft {

Decomposition::Decomposition(const Sizes& sizes, std::int64_t modes_x, const Grid& grid, int rank)
    : sizes_(sizes), modes_x_(modes_x == 0 ? sizes.x / 2 + 1 : modes_x), grid_(grid), rank_(rank) {
  const std::string size = std::to_string(sizes.x) + " x " + std::to_string(sizes.y) + " x " + std::to_string(sizes.z);
  const std::int64_t most = std::numeric_limits<int>::max();
  for (const std::int64_t n : {sizes.x, sizes.y, sizes.z}) {
    if (n < 1) throw std::invalid_argument("a grid of " + size + " points: every size must be at least 1");
    if (n > most)
      throw std::invalid_argument("a grid of " + size + " points: a size exceeds what FFT libraries can count");
  }
  if (modes_x_ < 1 || modes_x_ > sizes.x / 2 + 1)
    throw std::invalid_argument(std::to_string(modes_x) + " modes in x: a grid of " + size + " points has 1 to " +
                                std::to_string(sizes.x / 2 + 1));
}

Box Decomposition::physical(int rank) const {
  Box box = x_pencil(rank);
  box.count[0] = sizes_.x;
  return box;
}

Box Decomposition::x_pencil(int rank) const {
  const Share z = share(sizes_.z, grid_.rows, grid_.row_rank(rank));
  const Share y = share(sizes_.y, grid_.columns, grid_.column_rank(rank));
  return {{0, y.first, z.first}, {modes_x_, y.count, z.count}};
}

Box Decomposition::middle(int rank) const {
  const Share x = share(modes_x_, grid_.rows, grid_.row_rank(rank));
  const Share y = share(sizes_.y, grid_.columns, grid_.column_rank(rank));
  return {{x.first, y.first, 0}, {x.count, y.count, sizes_.z}};
}

Box Decomposition::spectral(int rank) const {
  const Share x = share(modes_x_, grid_.rows, grid_.row_rank(rank));
  const Share z = share(sizes_.z, grid_.columns, grid_.column_rank(rank));
  return {{x.first, 0, z.first}, {x.count, sizes_.y, z.count}};
}

std::int64_t Decomposition::field_values() const {
  return std::max({x_pencil().size(), middle().size(), spectral().size()});
}

}  // namespace weft::fft
