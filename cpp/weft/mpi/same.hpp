// Checks arguments that must be the same on all ranks.
#pragma once

#include <string>

#include "weft/mpi/comm.hpp"

namespace weft::mpi {

// CollectiveError on all ranks, with `what` and the text of one rank, unless all ranks pass the same text. (collective)
void require_same(const Comm& comm, const std::string& what, const std::string& text);

}  // namespace weft::mpi
