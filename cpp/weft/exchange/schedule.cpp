#include "weft/exchange/schedule.hpp"

#include <stdexcept>
#include <utility>

#include "weft/exchange/alltoallv.hpp"
#include "weft/exchange/crystal.hpp"
#include "weft/exchange/neighbor.hpp"
#include "weft/exchange/pairwise.hpp"

namespace weft::exchange {
namespace {

struct Entry {
  Schedule schedule;
  const char* name;
  bool collective;
  std::unique_ptr<Transfer> (*make)(Route);
};
constexpr Entry entries[] = {
    {Schedule::pairwise, "pairwise", false, make_pairwise},
    {Schedule::alltoallv, "alltoallv", true, make_alltoallv},
    {Schedule::neighbor, "neighbor", true, make_neighbor},
    {Schedule::crystal, "crystal", true, make_crystal},
};

const Entry& entry_of(Schedule schedule) {
  for (const Entry& entry : entries) {
    if (entry.schedule == schedule) return entry;
  }
  throw std::invalid_argument("a schedule without an entry in schedule.cpp");
}

}  // namespace

std::string name(Schedule schedule) { return entry_of(schedule).name; }
bool collective(Schedule schedule) { return entry_of(schedule).collective; }

std::vector<Schedule> schedules() {
  std::vector<Schedule> all;
  for (const Entry& entry : entries) all.push_back(entry.schedule);
  return all;
}

std::unique_ptr<Transfer> make_transfer(Schedule schedule, Route route) {
  return entry_of(schedule).make(std::move(route));
}

}  // namespace weft::exchange
