#include "weft/exchange/layout.hpp"

#include <stdexcept>

namespace weft::exchange {

Layout parse_layout(const std::string& text) {
  if (text == "points") return Layout::points_major;
  if (text == "fields") return Layout::fields_major;
  throw std::invalid_argument("unknown layout '" + text + "'; known: points, fields");
}

}  // namespace weft::exchange
