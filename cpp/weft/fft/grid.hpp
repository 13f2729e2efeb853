// The Pr x Pc grid of ranks, and who has which share of a direction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::fft {

// [first, first + count) of a direction.
struct Share {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
};
// n values over `parts`: the first n % parts have one more than the others, which may have none.
Share share(std::int64_t n, int parts, int part);

// rows = Pr: how many ranks a row communicator has, which swaps x and z; columns = Pc: a column communicator, which
// swaps z and y. Ranks of a row are consecutive, so that rows stay within a node (GESTS, section 2.1).
struct Grid {
  int rows = 1, columns = 1;
  int size() const { return rows * columns; }
  int row_rank(int rank) const { return rank % rows; }     // in its row communicator
  int column_rank(int rank) const { return rank / rows; }  // in its column communicator
  auto operator<=>(const Grid&) const = default;
};
std::string name(const Grid& grid);        // "2x4"
Grid parse_grid(const std::string& text);  // "2x4"; std::invalid_argument for anything else
std::vector<Grid> grids_of(int ranks);     // every Pr x Pc of so many ranks, ascending by Pr
// std::invalid_argument, naming the grids there are, unless Pr x Pc is the number of ranks.
void check_grid(const Grid& grid, int ranks);

}  // namespace weft::fft
