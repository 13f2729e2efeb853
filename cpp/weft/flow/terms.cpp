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

}  // namespace

std::string name(Term term) {
  switch (term) {
    case Term::convect:
      return "convect";
    case Term::convect_skew:
      return "convect_skew";
    case Term::gradient:
      return "gradient";
    case Term::weak_divergence:
      return "weak_divergence";
    case Term::divergence:
      return "divergence";
    case Term::curl:
      return "curl";
  }
  throw std::logic_error("flow: a term without a name");
}

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
    gather_ = device->kernel({"gather", "gather_points", {{"WEFT_REAL", device::type_name<T>()}}});
  });
}

template <class T>
Terms<T>::~Terms() = default;

template <class T>
exchange::Exchange<T>& Terms<T>::exchange(int fields) {
  if (fields == 1) return numbering_.exchange();
  const auto found = exchanges_.find(fields);
  if (found != exchanges_.end()) return found->second;
  const poisson::Options& options = numbering_.options();
  return exchanges_
      .try_emplace(fields, numbering_.assembly().pattern, options.device, numbering_.comm(), options.exchange, fields,
                   exchange::Layout::fields_major)
      .first->second;
}

template <class T>
void Terms<T>::gather(T* out, int fields, std::int64_t begin, std::int64_t end, device::Stream& stream) {
  const auto blocks = static_cast<unsigned>((end - begin + gather_chunk - 1) / gather_chunk);
  const long first = begin, last = end;
  const std::int32_t *offsets = offsets_.data(), *columns = columns_.data();
  for (int f = 0; f < fields; ++f) {
    const T *points = points_.data() + f * numbering_.points(), *none = nullptr;
    gather_(stream, blocks, gather_shape, first, last, offsets, columns, points, T(0), none,
            out + f * numbering_.entries());
  }
}

// As poisson::Operator::apply: half of the inner elements hide the halo, the other half the sums of shared entries.
template <class T>
template <class Local>
void Terms<T>::run(const char* what, std::span<const Vectors> in, Vectors out, Local&& local, device::Stream& stream) {
  const trace::Span span(what, trace::Category::cpu);
  const std::size_t values = static_cast<std::size_t>(out.fields * numbering_.points());
  if (values > points_.size()) points_ = device::Array<T>(numbering_.options().device, values);
  const poisson::BlockSplit& split = numbering_.split();
  const std::int64_t elements = numbering_.elements(), entries = numbering_.entries(),
                     lanes = numbering_.simd() != nullptr ? poisson::SimdOperator<T>::lanes : 1,
                     half = std::min(split.half * lanes, elements),
                     halo_end = std::min(split.halo_end * lanes, elements);
  if (numbering_.exchange().trivial()) {
    local(0, elements);
    gather(out.data, out.fields, 0, entries, stream);
    return;
  }
  const std::int64_t owned = numbering_.assembly().owned;
  start_halos(in, stream);
  local(0, half);
  finish_halos(in, stream);
  local(half, halo_end);
  gather(out.data, out.fields, owned, entries, stream);
  exchange(out.fields).start_gather(out.data, stream);
  local(halo_end, elements);
  gather(out.data, out.fields, 0, owned, stream);
  exchange(out.fields).finish_gather(out.data, exchange::Op::add, stream);
}

// Vectors of as many fields share an exchange: only the last one's halo is hidden.
template <class T>
void Terms<T>::start_halos(std::span<const Vectors> in, device::Stream& stream) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (i > 0 && in[i].fields == in[i - 1].fields) exchange(in[i].fields).finish_halo(in[i - 1].data, stream);
    exchange(in[i].fields).start_halo(in[i].data, stream);
  }
}
template <class T>
void Terms<T>::finish_halos(std::span<const Vectors> in, device::Stream& stream) {
  for (std::size_t i = 0; i < in.size(); ++i)
    if (i + 1 == in.size() || in[i].fields != in[i + 1].fields)
      exchange(in[i].fields).finish_halo(in[i].data, stream);
}

template <class T>
void Terms<T>::convect(T* u, T* fields, int count, T* out, device::Stream& stream) {
  const std::array<Vectors, 2> in{Vectors{u, 3}, {fields, count}};
  run("convect", std::span(in).first(fields == u ? 1 : 2), {out, count},
      [&](std::int64_t begin, std::int64_t end) {
        portable_->convect(u, fields, count, points_.data(), begin, end, stream);
      },
      stream);
}

template <class T>
void Terms<T>::convect_skew(T* u, T* fields, int count, T* out, device::Stream& stream) {
  const std::array<Vectors, 2> in{Vectors{u, 3}, {fields, count}};
  run("convect, skew-symmetric", std::span(in).first(fields == u ? 1 : 2), {out, count},
      [&](std::int64_t begin, std::int64_t end) {
        portable_->convect_skew(u, fields, count, points_.data(), begin, end, stream);
      },
      stream);
}

template <class T>
void Terms<T>::gradient(T* p, T* out, device::Stream& stream) {
  const std::array<Vectors, 1> in{Vectors{p, 1}};
  run("gradient", in, {out, 3},
      [&](std::int64_t begin, std::int64_t end) { portable_->gradient(p, points_.data(), begin, end, stream); },
      stream);
}

template <class T>
void Terms<T>::weak_divergence(T* f, T* out, device::Stream& stream) {
  const std::array<Vectors, 1> in{Vectors{f, 3}};
  run("weak divergence", in, {out, 1},
      [&](std::int64_t begin, std::int64_t end) { portable_->weak_divergence(f, points_.data(), begin, end, stream); },
      stream);
}

template <class T>
void Terms<T>::divergence(T* u, T* out, device::Stream& stream) {
  const std::array<Vectors, 1> in{Vectors{u, 3}};
  run("divergence", in, {out, 1},
      [&](std::int64_t begin, std::int64_t end) { portable_->divergence(u, points_.data(), begin, end, stream); },
      stream);
}

template <class T>
void Terms<T>::curl(T* u, T* out, device::Stream& stream) {
  const std::array<Vectors, 1> in{Vectors{u, 3}};
  run("curl", in, {out, 3},
      [&](std::int64_t begin, std::int64_t end) { portable_->curl(u, points_.data(), begin, end, stream); }, stream);
}

template <class T>
std::map<std::string, std::int64_t> Terms<T>::memory_bytes() const {
  std::map<std::string, std::int64_t> bytes = portable_->memory_bytes();
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
