// Fills a device array with values computed on the host, without holding all of them in host memory at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "weft/device/device.hpp"

namespace weft::device {

// fill(begin, end, values) writes items [begin, end), of `each` values each, to `values`. An array on the host is
// filled in one call. Otherwise the values are computed and copied piece by piece, using at most `piece_bytes` of host
// memory (or one item, if that is larger).
template <class T, class Fill>
void fill(Array<T>& array, Device& device, std::int64_t each, Fill&& fill,
          std::int64_t piece_bytes = std::int64_t{64} << 20) {
  if (array.empty()) return;
  const auto items = static_cast<std::int64_t>(array.size()) / each;
  if (device.is_host()) return fill(0, items, array.data());
  const std::int64_t most = std::max<std::int64_t>(1, piece_bytes / (each * static_cast<std::int64_t>(sizeof(T))));
  std::vector<T> piece(static_cast<std::size_t>(std::min(most, items) * each));
  for (std::int64_t begin = 0; begin < items; begin += most) {
    const std::int64_t end = std::min(items, begin + most);
    fill(begin, end, piece.data());
    device.copy_now(array.data() + begin * each, piece.data(),
                    static_cast<std::size_t>((end - begin) * each) * sizeof(T), CopyKind::host_to_device);
  }
}

}  // namespace weft::device
