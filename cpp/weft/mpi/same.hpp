// What all ranks must ask for alike.
#pragma once

#include <string>

#include "weft/mpi/comm.hpp"

namespace weft::mpi {

// CollectiveError on all ranks, naming `what` and what one rank has, unless all give the same text. (collective)
void require_same(const Comm& comm, const std::string& what, const std::string& text);

}  // namespace weft::mpi
