// The text of an MPI error.
#pragma once

#include <string>

namespace weft::mpi {

// The error in one line; for a full disk or a file size limit also what to do about it. MPICH reports a stack of calls,
// one per line, with the cause last: only the cause is returned. MPICH has no error classes of its own for these two
// cases.
std::string error_text(int code);

}  // namespace weft::mpi
