#include "weft/space/gather.hpp"

#include <vector>

#include "weft/trace/recorder.hpp"

namespace weft::space {
namespace {

constexpr device::Shape shape{256};
constexpr std::int64_t chunk = 1024;  // as in kernels/gather.hpp

std::int64_t blocks(Range rows) { return (rows.end - rows.begin + chunk - 1) / chunk; }

}  // namespace

template <class T>
Gather<T>::Gather(std::span<const std::int32_t> index, std::int64_t entries,
                  const std::shared_ptr<device::Device>& device)
    : device_(device), points_(static_cast<std::int64_t>(index.size())), entries_(entries) {
  const trace::Span span("gather lists", trace::Category::cpu);
  const std::int64_t zero = entries - 1;
  std::vector<std::int32_t> offsets(entries + 1);
  for (const std::int32_t entry : index)
    if (entry < zero) ++offsets[entry + 1];
  for (std::int64_t g = 0; g < entries; ++g) offsets[g + 1] += offsets[g];
  std::vector<std::int32_t> columns(offsets.back()), next(offsets.begin(), offsets.end() - 1);
  for (std::size_t p = 0; p < index.size(); ++p)
    if (index[p] < zero) columns[next[index[p]]++] = static_cast<std::int32_t>(p);
  offsets_ = device::Array<std::int32_t>(device, offsets);
  columns_ = device::Array<std::int32_t>(device, columns);
  values_ = device::Array<T>(device, index.size());
  one_ = device->template kernel<T>("gather", "gather_points");
  several_ = device->template kernel<T>("gather", "gather_fields");
  product_ = device->template kernel<T>("gather", "gather_product");
}

template <class T>
T* Gather<T>::values(int fields, device::Stream& stream) {
  if (fields > fields_) {
    stream.synchronize();
    values_ = device::Array<T>(device_, static_cast<std::size_t>(fields * points_));
    fields_ = fields;
  }
  return values_.data();
}

template <class T>
void Gather<T>::operator()(Range rows, T* y, int fields, device::Stream& stream, const T* x, T lambda) const {
  if (rows.begin == rows.end) return;
  const T* const added = lambda == T(0) ? nullptr : x;
  if (fields == 1)
    one_(stream, blocks(rows), shape, rows.begin, rows.end, offsets_.data(), columns_.data(), values_.data(), lambda,
         added, y);
  else
    several_(stream, blocks(rows), shape, rows.begin, rows.end, fields, points_, entries_, offsets_.data(),
             columns_.data(), values_.data(), lambda, added, y);
}

template <class T>
void Gather<T>::with_product(Range rows, T* y, device::Stream& stream, const T* x, T lambda, double* product) const {
  if (rows.begin == rows.end) return;
  product_(stream, blocks(rows), shape, rows.begin, rows.end, offsets_.data(), columns_.data(), values_.data(), lambda,
           x, y, product);
}

template <class T>
std::int64_t Gather<T>::partials(Range rows) {
  return blocks(rows);
}

template <class T>
std::map<std::string, std::int64_t> Gather<T>::memory_bytes() const {
  return {{"gather offsets", static_cast<std::int64_t>(offsets_.bytes())},
          {"gather columns", static_cast<std::int64_t>(columns_.bytes())},
          {"y_L", static_cast<std::int64_t>(values_.bytes())}};
}

template class Gather<float>;
template class Gather<double>;

}  // namespace weft::space
