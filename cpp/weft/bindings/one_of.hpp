// The enumerator with a given name.
#pragma once

#include <stdexcept>
#include <string>

#include "weft/bindings/fields.hpp"

namespace weft::bindings {

// std::invalid_argument, with `key` and the allowed names, if the text is not the name() of any enumerator of E.
template <class E>
E one_of(const std::string& key, const std::string& text) {
  std::string allowed;
  for (const E value : enumerators<E>()) {
    if (name(value) == text) return value;
    allowed += (allowed.empty() ? "" : ", ") + name(value);
  }
  throw std::invalid_argument(key + " = '" + text + "' is not one of: " + allowed);
}

}  // namespace weft::bindings
