// Checks arguments that must be the same on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "weft/mpi/comm.hpp"

namespace weft::mpi {

// CollectiveError on all ranks, with `what` and rank 0's text, unless all ranks pass the same text. (collective)
void require_same(const Comm& comm, const std::string& what, const std::string& text);
// The same and Comm::together(work, least) by one reduction. Errors of the work come first.
void require_same(const Comm& comm, const std::string& what, const std::string& text, const std::function<void()>& work,
                  std::span<std::int64_t> least = {});

}  // namespace weft::mpi
