// The numbering of points from the vertices, edges and faces of a mesh must equal that from the ids of all points, on
// any number of ranks and threads.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>
#include <vector>

#include "all_ids.hpp"
#include "shuffled_mesh.hpp"
#include "weft/exchange/id_numbers.hpp"
#include "weft/mesh/points.hpp"
#include "weft/space/numbering.hpp"

using namespace weft;
using mesh::BoundarySet;
using space::Numbering;

namespace {

// mesh::point_ids, 0 for points that are on a chosen face of any element of any rank.
Ids ids_without(const mesh::Mesh& mesh, int order, const BoundarySet& without) {
  Ids ids = mesh::point_ids(mesh, order), left_out;
  const std::vector<std::uint8_t> marks = mesh::points_on_boundary(mesh, order, without);
  for (std::size_t p = 0; p < ids.size(); ++p)
    if (marks[p] != 0) left_out.push_back(ids[p]);
  Ids all;
  for (const Ids& of_rank : of_all_ranks(left_out, mesh.comm)) all.insert(all.end(), of_rank.begin(), of_rank.end());
  std::ranges::sort(all);
  for (std::int64_t& id : ids)
    if (std::ranges::binary_search(all, id)) id = 0;
  return ids;
}

void expect_same(const Numbering& a, const Numbering& b) {
  EXPECT_EQ(a.index, b.index);
  EXPECT_EQ(a.split.order, b.split.order);
  EXPECT_EQ(a.split.half, b.split.half);
  EXPECT_EQ(a.split.halo_end, b.split.halo_end);
  EXPECT_EQ(a.halo_elements, b.halo_elements);
  const exchange::Assembly &left = a.assembly, &right = b.assembly;
  EXPECT_EQ(left.index, right.index);
  EXPECT_EQ(std::vector({left.shared, left.apart, left.owned, left.local, left.global}),
            std::vector({right.shared, right.apart, right.owned, right.local, right.global}));
  EXPECT_EQ(left.pattern.owned_index, right.pattern.owned_index);
  ASSERT_EQ(left.pattern.neighbors.size(), right.pattern.neighbors.size());
  for (std::size_t n = 0; n < left.pattern.neighbors.size(); ++n) {
    const auto &one = left.pattern.neighbors[n], &other = right.pattern.neighbors[n];
    EXPECT_EQ(std::vector<std::int64_t>({one.rank, one.owned, one.halo}),
              std::vector<std::int64_t>({other.rank, other.owned, other.halo}));
  }
}

void check(const mesh::Mesh& mesh, const BoundarySet& without) {
  for (const int order : {1, 2, 3, 5}) {
    const Ids ids = ids_without(mesh, order, without);
    for (const int lanes : {1, 8}) {
      SCOPED_TRACE(mesh.source + ", order " + std::to_string(order) + ", " + std::to_string(lanes) + " lanes");
      const Numbering from_ids(mesh, order, ids, lanes);
      expect_same(Numbering(mesh, order, without, lanes), from_ids);
      omp_set_num_threads(3);  // blocks of several lanes are divided among these threads
      expect_same(Numbering(mesh, order, without, lanes), lanes == 1 ? from_ids : Numbering(mesh, order, ids, lanes));
      omp_set_num_threads(1);
    }
  }
}

}  // namespace

TEST(Numbering, OfABoxIsThatOfItsPointIds) {
  const mpi::Comm comm;
  check(mesh::make_box({.counts = {5, 4, 3}}, comm), {});
  check(mesh::make_box({.counts = {5, 4, 3}}, comm), BoundarySet({"y-", "z+"}));
  check(mesh::make_box({.counts = {5, 4, 3}}, comm), BoundarySet::all());
}

TEST(Numbering, OfAPeriodicBoxIsThatOfItsPointIds) {
  const mpi::Comm comm;
  for (const mesh::BoxOptions& options : {mesh::BoxOptions{.counts = {4, 3, 2}, .periodic = {true, false, true}},
                                          mesh::BoxOptions{.counts = {2, 2, 2}, .periodic = {true, true, true}},
                                          mesh::BoxOptions{.counts = {1, 1, 4}, .periodic = {true, true, true}}}) {
    const mesh::Mesh mesh = mesh::make_box(options, comm);
    check(mesh, {});
    check(mesh, BoundarySet::all());
  }
}

