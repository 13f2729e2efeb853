#include "weft/mpi/error_text.hpp"

#include <mpi.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

namespace weft::mpi {
namespace {

struct Known {
  int error, kind;  // errno, and the MPI class for it; MPI_SUCCESS: no class
  const char* advice;
};
const Known known[] = {
    {ENOSPC, MPI_ERR_NO_SPACE, "free some space, or choose another folder"},
    {EDQUOT, MPI_ERR_QUOTA, "free some space, or choose another folder"},
    {EFBIG, MPI_SUCCESS, "raise the limit of file sizes (ulimit -f), or choose another folder"},
};

}  // namespace

std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> buffer{};
  int length = 0;
  MPI_Error_string(code, buffer.data(), &length);
  std::string text(buffer.data(), static_cast<std::size_t>(length));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (const std::size_t line = text.rfind('\n'); line != text.npos) {
    text.erase(0, line + 1);
    // "ADIOI_GEN_WRITECONTIG(80)...: Other I/O error No space left on device"
    if (const std::size_t call = text.find(": "); call != text.npos && call + 2 < text.size()) text.erase(0, call + 2);
    if (const std::string_view any = "Other I/O error "; text.starts_with(any)) text.erase(0, any.size());
  }
  int kind = 0;
  MPI_Error_class(code, &kind);
  for (const Known& one : known)
    if (const std::string said = std::generic_category().message(one.error);
        kind == one.kind || text.find(said) != text.npos)
      return said + "; " + one.advice;
  return text;
}

}  // namespace weft::mpi
