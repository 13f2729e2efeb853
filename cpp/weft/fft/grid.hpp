// The Pr x Pc grid of ranks, and how a direction is divided among ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::fft {

// The range [first, first + count) of a direction.
struct Share {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
};
// Divides n values into `parts`. The first n % parts get one value more than the others, which may get none.
Share share(std::int64_t n, int parts, int part);

// rows = Pr: the number of ranks in a row communicator, which transposes x and z. columns = Pc: the number in a column
// communicator, which transposes z and y. The ranks of a row are consecutive, so that rows stay within a node (GESTS,
// section 2.1).
struct Grid {
  int rows = 1, columns = 1;
  int size() const { return rows * columns; }
  int row_rank(int rank) const { return rank % rows; }     // in its row communicator
  int column_rank(int rank) const { return rank / rows; }  // in its column communicator
  auto operator<=>(const Grid&) const = default;
};
std::string name(const Grid& grid);        // "2x4"
Grid parse_grid(const std::string& text);  // "2x4"; std::invalid_argument for anything else
std::vector<Grid> grids_of(int ranks);     // every Pr x Pc grid of `ranks` ranks, ascending by Pr
// std::invalid_argument that lists the possible grids, unless Pr x Pc is the number of ranks.
void check_grid(const Grid& grid, int ranks);

}  // namespace weft::fft
