// Checks shared by tests on meshes: the numbering of points against their coordinates, and values by element, over all
// ranks.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "weft/mesh/points.hpp"

namespace weft::test {

template <class T>
std::vector<T> all_gather(const std::vector<T>& mine, const mpi::Comm& comm) {
  int bytes = static_cast<int>(mine.size() * sizeof(T));
  std::vector<int> counts(comm.size()), offsets(comm.size());
  MPI_Allgather(&bytes, 1, MPI_INT, counts.data(), 1, MPI_INT, comm.get());
  for (int r = 1; r < comm.size(); ++r) offsets[r] = offsets[r - 1] + counts[r - 1];
  std::vector<T> all((offsets.back() + counts.back()) / sizeof(T));
  MPI_Allgatherv(mine.data(), bytes, MPI_BYTE, all.data(), counts.data(), offsets.data(), MPI_BYTE, comm.get());
  return all;
}

// Checks values by the ids of their elements.
template <class T>
void expect_same_by_element(const std::map<std::int64_t, std::vector<T>>& found,
                            const std::map<std::int64_t, std::vector<T>>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [id, values] : expected) {
    const std::vector<T>& own = found.at(id);
    ASSERT_EQ(own.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(own[i], values[i], tolerance) << "element " << id << " value " << i;
  }
}

// Checks that ids are exactly 1..global_points, and that two points have the same id if and only if they have the same
// coordinates, where those of a periodic direction are taken modulo its period (0: not periodic).
inline void expect_ids_match_coordinates(const mesh::Mesh& mesh, int order, std::array<double, 3> period = {}) {
  const auto ids = all_gather(mesh::point_ids(mesh, order), mesh.comm);
  const auto x = all_gather(mesh::point_coordinates(mesh, order), mesh.comm);
  std::map<std::array<std::int64_t, 3>, std::int64_t> id_at;
  std::map<std::int64_t, std::array<std::int64_t, 3>> place_of;
  for (std::size_t p = 0; p < ids.size(); ++p) {
    std::array<std::int64_t, 3> place{};
    for (int d = 0; d < 3; ++d) {
      double v = x[3 * p + d];
      if (period[d] > 0) v -= period[d] * std::floor(v / period[d] + 1e-7);
      place[d] = std::llround(v * 1e6);
    }
    const auto [at, fresh] = id_at.emplace(place, ids[p]);
    ASSERT_EQ(at->second, ids[p]) << "two ids at " << x[3 * p] << " " << x[3 * p + 1] << " " << x[3 * p + 2];
    const auto [id, first] = place_of.emplace(ids[p], place);
    ASSERT_EQ(id->second, place) << "id " << ids[p] << " at two places";
  }
  ASSERT_EQ(std::ssize(place_of), mesh::global_points(mesh, order));
  EXPECT_EQ(place_of.begin()->first, 1);
  EXPECT_EQ(place_of.rbegin()->first, mesh::global_points(mesh, order));
}

}  // namespace weft::test
