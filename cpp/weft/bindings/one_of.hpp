// The enumerator that a user's word names.
#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>

namespace weft::bindings {

// std::invalid_argument, telling `where` and what is allowed, for a text that is the name() of none of the values.
template <class E>
E one_of(const char* where, const char* key, const std::string& text, std::initializer_list<E> values) {
  std::string allowed;
  for (const E value : values) {
    if (name(value) == text) return value;
    allowed += (allowed.empty() ? "" : ", ") + name(value);
  }
  throw std::invalid_argument(std::string(where) + ": " + key + " = \"" + text + "\" is not one of: " + allowed);
}

}  // namespace weft::bindings
