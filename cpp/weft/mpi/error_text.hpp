// What MPI says of an error.
#pragma once

#include <string>

namespace weft::mpi {

// In one line. MPICH tells a stack of calls with their arguments, a line each, the cause last: then the cause alone.
std::string error_text(int code);

}  // namespace weft::mpi
