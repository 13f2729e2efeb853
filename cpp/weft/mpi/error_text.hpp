// The text of an MPI error.
#pragma once

#include <string>

namespace weft::mpi {

// In one line, and for a full disk or a limit of file sizes what to do about it. MPICH reports a stack of calls, one
// per line, with the cause last: only the cause is returned. It has no classes of its own for these two.
std::string error_text(int code);

}  // namespace weft::mpi
