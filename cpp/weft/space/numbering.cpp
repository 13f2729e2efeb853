#include "weft/space/numbering.hpp"

#include <algorithm>
#include <utility>

#include "weft/device/device.hpp"
#include "weft/exchange/gather_scatter.hpp"
#include "weft/exchange/pattern.hpp"
#include "weft/mesh/points.hpp"

namespace weft::space {

BlockSplit split_blocks(std::span<const std::uint8_t> halo, int lanes) {
  const auto elements = static_cast<std::int64_t>(halo.size());
  std::vector<std::int64_t> inner, outer;
  for (std::int64_t e = 0; e < elements; ++e) (halo[e] != 0 ? outer : inner).push_back(e);
  const auto inside = static_cast<std::int64_t>(inner.size());

  BlockSplit split;
  split.blocks = (elements + lanes - 1) / lanes;
  split.half = inside / 2 / lanes;
  split.order.assign(inner.begin(), inner.begin() + split.half * lanes);
  split.order.insert(split.order.end(), outer.begin(), outer.end());
  // Elements without shared points fill up the last block of the halo.
  const std::int64_t fill = std::min<std::int64_t>((lanes - static_cast<std::int64_t>(outer.size()) % lanes) % lanes,
                                                   inside - split.half * lanes);
  split.order.insert(split.order.end(), inner.begin() + split.half * lanes, inner.end());
  split.halo_end = split.half + (static_cast<std::int64_t>(outer.size()) + fill + lanes - 1) / lanes;
  return split;
}

std::vector<std::int64_t> execution_order(std::int64_t elements, int order, int lanes) {
  const int n = order + 1, each = n * n * n;
  std::vector<int> points;  // of one element
  points.reserve(each);
  const auto inside = [&](int i) { return i > 0 && i < n - 1; };
  for (const bool inner : {true, false})
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < n; ++i)
        for (int k = 0; k < n; ++k)
          if ((inside(i) && inside(j) && inside(k)) == inner) points.push_back((k * n + j) * n + i);

  std::vector<std::int64_t> all;
  const std::int64_t blocks = (elements + lanes - 1) / lanes;
  all.reserve(blocks * lanes * each);
  for (std::int64_t b = 0; b < blocks; ++b)
    for (const int point : points)
      for (std::int64_t e = b * lanes; e < (b + 1) * lanes; ++e) all.push_back(e < elements ? e * each + point : -1);
  return all;
}

std::vector<std::int64_t> point_ids(const mesh::Mesh& mesh, int order, const mesh::BoundarySet& without) {
  std::vector<std::int64_t> ids = mesh::point_ids(mesh, order);
  if (without == mesh::BoundarySet{}) return ids;
  const std::vector<std::uint8_t> boundary = mesh::points_on_boundary(mesh, order, without);
  std::vector<std::int32_t> flags(boundary.begin(), boundary.end());
  const auto host = device::open("host");
  exchange::GatherScatter<std::int32_t> combine(ids, mesh.comm, host, exchange::Choice{});
  device::Stream stream(host);
  combine.gather_scatter(flags.data(), exchange::Op::max, stream);
  stream.synchronize();
  for (std::size_t p = 0; p < ids.size(); ++p)
    if (flags[p] != 0) ids[p] = 0;
  return ids;
}

Numbering::Numbering(mesh::Mesh given, int order_, std::span<const std::int64_t> ids, int lanes_)
    : mesh(std::move(given)), order(order_), lanes(lanes_) {
  const std::int64_t each = points_per_element();
  const std::vector<std::uint8_t> shared = exchange::shared_with_others(ids, mesh.comm);
  std::vector<std::uint8_t> halo(mesh.elements());
  for (std::size_t e = 0; e < halo.size(); ++e)
    halo[e] = std::ranges::any_of(std::span(shared).subspan(e * each, each), [](auto flag) { return flag != 0; });
  halo_elements = std::ranges::count(halo, 1);
  split = split_blocks(halo, lanes);

  const std::vector<std::int64_t> own = to_execution(ids);
  if (lanes == 1) {
    assembly = exchange::Assembly(own, each, mesh.comm);
    index = std::move(assembly.index);
  } else {
    const std::vector<std::int64_t> execution = execution_order(mesh.elements(), order, lanes);
    std::vector<std::int64_t> executed(execution.size());
    for (std::size_t q = 0; q < execution.size(); ++q) executed[q] = execution[q] < 0 ? 0 : own[execution[q]];
    assembly = exchange::Assembly(executed, lanes * each, mesh.comm);
    index.resize(own.size());
    for (std::size_t q = 0; q < execution.size(); ++q)
      if (execution[q] >= 0) index[execution[q]] = assembly.index[q];
  }
  assembly.dof_ids = {};
}

}  // namespace weft::space