TEST(Numbering, OfElementsTurnedAgainstEachOtherIsThatOfTheirPointIds) {
  check(test::shuffled_mesh(false), {});
  check(test::shuffled_mesh(true), BoundarySet::all());
}

namespace {

// The fraction of the time in which threads work in the last part, the only one of a single rank.
double busy(const Numbering& numbering) {
  std::int64_t work = 0, time = 0;
  for (const auto& colour : numbering.chunks[2]) {
    std::vector<std::int64_t> of_thread(numbering.threads, 0);
    for (std::size_t c = 0; c < colour.size(); ++c) of_thread[c % of_thread.size()] += colour[c].end - colour[c].begin;
    for (const std::int64_t blocks : of_thread) work += blocks;
    time += *std::ranges::max_element(of_thread);
  }
  return static_cast<double>(work) / static_cast<double>(time * numbering.threads);
}

// Whether no two chunks of a colour touch the same entry.
bool apart(const Numbering& numbering) {
  const std::int64_t block = numbering.lanes * numbering.points_per_element(), nothing = numbering.assembly.local;
  for (const auto& part : numbering.chunks) {
    for (const auto& colour : part) {
      std::vector<std::size_t> toucher(nothing, colour.size());
      for (std::size_t c = 0; c < colour.size(); ++c) {
        const std::int64_t end = std::min(colour[c].end * block, std::ssize(numbering.index));
        for (std::int64_t p = colour[c].begin * block; p < end; ++p) {
          if (numbering.index[p] == nothing) continue;
          std::size_t& by = toucher[numbering.index[p]];
          if (by != colour.size() && by != c) return false;
          by = c;
        }
      }
    }
  }
  return true;
}

}  // namespace

// Counts of elements that no grid of bricks divides evenly, with neighbours beyond periodic sides, too.
TEST(Numbering, ThreadsAreBusyAndApart) {
  const mpi::Comm comm;
  struct Case {
    std::array<std::int64_t, 3> counts;
    bool periodic;
    int threads, lanes;
    double least;
    std::size_t colours;
  };
  for (const Case& each : {Case{{7, 7, 8}, true, 2, 8, 0.97, 3}, Case{{7, 7, 8}, true, 2, 16, 0.95, 2},
                           Case{{18, 18, 18}, false, 2, 8, 0.99, 2}, Case{{18, 18, 18}, true, 4, 8, 0.98, 2},
                           Case{{18, 18, 18}, true, 3, 8, 0.98, 2}, Case{{16, 16, 16}, false, 8, 8, 0.98, 2}}) {
    const bool p = each.periodic;
    const mesh::Mesh mesh = mesh::make_box({.counts = each.counts, .periodic = {p, p, p}}, comm);
    SCOPED_TRACE(mesh.source + ", " + std::to_string(each.threads) + " threads");
    omp_set_num_threads(each.threads);
    const Numbering numbering(mesh, 2, BoundarySet{}, each.lanes);
    omp_set_num_threads(1);
    EXPECT_TRUE(apart(numbering));
    if (comm.size() > 1) continue;  // ranks have fewer elements, in more parts
    EXPECT_GE(busy(numbering), each.least);
    EXPECT_LE(numbering.chunks[2].size(), each.colours);
  }
}

TEST(Numbering, SharesTheArraysOfTheMesh) {
  const mpi::Comm comm;
  const mesh::Mesh mesh = mesh::make_box({.counts = {4, 3, 2}}, comm);
  const Numbering numbering(mesh, 2, BoundarySet{}, 1);
  EXPECT_EQ(numbering.mesh.nodes.data(), mesh.nodes.data());
  EXPECT_EQ(numbering.mesh.topology.edges.data(), mesh.topology.edges.data());
  if (comm.size() == 1) {
    EXPECT_EQ(numbering.executed_mesh().nodes.data(), mesh.nodes.data());
  }
}

