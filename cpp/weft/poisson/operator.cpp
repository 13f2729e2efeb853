#include "weft/poisson/operator.hpp"

#include <stdexcept>

#include "weft/space/overlap.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {

using space::Part;
using space::Range;

template <class T>
Operator<T>::Operator(const mesh::Mesh& mesh, const Options& options) : AnyOperator<T>(mesh, options) {
  this->own_ = std::make_unique<space::Space<T>>(mesh, options);
  this->space_ = this->own_.get();
  set_up();
}

template <class T>
Operator<T>::Operator(space::Space<T>& space, const Options& options) : AnyOperator<T>(space.mesh(), options) {
  const space::Options& own = space.options();
  this->options_.order = own.order;
  this->options_.kernels = own.kernels;
  this->options_.dirichlet = own.dirichlet;
  this->options_.exchange = own.exchange;
  this->options_.device = own.device;
  this->space_ = &space;
  set_up();
}

template <class T>
void Operator<T>::set_up() {
  space::Space<T>& space = this->space();
  const Options& options = this->options();
  if (options.kernels == Kernels::simd) {
    simd_ = std::make_unique<SimdOperator<T>>(space, options.geometry, options.lambda);
    this->options_.geometry = simd_->geometry();
    return;
  }
  const bool stored = options.geometry == Geometry::stored;
  if (!stored) lambda_in_gather_ = static_cast<T>(options.lambda);
  const std::vector<double> degrees = stored ? space.inverse_degrees() : std::vector<double>{};
  this->comm().together([&] {
    this->local_ = std::make_unique<LocalOperator<T>>(space.mesh(), options, space.numbering().index, degrees,
                                                      space.numbering().split.order);
    space.gather();
  });
}

template <class T>
std::int64_t Operator<T>::product_partials() {
  if (simd_ || this->screened()) return 0;
  space::Space<T>& space = this->space();
  const auto partials = [&](Part part) { return space::Gather<T>::partials(space.rows(part)); };
  if (space.exchange().trivial()) return partials(space::all_parts);
  return partials(space::second_half) + partials(space::halo_part);
}

template <class T>
std::int64_t Operator<T>::summand_partials() {
  if (simd_ || this->screened() || this->comm().size() > 1) return 0;
  // At orders 1 and 2, where the metric is recomputed, products take longer than what they save (on an H100).
  if (this->options().order < 3 && this->options().geometry != Geometry::stored) return 0;
  return this->local_->product_partials();
}

template <class T>
solver::Summands<T> Operator<T>::summands(T* x, double* products, device::Stream& stream) {
  const trace::Span span("operator", trace::Category::cpu);
  space::Gather<T>& gather = this->space().gather();
  T* const values = gather.values(1, stream);
  this->local_->apply(x, values, products, stream);
  return {gather.offsets(), gather.columns(), values};
}

template <class T>
void Operator<T>::apply(T* x, T* y, int fields, device::Stream& stream) {
  if (fields < 1) throw std::invalid_argument("poisson: " + std::to_string(fields) + " fields; at least 1");
  run(x, y, fields, nullptr, nullptr, stream);
  for (std::int64_t f = 0; f < fields; ++f)
    this->add_screening(x + f * this->entries(), y + f * this->entries(), stream);
}

template <class T>
void Operator<T>::run(T* x, T* y, int fields, double* product, const std::function<void()>& fill,
                      device::Stream& stream) {
  const trace::Span span("operator", trace::Category::cpu);
  if (simd_) {
    simd_->apply(x, y, fields, stream);
    return;
  }
  space::Space<T>& space = this->space();
  space::Gather<T>& gather = space.gather();
  T* values = space.values_to_gather(fields, stream);
  const auto part = [&](Part p) {
    const Range elements = space.elements(p), rows = space.rows(p);
    this->local_->apply(x, values, elements.begin, elements.end, stream, fields, space.entries());
    // The owner adds lambda x exactly once: not in the halo's part, whose products come after those of the owned
    // entries.
    const bool owned = p.last == 2;
    const T lambda = owned ? lambda_in_gather_ : T(0);
    if (product == nullptr)
      gather(rows, y, fields, stream, x, lambda);
    else
      gather.with_product(rows, y, stream, x, lambda, owned ? product : product + gather.partials({0, rows.begin}));
  };
  if (fill)
    overlap_filling(space, space::Vectors<T>{y}, fill, part, stream);
  else
    overlap(space, space::Vectors<T>{x, fields}, space::Vectors<T>{y, fields}, [] {}, part, [] {}, stream);
}

template <class T>
void Operator<T>::apply_local(T* x, T* y, device::Stream& stream) {
  if (!simd_) {
    this->local_->apply(x, this->space().gather().values(1, stream), 0, this->space().elements(), stream);
    return;
  }
  simd_->begin(x, y);
  simd_->work(x, y, space::all_parts);
}

template <class T>
std::array<std::int64_t, 4> Operator<T>::elements_by_shape() const {
  return simd_ ? simd_->elements_by_shape() : AnyOperator<T>::elements_by_shape();
}

template <class T>
std::map<std::string, std::int64_t> Operator<T>::memory_bytes() const {
  auto bytes = AnyOperator<T>::memory_bytes();
  if (simd_) bytes.merge(simd_->memory_bytes());
  return bytes;
}

template class Operator<float>;
template class Operator<double>;

}  // namespace weft::poisson
