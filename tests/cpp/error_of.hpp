// What a test expects of an error.
#pragma once

#include <exception>
#include <string>

namespace weft {

// The message of the exception that `work` throws; "" if it throws none.
template <class Error = std::exception, class F>
std::string error_of(const F& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace weft
