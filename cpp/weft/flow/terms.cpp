#include "weft/flow/terms.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <vector>

#include "weft/element/gauss.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::flow {
namespace {

constexpr device::Shape gather_shape{256};
constexpr std::int64_t gather_chunk = 1024;  // as in kernels/gather.hpp

const char* span_name(Term term) {
  static constexpr std::array<const char*, 6> names{"convect",         "convect_skew", "gradient",
                                                    "weak_divergence", "divergence",   "curl"};
  return names.at(static_cast<std::size_t>(term));
}

}  // namespace

std::string name(Term term) { return span_name(term); }

template <class T>
Terms<T>::Terms(poisson::Operator<T>& numbering, std::optional<poisson::Kernels> kernels)
    : numbering_(numbering), kernels_(kernels.value_or(numbering.options().kernels)) {
  if (numbering.options().storage != poisson::Storage::assembled)
    throw std::invalid_argument("flow: vectors are assembled, and this Poisson operator's storage is scattered");
  if (kernels_ == poisson::Kernels::simd && numbering.simd() == nullptr)
    throw std::invalid_argument("flow: kernels = \"simd\" needs a Poisson operator with kernels = \"simd\"");
  const std::vector<std::int32_t>& index = numbering.index();
  const std::int64_t zero = numbering.entries() - 1;
  std::int64_t masked = std::ranges::count(index, static_cast<std::int32_t>(zero));
  numbering.comm().sum(&masked, 1);
  if (masked > 0) throw std::invalid_argument("flow: the Poisson operator that numbers the points must mask none");

  const auto& device = numbering.options().device;
  numbering.comm().together([&] {
    if (kernels_ == poisson::Kernels::simd) {
      simd_ = std::make_unique<SimdTerms<T>>(*numbering.simd(), numbering.mesh(), device);
      return;
    }
    portable_ =
        std::make_unique<PortableTerms<T>>(numbering.mesh(), numbering.options().order, index, zero + 1, device);
    std::vector<std::int32_t> offsets(zero + 2);
    for (const std::int32_t entry : index) ++offsets[entry + 1];
    for (std::int64_t g = 0; g <= zero; ++g) offsets[g + 1] += offsets[g];
    std::vector<std::int32_t> columns(index.size()), next(offsets.begin(), offsets.end() - 1);
    for (std::size_t p = 0; p < index.size(); ++p) columns[next[index[p]]++] = static_cast<std::int32_t>(p);
    offsets_ = device::Array<std::int32_t>(device, offsets);
    columns_ = device::Array<std::int32_t>(device, columns);
    points_ = device::Array<T>(device, 3 * index.size());
    gather_ = device->template kernel<T>("gather", "gather_fields");
  });
}

template <class T>
Terms<T>::~Terms() = default;

template <class T>
void Terms<T>::gather(T* out, int fields, std::int64_t begin, std::int64_t end, device::Stream& stream) {
  const auto blocks = static_cast<unsigned>((end - begin + gather_chunk - 1) / gather_chunk);
  const long first = begin, last = end, points_field = numbering_.points(), entries = numbering_.entries();
  const std::int32_t *offsets = offsets_.data(), *columns = columns_.data();
  const T *points = points_.data(), *none = nullptr;
  gather_(stream, blocks, gather_shape, first, last, fields, points_field, entries, offsets, columns, points, T(0),
          none, out);
}

template <class T>
void Terms<T>::portable(Term term, const T* u, Vectors f, std::int64_t begin, std::int64_t end,
                        device::Stream& stream) {
  T* to = points_.data();
  switch (term) {
    case Term::convect:
      return portable_->convect(u, f.data, f.fields, to, begin, end, stream);
    case Term::convect_skew:
      return portable_->convect_skew(u, f.data, f.fields, to, begin, end, stream);
    case Term::gradient:
      return portable_->gradient(f.data, to, begin, end, stream);
    case Term::weak_divergence:
      return portable_->weak_divergence(f.data, to, begin, end, stream);
    case Term::divergence:
      return portable_->divergence(f.data, to, begin, end, stream);
    case Term::curl:
      return portable_->curl(f.data, to, begin, end, stream);
  }
}

