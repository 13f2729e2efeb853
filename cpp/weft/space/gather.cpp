#include "weft/space/gather.hpp"

#include <omp.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "weft/trace/recorder.hpp"

namespace weft::space {
namespace {

constexpr device::Shape shape{256};
constexpr std::int64_t chunk = 1024;  // must match kernels/gather.hpp

std::int64_t blocks(Range rows) { return (rows.end - rows.begin + chunk - 1) / chunk; }

}  // namespace

template <class T>
Gather<T>::Gather(std::span<const std::int32_t> index, std::int64_t entries,
                  const std::shared_ptr<device::Device>& device, std::int32_t points_at_once)
    : device_(device), points_(std::ssize(index)), entries_(entries) {
  const trace::Span span("gather lists", trace::Category::cpu);
  make_lists(index, points_at_once);
  values_ = device::Array<T>(device, index.size());
  one_ = device->template kernel<T>("gather", "gather_points");
  several_ = device->template kernel<T>("gather", "gather_fields");
  product_ = device->template kernel<T>("gather", "gather_product");
}

// The points of each entry, in ascending order. Each thread scans all points for those of its own entries.
template <class T>
void Gather<T>::make_lists(std::span<const std::int32_t> index, std::int32_t points_at_once) {
  const auto each_point = [&](Range rows, const auto& use) {
#pragma omp parallel
    {
      const std::int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num(), count = rows.end - rows.begin;
      const auto begin = static_cast<std::int32_t>(rows.begin + count * thread / threads),
                 end = static_cast<std::int32_t>(rows.begin + count * (thread + 1) / threads);
      for (std::size_t p = 0; p < index.size(); ++p)
        if (index[p] >= begin && index[p] < end) use(static_cast<std::int32_t>(p), index[p]);
    }
  };
  const std::int64_t zero = entries_ - 1;  // the entry of points that are left out
  std::vector<std::int32_t> offsets(entries_ + 1);
  each_point({0, zero}, [&](std::int32_t, std::int32_t entry) { ++offsets[entry + 1]; });
  // offsets[e + 1] is the position of the next point of e: first where its points begin, in the end where they end.
  std::int32_t sum = 0;
  for (std::int32_t& offset : offsets) sum += std::exchange(offset, sum);
  columns_ = device::Array<std::int32_t>(device_, sum);
  const auto list = [&](Range rows, std::int32_t* columns) {
    const std::int32_t first = offsets[rows.begin + 1];
    each_point(rows, [&](std::int32_t point, std::int32_t entry) { columns[offsets[entry + 1]++ - first] = point; });
  };
  if (device_->is_host()) {
    list({0, zero}, columns_.data());
  } else {
    std::vector<std::int32_t> piece;
    for (Range rows{0, 0}; rows.begin < zero; rows.begin = rows.end) {
      const std::int32_t first = offsets[rows.begin + 1];
      const auto beyond = std::upper_bound(offsets.begin() + rows.begin + 2, offsets.end(),
                                           first + std::min(points_at_once, sum - first));
      rows.end = std::max(rows.begin + 1, beyond - offsets.begin() - 2);
      piece.resize(offsets[rows.end + 1] - first);
      list(rows, piece.data());
      device_->copy_now(columns_.data() + first, piece.data(), piece.size() * sizeof(std::int32_t),
                        device::CopyKind::host_to_device);
    }
  }
  offsets_ = device::Array<std::int32_t>(device_, offsets);
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
