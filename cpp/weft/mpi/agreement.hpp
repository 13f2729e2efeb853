// Work that fails on all ranks or on none: one reduction tells every rank about errors on the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "weft/mpi/comm.hpp"

namespace weft::mpi {

// Run every piece of work; replace words() on all ranks by their minimum, blocking or not; call errors().
class Agreement {
 public:
  // `least`: values set by the work, to be replaced by their minimum over all ranks.
  Agreement(const Comm& comm, std::size_t works, std::span<std::int64_t> least)
      : comm_(comm), texts_(works), least_(least), words_(2 * works + least.size()) {}

  void run(std::size_t i, const std::function<void()>& work);
  std::span<std::int64_t> words();
  // For each piece of work the text of the lowest rank where it failed (and that rank's number, unless it failed on
  // all); empty if it succeeded everywhere. (collective)
  std::vector<std::string> errors();
  // CollectiveError with the first of them. (collective)
  void require_success();

 private:
  const Comm& comm_;
  std::vector<std::string> texts_;  // empty: no error on this rank
  std::span<std::int64_t> least_;
  std::vector<std::int64_t> words_;  // for each piece of work the lowest rank that failed, and 1 if all did; `least`
};

// Comm::together. `least`: values set by the work, replaced by their minimum over all ranks. (collective)
void together(const Comm& comm, const std::function<void()>& work, std::span<std::int64_t> least);
// The same for several pieces of work, by one reduction. Returns the text of each one's error, empty if it succeeded on
// all ranks. (collective)
std::vector<std::string> attempt(const Comm& comm, std::span<const std::function<void()>> works,
                                 std::span<std::int64_t> least);

}  // namespace weft::mpi
