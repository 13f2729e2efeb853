// The text of an MPI error.
#pragma once

#include <string>

namespace weft::mpi {

// In one line. MPICH reports a stack of calls, one per line, with the cause last: only the cause is returned.
std::string error_text(int code);

}  // namespace weft::mpi
