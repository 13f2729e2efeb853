// How the values of several fields are laid out in an array.
#pragma once

#include <cstdint>
#include <string>

#include "weft/exchange/groups.hpp"

namespace weft::exchange {

// points_major: [entry][field], the values of one entry are contiguous. fields_major: [field][entry], one field after
// the other. In messages the values of one entry are always contiguous.
enum class Layout { points_major, fields_major };
Layout parse_layout(const std::string& text);  // "points" or "fields", else std::invalid_argument

template <class T>
View<T> view(Layout layout, T* data, int fields, std::int64_t entries) {
  if (layout == Layout::points_major) return next_to_each_other(data, fields);
  return {data, 1, static_cast<long>(entries)};
}

}  // namespace weft::exchange
