#include "weft/flow/terms.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>

#include "weft/trace/recorder.hpp"

namespace weft::flow {
namespace {

const char* span_name(Term term) {
  static constexpr std::array<const char*, 6> names{"convect",         "convect_skew", "gradient",
                                                    "weak_divergence", "divergence",   "curl"};
  return names.at(static_cast<std::size_t>(term));
}

}  // namespace

std::string name(Term term) { return span_name(term); }

template <class T>
Terms<T>::Terms(space::Space<T>& space, std::optional<space::Kernels> kernels)
    : space_(space), kernels_(kernels.value_or(space.options().kernels)) {
  if (kernels_ == space::Kernels::simd && space.blocks() == nullptr)
    throw std::invalid_argument("flow: kernels = \"simd\" needs a space with kernels = \"simd\"");
  space.comm().together([&] {
    if (kernels_ == space::Kernels::simd) {
      simd_ = std::make_unique<SimdTerms<T>>(space);
      return;
    }
    const space::Numbering& numbering = space.numbering();
    portable_ = std::make_unique<PortableTerms<T>>(numbering.executed_mesh(), space.order(), numbering.index,
                                                   space.entries(), space.device());
    device::Stream stream(space.device());
    space.gather().values(3, stream);
  });
}

template <class T>
Terms<T>::~Terms() = default;

template <class T>
void Terms<T>::run(Term term, T* u, Vectors f, Vectors out, device::Stream& stream) {
  const trace::Span span(span_name(term), trace::Category::cpu);
  const std::array<Vectors, 2> vectors{f, {u, 3}};
  const std::span in = std::span(vectors).first(u == nullptr || u == f.data ? 1 : 2);
  if (simd_) {
    const auto part = [&](space::Part p) { simd_->work(term, u, f.data, f.fields, out.data, out.fields, p); };
    overlap(space_, in, out, [&] { simd_->begin(out.data, out.fields); }, part, [] {}, stream);
    return;
  }
  space::Gather<T>& gather = space_.gather();
  T* values = space_.values_to_gather(out.fields, stream);
  const auto part = [&](space::Part p) {
    portable_->work(term, u, f.data, f.fields, values, space_.elements(p), stream);
    gather(space_.rows(p), out.data, out.fields, stream);
  };
  overlap(space_, in, out, [] {}, part, [] {}, stream);
}

template <class T>
void Terms<T>::convect(T* u, T* fields, int count, T* out, device::Stream& stream) {
  run(Term::convect, u, {fields, count}, {out, count}, stream);
}
template <class T>
void Terms<T>::convect_skew(T* u, T* fields, int count, T* out, device::Stream& stream) {
  run(Term::convect_skew, u, {fields, count}, {out, count}, stream);
}
template <class T>
void Terms<T>::gradient(T* p, T* out, device::Stream& stream) {
  run(Term::gradient, nullptr, {p, 1}, {out, 3}, stream);
}
template <class T>
void Terms<T>::weak_divergence(T* f, T* out, device::Stream& stream) {
  run(Term::weak_divergence, nullptr, {f, 3}, {out, 1}, stream);
}
template <class T>
void Terms<T>::divergence(T* u, T* out, device::Stream& stream) {
  run(Term::divergence, nullptr, {u, 3}, {out, 1}, stream);
}
template <class T>
void Terms<T>::curl(T* u, T* out, device::Stream& stream) {
  run(Term::curl, nullptr, {u, 3}, {out, 3}, stream);
}

template <class T>
Work Terms<T>::work(Term term, int count, bool same) const {
  const auto elements = static_cast<double>(space_.elements());
  WorkOptions options{space_.order(), sizeof(T), simd_ != nullptr, 0, 0, 0, static_cast<double>(space_.unknowns())};
  const auto of = [&](Shape shape) {
    return std::min(elements, static_cast<double>(simd_->blocks(shape) * space_.numbering().lanes));
  };
  if (simd_) {
    options.affine = of(Shape::affine);
    options.curved = of(Shape::curved);
  } else if (!space_.mesh().straight()) {
    options.curved = elements;
  }
  options.trilinear = elements - options.affine - options.curved;
  return flow::work(term, count, same, options);
}

template <class T>
std::map<std::string, std::int64_t> Terms<T>::memory_bytes() const {
  return simd_ ? simd_->memory_bytes() : portable_->memory_bytes();
}

template class Terms<float>;
template class Terms<double>;

}  // namespace weft::flow
