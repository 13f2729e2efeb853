#include "weft/bindings/coarse.hpp"

#include <cstdint>

namespace nb = nanobind;

namespace weft::bindings {
namespace {

solver::Csr csr_of(nb::handle given) {
  using Longs = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  using Ints = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  solver::Csr matrix;
  if (given.is_none()) return matrix;
  const auto t = nb::cast<nb::tuple>(given);
  const auto offsets = nb::cast<Longs>(t[0]);
  const auto indices = nb::cast<Ints>(t[1]);
  const auto values = nb::cast<Doubles>(t[2]);
  matrix.rows = static_cast<std::int64_t>(offsets.size()) - 1;
  matrix.columns = nb::cast<std::int64_t>(t[3]);
  matrix.offsets.assign(offsets.data(), offsets.data() + offsets.size());
  matrix.indices.assign(indices.data(), indices.data() + indices.size());
  matrix.values.assign(values.data(), values.data() + values.size());
  return matrix;
}

}  // namespace

solver::Amg amg_of(const nb::list& levels, const DenseMatrix& coarsest, bool singular) {
  std::vector<solver::AmgLevel> hierarchy;
  for (const nb::handle level : levels) {
    const auto pair = nb::cast<nb::tuple>(level);
    hierarchy.push_back({csr_of(pair[0]), csr_of(pair[1])});
  }
  return solver::Amg(std::move(hierarchy), std::vector<double>(coarsest.data(), coarsest.data() + coarsest.size()),
                     singular);
}

}  // namespace weft::bindings
