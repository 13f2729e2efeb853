#include "weft/fft/grid.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace weft::fft {

Share share(std::int64_t n, int parts, int part) {
  const std::int64_t least = n / parts, more = n % parts;
  return {part * least + std::min<std::int64_t>(part, more), least + (part < more ? 1 : 0)};
}

std::string name(const Grid& grid) { return std::to_string(grid.rows) + "x" + std::to_string(grid.columns); }

Grid parse_grid(const std::string& text) {
  Grid grid{};
  const char* const end = text.data() + text.size();
  const auto rows = std::from_chars(text.data(), end, grid.rows);
  const bool cross = rows.ec == std::errc() && rows.ptr != end && *rows.ptr == 'x';
  const auto columns = cross ? std::from_chars(rows.ptr + 1, end, grid.columns) : rows;
  if (!cross || columns.ec != std::errc() || columns.ptr != end || grid.rows < 1 || grid.columns < 1)
    throw std::invalid_argument("the process grid '" + text + "' is not of the form PrxPc, such as 2x4");
  return grid;
}

std::vector<Grid> grids_of(int ranks) {
  std::vector<Grid> all;
  for (int rows = 1; rows <= ranks; ++rows) {
    if (ranks % rows == 0) all.push_back({rows, ranks / rows});
  }
  return all;
}

void check_grid(const Grid& grid, int ranks) {
  const bool fits = grid.rows >= 1 && grid.columns >= 1 && std::int64_t{grid.rows} * grid.columns == ranks;
  if (fits) return;
  std::string known;
  for (const Grid& g : grids_of(ranks)) known += (known.empty() ? "" : ", ") + name(g);
  throw std::invalid_argument("the process grid " + name(grid) + " is not one of " + std::to_string(ranks) +
                              (ranks == 1 ? " rank: " : " ranks: ") + known);
}

}  // namespace weft::fft
