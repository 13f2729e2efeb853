#include "weft/mpi/error_text.hpp"

#include <mpi.h>

#include <array>

namespace weft::mpi {

std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> buffer{};
  int length = 0;
  MPI_Error_string(code, buffer.data(), &length);
  std::string text(buffer.data(), static_cast<std::size_t>(length));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (const std::size_t line = text.rfind('\n'); line != text.npos) {
    text.erase(0, line + 1);
    // "ADIOI_GEN_WRITECONTIG(80)...: Other I/O error No space left on device"
    if (const std::size_t call = text.find(": "); call != text.npos && call + 2 < text.size()) text.erase(0, call + 2);
  }
  return text;
}

}  // namespace weft::mpi
