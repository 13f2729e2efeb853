#include "weft/exchange/pattern.hpp"

#include <limits>
#include <stdexcept>
#include <string>
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

  mpi::Parcels parcels;
  comm.together([&] { parcels = directory::questions(ids, comm.size()); });
  parcels = mpi::sparse_exchange(comm, parcels);
  std::int64_t most_holders = 0;
  comm.together([&] {
    directory::Answers answers = directory::answers(parcels);
    parcels = std::move(answers.parcels);
    most_holders = answers.most_holders;
  });
  std::vector<mpi::Parcels> answered;
  answered.push_back(mpi::sparse_exchange(comm, parcels));
  for (int rounds = directory::relay_rounds(comm.max(most_holders)); rounds > 0; --rounds) {
    comm.together([&] { parcels = directory::relayed(answered.back(), comm.rank()); });
    answered.push_back(mpi::sparse_exchange(comm, parcels));
  }
  parcels = {};
  Sharing sharing;
  comm.together([&] { sharing = directory::sharing(ids, answered); });
  return sharing;
}

std::vector<std::uint8_t> shared_with_others(std::span<const std::int64_t> ids, const mpi::Comm& comm) {
  PointsById by_id;
  comm.together([&] { by_id = points_by_id(ids); });
  const Sharing sharing = find_sharing(by_id.ids, comm);
  std::vector<std::uint8_t> shared(ids.size(), 0);
  for (const std::int32_t g : sharing.positions) {
    for (std::int64_t p = by_id.begin[static_cast<std::size_t>(g)]; p < by_id.begin[static_cast<std::size_t>(g) + 1];
         ++p) {
      shared[static_cast<std::size_t>(by_id.points[static_cast<std::size_t>(p)])] = 1;
    }
  }
  return shared;
}

}  // namespace weft::exchange
