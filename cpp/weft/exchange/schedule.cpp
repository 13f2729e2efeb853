#include "weft/exchange/schedule.hpp"

#include <stdexcept>
#include <utility>

#include "weft/exchange/pairwise.hpp"

namespace weft::exchange {
namespace {

struct Entry {
  Schedule schedule;
  const char* name;
  std::unique_ptr<Transfer> (*make)(const mpi::Comm&, int, std::vector<Part>, const std::byte*, std::byte*);
};
constexpr Entry entries[] = {
    {Schedule::pairwise, "pairwise", make_pairwise},
};

}  // namespace

std::string name(Schedule schedule) {
  for (const Entry& entry : entries) {
    if (entry.schedule == schedule) return entry.name;
  }
  throw std::invalid_argument("a schedule without an entry in schedule.cpp");
}

std::vector<Schedule> schedules() {
  std::vector<Schedule> all;
  for (const Entry& entry : entries) all.push_back(entry.schedule);
  return all;
}

std::unique_ptr<Transfer> make_transfer(Schedule schedule, const mpi::Comm& comm, int tag, std::vector<Part> parts,
                                        const std::byte* send, std::byte* receive) {
  for (const Entry& entry : entries) {
    if (entry.schedule == schedule) return entry.make(comm, tag, std::move(parts), send, receive);
  }
  throw std::invalid_argument("a schedule without an entry in schedule.cpp");
}

}  // namespace weft::exchange
