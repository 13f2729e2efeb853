// The screened Poisson operator on assembled vectors, which hold every degree of freedom once (hipBone).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "weft/poisson/any_operator.hpp"
#include "weft/poisson/simd_operator.hpp"

namespace weft::poisson {

template <class T>
class Operator final : public AnyOperator<T> {
 public:
  // Creates its own space. Every failure is one error on all ranks. (collective)
  Operator(const mesh::Mesh& mesh, const Options& options);
  // Uses an existing space, which must outlive this object; the options of the space in `options` are ignored.
  // (collective)
  Operator(space::Space<T>& space, const Options& options);

  // Three launches overlap both exchanges (space/overlap.hpp).
  void apply(T* x, T* y, device::Stream& stream) override { apply(x, y, 1, stream); }
  // Portable kernels only.
  void apply(T* x, T* y, double* product, device::Stream& stream,
             const std::function<void()>& fill = nullptr) override {
    run(x, y, 1, product, fill, stream);
  }
  std::int64_t product_partials() override;
  // On one rank, with portable kernels by columns or matrices and without a screening term.
  solver::Summands<T> summands(T* x, double* products, device::Stream& stream) override;
  std::int64_t summand_partials() override;
  T summand_lambda() const override { return lambda_in_gather_; }
  const void* workspace() const override { return simd_ ? nullptr : this->space().gather().values(); }
  // y_c = A x_c for `fields` contiguous vectors, [fields][entries()]: index and geometry are read once, and one message
  // per neighbour carries all fields. The first call with a number of fields sets up their exchange. (collective)
  void apply(T* x, T* y, int fields, device::Stream& stream);
  void apply_local(T* x, T* y, device::Stream& stream) override;

  const SimdOperator<T>* simd() const { return simd_.get(); }  // if kernels = simd, else null
  std::array<std::int64_t, 4> elements_by_shape() const override;
  std::map<std::string, std::int64_t> memory_bytes() const override;

 private:
  void set_up();
  void run(T* x, T* y, int fields, double* product, const std::function<void()>& fill, device::Stream& stream);

  std::unique_ptr<SimdOperator<T>> simd_;
  T lambda_in_gather_ = 0;  // the part that portable kernels leave to Z^T
};

}  // namespace weft::poisson
