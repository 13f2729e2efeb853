#include "weft/poisson/scattered_operator.hpp"

#include <algorithm>
#include <stdexcept>

#include "weft/device/vector.hpp"
#include "weft/mesh/points.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {
namespace {

// [points] in the order of execution, 0 where masked.
std::vector<std::int64_t> ids_of(const space::Numbering& numbering) {
  std::vector<std::int64_t> ids =
      numbering.to_execution<std::int64_t>(mesh::point_ids(numbering.mesh, numbering.order));
  for (std::size_t p = 0; p < ids.size(); ++p)
    if (numbering.index[p] == numbering.assembly.local) ids[p] = 0;
  return ids;
}

}  // namespace

template <class T>
ScatteredOperator<T>::ScatteredOperator(const mesh::Mesh& mesh, const Options& options)
    : AnyOperator<T>(mesh, options) {
  space::Numbering numbering(mesh, options.order, options.dirichlet, 1);
  const std::vector<std::int64_t> ids = ids_of(numbering);
  gather_scatter_ = std::make_unique<exchange::GatherScatter<T>>(ids, mesh.comm, options.device, options.exchange);
  // The space's own exchange is used only for set-up and output, so timing it does not pay off.
  space::Options chosen = options;
  chosen.exchange = gather_scatter_->tuning().chosen;
  this->own_ = std::make_unique<space::Space<T>>(std::move(numbering), chosen);
  this->space_ = this->own_.get();

  const std::vector<double> degrees = this->space().inverse_degrees();
  mesh.comm.together([&] {
    this->local_ = std::make_unique<LocalOperator<T>>(mesh, options, std::span<const std::int32_t>{}, degrees,
                                                      this->space().numbering().split.order);
    weights_ = device::Array<T>(options.device, std::vector<T>(degrees.begin(), degrees.end()));
    if (std::ranges::none_of(ids, [](std::int64_t id) { return id <= 0; })) return;
    std::vector<T> mask(ids.size());
    std::ranges::transform(ids, mask.begin(), [](std::int64_t id) { return T(id > 0 ? 1 : 0); });
    mask_ = device::Array<T>(options.device, mask);
    multiply_ = device::vector_kernel<T>(*options.device, "multiply");
  });
}

// b_L = (Z Z^T S_L + lambda I) x_L, with lambda I = lambda Z Z^T W as in the kernel.
template <class T>
void ScatteredOperator<T>::apply(T* x, T* y, device::Stream& stream) {
  const trace::Span span("operator", trace::Category::cpu);
  apply_local(x, y, stream);
  gather_scatter_->gather_scatter(y, exchange::Op::add, stream);
  if (!mask_.empty())
    multiply_(stream, device::vector_blocks(unknowns()), device::vector_shape, unknowns(), mask_.data(), y, y);
  this->add_screening(x, y, stream);
}

template <class T>
void ScatteredOperator<T>::apply_local(T* x, T* y, device::Stream& stream) {
  this->local_->apply(x, y, 0, this->space().elements(), stream);
}

template <class T>
std::vector<std::pair<std::string, exchange::Tuning>> ScatteredOperator<T>::tunings() const {
  return {{"gather_scatter", gather_scatter_->tuning()}};
}

template <class T>
std::map<std::string, std::int64_t> ScatteredOperator<T>::memory_bytes() const {
  auto bytes = AnyOperator<T>::memory_bytes();
  bytes["weights of inner products"] = static_cast<std::int64_t>(weights_.bytes());
  if (!mask_.empty()) bytes["mask"] = static_cast<std::int64_t>(mask_.bytes());
  return bytes;
}

template <class T>
std::vector<std::int64_t> ScatteredOperator<T>::unknown_ids() const {
  return ids_of(this->space().numbering());
}

template <class T>
std::vector<double> ScatteredOperator<T>::coordinates() const {
  return this->space().numbering().template to_execution<double>(this->space().point_coordinates());
}

template <class T>
std::vector<T> ScatteredOperator<T>::sum_points(std::span<const T> values) {
  space::Space<T>& space = this->space();
  return space.numbering().template to_execution<T>(space.at_points(space.sum_points(values)));
}

template <class T>
std::vector<T> ScatteredOperator<T>::at_points(std::span<const T> x) {
  if (static_cast<std::int64_t>(x.size()) != unknowns())
    throw std::invalid_argument("poisson: a vector has " + std::to_string(unknowns()) + " values on this rank, not " +
                                std::to_string(x.size()));
  return this->space().numbering().from_execution(x);
}

template class ScatteredOperator<float>;
template class ScatteredOperator<double>;

}  // namespace weft::poisson
