// The screened Poisson operator on scattered vectors, which hold a degree of freedom once per element (Nekbone): the
// storage that hipBone compares its own with. Portable kernels only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/exchange/gather_scatter.hpp"
#include "weft/poisson/any_operator.hpp"

namespace weft::poisson {

// Vectors are stored by points, [element][k][j][i] in the space's order of execution: entries() = unknowns() = points.
template <class T>
class ScatteredOperator final : public AnyOperator<T> {
 public:
  // Requires options.storage = scattered. (collective)
  ScatteredOperator(const mesh::Mesh& mesh, const Options& options);

  using AnyOperator<T>::apply;
  void apply(T* x, T* y, device::Stream& stream) override;
  void apply_local(T* x, T* y, device::Stream& stream) override;

  std::int64_t entries() const override { return this->space().points(); }
  std::int64_t unknowns() const override { return this->space().points(); }
  const T* weights() const override { return weights_.data(); }  // inverse degrees, 0 where masked
  std::vector<std::pair<std::string, exchange::Tuning>> tunings() const override;
  std::int64_t bytes_sent() const override { return gather_scatter_->bytes_sent(); }
  std::int64_t messages() const override { return gather_scatter_->messages(); }
  std::map<std::string, std::int64_t> memory_bytes() const override;

  std::vector<std::int64_t> unknown_ids() const override;
  std::vector<double> coordinates() const override;
  std::vector<T> sum_points(std::span<const T> values) override;
  std::vector<T> at_points(std::span<const T> x) override;

 private:
  std::unique_ptr<exchange::GatherScatter<T>> gather_scatter_;
  device::Array<T> weights_;
  device::Array<T> mask_;  // 0 at masked points, else 1; empty if no points are masked
  device::Kernel<long, const T*, const T*, T*> multiply_;
};

}  // namespace weft::poisson