// As poisson::Operator::apply: half of the inner elements hide the halo, the other half the sums of shared entries.
template <class T>
void Terms<T>::run(Term term, T* u, Vectors f, Vectors out, device::Stream& stream) {
  const trace::Span span(span_name(term), trace::Category::cpu);
  const std::array<Vectors, 2> vectors{f, {u, 3}};
  const std::span in = std::span(vectors).first(u == nullptr || u == f.data ? 1 : 2);
  if (simd_) {
    const auto part = [&](int p) {
      simd_->apply(static_cast<int>(term), u, f.data, f.fields, out.data, out.fields, p);
    };
    simd_->begin(out.data, out.fields);
    start_halos(in, stream);
    part(0);
    finish_halos(in, stream);
    part(1);
    numbering_.exchange(out.fields).start_gather(out.data, stream);
    part(2);
    numbering_.exchange(out.fields).finish_gather(out.data, exchange::Op::add, stream);
    return;
  }

  const std::size_t values = static_cast<std::size_t>(out.fields * numbering_.points());
  if (values > points_.size()) points_ = device::Array<T>(numbering_.options().device, values);
  const poisson::BlockSplit& split = numbering_.split();
  const std::int64_t elements = numbering_.elements(), entries = numbering_.entries(),
                     lanes = numbering_.simd() != nullptr ? poisson::SimdOperator<T>::lanes : 1,
                     half = std::min(split.half * lanes, elements),
                     halo_end = std::min(split.halo_end * lanes, elements);
  if (numbering_.exchange().trivial()) {
    portable(term, u, f, 0, elements, stream);
    gather(out.data, out.fields, 0, entries, stream);
    return;
  }
  const std::int64_t owned = numbering_.assembly().owned;
  start_halos(in, stream);
  portable(term, u, f, 0, half, stream);
  finish_halos(in, stream);
  portable(term, u, f, half, halo_end, stream);
  gather(out.data, out.fields, owned, entries, stream);
  numbering_.exchange(out.fields).start_gather(out.data, stream);
  portable(term, u, f, halo_end, elements, stream);
  gather(out.data, out.fields, 0, owned, stream);
  numbering_.exchange(out.fields).finish_gather(out.data, exchange::Op::add, stream);
}

// Vectors of as many fields share an exchange: only the last one's halo is hidden.
template <class T>
void Terms<T>::start_halos(std::span<const Vectors> in, device::Stream& stream) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (i > 0 && in[i].fields == in[i - 1].fields)
      numbering_.exchange(in[i].fields).finish_halo(in[i - 1].data, stream);
    numbering_.exchange(in[i].fields).start_halo(in[i].data, stream);
  }
}
template <class T>
void Terms<T>::finish_halos(std::span<const Vectors> in, device::Stream& stream) {
  for (std::size_t i = 0; i < in.size(); ++i)
    if (i + 1 == in.size() || in[i].fields != in[i + 1].fields)
      numbering_.exchange(in[i].fields).finish_halo(in[i].data, stream);
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
  const auto elements = static_cast<double>(numbering_.elements());
  WorkOptions options{
      numbering_.options().order, sizeof(T), simd_ != nullptr, 0, 0, 0, static_cast<double>(numbering_.unknowns())};
  if (!numbering_.mesh().straight())
    options.curved = elements;
  else if (simd_)
    options.affine = std::min(elements, static_cast<double>(simd_->blocks(Shape::affine) * simd::lanes<T>));
  options.trilinear = elements - options.affine - options.curved;
  return flow::work(term, count, same, options);
}

template <class T>
std::map<std::string, std::int64_t> Terms<T>::memory_bytes() const {
  std::map<std::string, std::int64_t> bytes = simd_ ? simd_->memory_bytes() : portable_->memory_bytes();
  const auto add = [&](const char* name, const auto& array) {
    if (!array.empty()) bytes[name] = static_cast<std::int64_t>(array.bytes());
  };
  add("gather offsets", offsets_);
  add("gather columns", columns_);
  add("values by points", points_);
  return bytes;
}

template class Terms<float>;
template class Terms<double>;

}  // namespace weft::flow
