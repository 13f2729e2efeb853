#include "weft/exchange/pattern.hpp"

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "weft/exchange/directory.hpp"
#include "weft/exchange/radix_sort.hpp"
#include "weft/mpi/sparse.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::exchange {

PointsById points_by_id(std::span<const std::int64_t> ids) {
  const trace::Span span("sort points", trace::Category::cpu);
  constexpr std::size_t most = std::numeric_limits<std::int32_t>::max() - 1;
  if (ids.size() > most) {
    throw std::length_error("a rank has " + std::to_string(ids.size()) + " points; one rank can index " +
                            std::to_string(most) + ": use more ranks");
  }
  PointsById result;
  result.points.reserve(ids.size());
  result.ids.reserve(ids.size());
  result.begin.reserve(ids.size() + 1);
  in_order_of_id(ids, [&](std::int64_t id, std::size_t position) {
    if (result.ids.empty() || result.ids.back() != id) {
      result.ids.push_back(id);
      result.begin.push_back(static_cast<std::int64_t>(result.points.size()));
    }
    result.points.push_back(static_cast<std::int32_t>(position));
  });
  result.begin.push_back(static_cast<std::int64_t>(result.points.size()));
  result.ids.shrink_to_fit();
  result.begin.shrink_to_fit();
  result.points.shrink_to_fit();
  return result;
}

Sharing find_sharing(std::span<const std::int64_t> ids, const mpi::Comm& comm) {
  const trace::Span span("find sharing", trace::Category::cpu);
  if (comm.size() == 1) return {.positions = {}, .begin = {0}, .holders = {}};

  mpi::Parcels parcels = mpi::sparse_exchange(comm, [&] { return directory::questions(ids, comm.size()); });
  std::int64_t most_holders = 0;  // negative, so that the reduction finds the largest
  std::vector<mpi::Parcels> answered;
  answered.push_back(mpi::sparse_exchange(comm,
                                          [&] {
                                            directory::Answers answers = directory::answers(parcels);
                                            most_holders = -answers.most_holders;
                                            return std::move(answers.parcels);
                                          },
                                          {&most_holders, 1}));
  for (int rounds = directory::relay_rounds(-most_holders); rounds > 0; --rounds) {
    answered.push_back(mpi::sparse_exchange(comm, [&] { return directory::relayed(answered.back(), comm.rank()); }));
  }
  parcels = {};
  Sharing sharing;
  comm.together([&] { sharing = directory::sharing(ids, answered); });
  return sharing;
}

NumberedPoints numbered_points(std::int64_t points, const PointsById& by_id, Sharing sharing) {
  NumberedPoints result;
  result.numbers.assign(static_cast<std::size_t>(points), -1);
  result.count = std::ssize(by_id.ids);
  for (std::size_t g = 0; g < by_id.ids.size(); ++g) {
    for (const std::int32_t p : points_of(by_id, g))
      result.numbers[static_cast<std::size_t>(p)] = static_cast<std::int32_t>(g);
  }
  result.sharing = std::move(sharing);
  for (const std::int32_t g : result.sharing.positions)
    result.shared_ids.push_back(by_id.ids[static_cast<std::size_t>(g)]);
  return result;
}

}  // namespace weft::exchange