TEST(SharedVector, ACopyThatIsChangedLeavesTheOtherAlone) {
  const mesh::SharedVector<int> one(std::vector<int>{1, 2, 3});
  mesh::SharedVector<int> other = one;
  EXPECT_EQ(other.data(), one.data());
  other.change()[1] = 7;
  EXPECT_EQ(one.get(), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(other.get(), (std::vector<int>{1, 7, 3}));
}

TEST(IdNumbers, AreThePlacesAmongTheDistinctIds) {
  std::mt19937_64 random(1);
  for (const std::int64_t end : {std::int64_t{1}, std::int64_t{64}, std::int64_t{5000}, std::int64_t{40'000'000}}) {
    for (const int threads : {1, 3}) {
      omp_set_num_threads(threads);
      Ids ids;
      for (int i = 0; i < 3000; ++i)
        ids.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end)));
      ids.push_back(end - 1);
      const exchange::IdNumbers numbers(ids, end);
      Ids distinct = ids;
      std::ranges::sort(distinct);
      const auto rest = std::ranges::unique(distinct);
      distinct.erase(rest.begin(), rest.end());
      ASSERT_EQ(numbers.size(), std::ssize(distinct));
      for (std::size_t i = 0; i < distinct.size(); ++i) ASSERT_EQ(numbers[distinct[i]], static_cast<std::int32_t>(i));
      omp_set_num_threads(1);
    }
  }
  EXPECT_EQ(exchange::IdNumbers({}, 0).size(), 0);
}

// Vectors of the host must not cross cache lines where the numbering can avoid it.
TEST(Numbering, WhatABlockTouchesFirstBeginsAtAMultipleOfTheLanes) {
  const mpi::Comm comm;
  for (const auto& [counts, without] : {std::pair{std::array<std::int64_t, 3>{6, 6, 6}, BoundarySet{}},
                                        {{8, 4, 4}, BoundarySet({"x-"})},
                                        {{7, 5, 3}, BoundarySet{}},
                                        {{4, 4, 1}, BoundarySet{}},
                                        {{6, 5, 4}, BoundarySet::all()}}) {
    for (const int order : {1, 2, 3, 4}) {
      for (const int lanes : {2, 8}) {
        SCOPED_TRACE("order " + std::to_string(order) + ", " + std::to_string(lanes) + " lanes");
        const Numbering numbering(mesh::make_box({.counts = counts}, comm), order, without, lanes);
        const exchange::Assembly& a = numbering.assembly;
        const std::int64_t each = numbering.points_per_element() * lanes, blocks = numbering.split.blocks;
        std::vector<std::int64_t> first(a.owned, -1), last(a.owned, -1);  // points
        for (std::int64_t p = 0; p < blocks * each; ++p) {
          const std::int32_t dof = a.index[p];
          if (dof >= a.owned) continue;
          if (first[dof] < 0) first[dof] = p;
          last[dof] = p;
        }
        EXPECT_LE(a.shared, a.apart);
        EXPECT_LT(a.apart - a.shared, (blocks + 1) * lanes);

        std::int64_t at = a.apart;
        for (std::size_t r = 0; r < a.runs.size(); ++r) {
          const auto& run = a.runs[r];
          EXPECT_EQ(run.begin, at);
          EXPECT_LT(run.begin, run.end);
          at = run.end;
          for (std::int64_t dof = run.begin; dof < run.end; ++dof) {
            EXPECT_EQ(first[dof] / each, run.first_block);
            EXPECT_EQ(last[dof] / each, run.last_block);
          }
        }
        EXPECT_EQ(at, a.owned);

        // Only a few blocks of tiny meshes, and those after the last one with many vectors that are no whole, may begin
        // elsewhere.
        std::int64_t elsewhere = 0;
        for (std::size_t r = 0; r < a.runs.size(); ++r)
          if (r == 0 || a.runs[r].first_block != a.runs[r - 1].first_block)
            elsewhere += a.runs[r].begin % lanes == 0 ? 0 : 1;
        EXPECT_LE(elsewhere, std::min<std::int64_t>(blocks, 8));

        const bool aligned = elsewhere == 0;
        for (std::int64_t p = 0; p < blocks * each; p += lanes) {
          bool whole = true;
          for (std::int64_t lane = p; lane < p + lanes && whole; ++lane) {
            const std::int32_t dof = a.index[lane];
            whole =
                dof >= a.shared && dof < a.owned && first[dof] == lane && last[dof] / each == last[a.index[p]] / each;
          }
          if (!whole) continue;
          for (int lane = 0; lane < lanes; ++lane) EXPECT_EQ(a.index[p + lane], a.index[p] + lane);
          if (aligned) {
            EXPECT_EQ(a.index[p] % lanes, 0);
          }
        }
      }
    }
  }
}
