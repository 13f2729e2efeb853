// The space under every operator: numbering, Z and its transpose, and overlap of communication with work on elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "fiber_device.hpp"
#include "noise.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mesh/points.hpp"
#include "weft/space/overlap.hpp"

using namespace weft;
using space::Kernels;
using space::Space;

namespace {

mesh::Mesh box(const mpi::Comm& comm, const std::string& deformation = "smooth") {
  return mesh::make_box({.counts = {4, 3, 3}, .periodic = {true, false, false}, .deformation = deformation}, comm);
}

space::Options options_for(int order, Kernels kernels, const std::string& device = "host", bool dirichlet = false) {
  space::Options options;
  options.order = order;
  options.kernels = kernels;
  if (dirichlet) options.dirichlet = mesh::BoundarySet({"y-", "z+"});
  options.exchange = {exchange::Schedule::pairwise, exchange::Path::direct};
  options.device = device::open(device);
  return options;
}

// Looks random and depends only on the numbers.
double summed(const mpi::Comm& comm, double value) {
  comm.sum(&value, 1);
  return value;
}

TEST(Space, NumbersEveryPointOfTheMeshOnceWhateverTheKernels) {
  const mesh::Mesh mesh = box(mpi::Comm());
  for (const Kernels kernels : {Kernels::portable, Kernels::simd}) {
    for (const int order : {1, 2, 5}) {
      SCOPED_TRACE(space::name(kernels) + ", order " + std::to_string(order));
      const Space<double> all(mesh, options_for(order, kernels));
      const Space<float> masked(mesh, options_for(order, kernels, "host", true));
      EXPECT_EQ(all.dofs(), 4 * order * (3 * order + 1) * (3 * order + 1));
      EXPECT_EQ(masked.dofs(), 4 * order * 3 * order * 3 * order);
      const std::vector<std::int64_t> ids = mesh::point_ids(mesh, order), own = all.unknown_ids();
      EXPECT_EQ(std::set<std::int64_t>(own.begin(), own.end()).size(), own.size());
      const std::vector<std::int32_t> index = all.point_index();
      for (std::size_t p = 0; p < ids.size(); ++p) ASSERT_TRUE(index[p] >= all.unknowns() || own[index[p]] == ids[p]);
      EXPECT_EQ(std::ranges::count(all.masked(), 1), 0);
    }
  }
}

TEST(Space, ReorderingToExecutionAndBackIsTheIdentity) {
  const Space<double> space(box(mpi::Comm()), options_for(2, Kernels::simd));
  std::vector<std::int32_t> values(3 * space.points());
  std::iota(values.begin(), values.end(), 0);
  const auto there = space.numbering().to_execution<std::int32_t>(values);
  EXPECT_EQ(space.numbering().from_execution<std::int32_t>(there), values);
}

// (Z^T v, x) = (v, Z x) over all ranks, with Z x from at_points().
TEST(Gather, IsTheAdjointOfTheScatter) {
  for (const char* device : {"host", "fiber"}) {
    for (const bool dirichlet : {false, true}) {
      for (const Kernels kernels : {Kernels::portable, Kernels::simd}) {
        if (kernels == Kernels::simd && std::string(device) != "host") continue;
        SCOPED_TRACE(std::string(device) + ", " + space::name(kernels) + (dirichlet ? ", masked" : ""));
        Space<double> space(box(mpi::Comm()), options_for(3, kernels, device, dirichlet));
        const std::int64_t points = space.points(), entries = space.entries();
        const int fields = 2;
        std::vector<double> v, x;
        const std::vector<std::int64_t> ids = space.unknown_ids();
        for (std::int64_t i = 0; i < fields * points; ++i) v.push_back(noise(i + 7919 * space.comm().rank(), 1));
        for (const std::int64_t id : ids) x.push_back(noise(id, 2));

        device::Stream stream(space.device());
        space::Gather<double>& gather = space.gather();
        double* values = gather.values(fields, stream);
        space.device()->copy(values, v.data(), v.size() * sizeof(double), device::CopyKind::host_to_device, stream);
        device::Array<double> y(space.device(), std::vector<double>(fields * entries, std::nan("")));
        gather({0, entries}, y.data(), fields, stream);
        for (int f = 0; f < fields; ++f) space.add_halo(y.data() + f * entries, stream);
        stream.synchronize();
        const std::vector<double> sums = y.download();

        const std::vector<double> at = space.numbering().to_execution<double>(space.at_points(x));
        for (int f = 0; f < fields; ++f) {
          EXPECT_EQ(sums[(f + 1) * entries - 1], 0) << "the slot that stays 0";
          const double left = std::inner_product(x.begin(), x.end(), &sums[f * entries], 0.0);
          const double right = std::inner_product(at.begin(), at.end(), &v[f * points], 0.0);
          EXPECT_NEAR(summed(space.comm(), left), summed(space.comm(), right), 1e-11);
        }
        // One field with its own kernel, and with lambda x and the product.
        device::Array<double> one(space.device(), std::vector<double>(entries, std::nan(""))),
            in(space.device(), entries);
        in.zero();
        space.device()->copy(in.data(), x.data(), x.size() * sizeof(double), device::CopyKind::host_to_device, stream);
        gather({0, entries}, one.data(), 1, stream, in.data(), 0.5);
        device::Array<double> partials(space.device(), gather.partials({0, entries})), same(space.device(), entries);
        gather.with_product({0, entries}, same.data(), stream, in.data(), 0.5, partials.data());
        stream.synchronize();
        EXPECT_EQ(one.download(), same.download());
        const std::vector<double> shifted = one.download(), product = partials.download();
        const double expected = std::inner_product(x.begin(), x.end(), shifted.begin(), 0.0);
        EXPECT_NEAR(std::accumulate(product.begin(), product.end(), 0.0), expected, 1e-11);
      }
    }
  }
}

TEST(Gather, ListsMadePieceByPieceAreThoseMadeAtOnce) {
  constexpr int entries = 40, points = 300;
  std::vector<std::int32_t> index;
  std::vector<double> values, expected(entries);
  for (int p = 0; p < points; ++p) {
    index.push_back(p % 5 == 0 ? 3 : p * 7 % entries);  // an entry with many points, and the zero slot
    values.push_back(noise(p, 5));
    if (index.back() < entries - 1) expected[index.back()] += values.back();
  }
  const auto fibers = device::open("fiber");
  device::Stream stream(fibers);
  for (const std::int32_t points_at_once : {1, 7, 59, 64, 1000}) {
    space::Gather<double> gather(index, entries, fibers, points_at_once);
    fibers->copy(gather.values(1, stream), values.data(), points * sizeof(double), device::CopyKind::host_to_device,
                 stream);
    device::Array<double> y(fibers, entries);
    gather({0, entries}, y.data(), 1, stream);
    stream.synchronize();
    EXPECT_EQ(y.download(), expected) << points_at_once << " points at once";
  }
}

// What overlap() calls, and what must have been done by then.
TEST(Overlap, CallsItsPartsInOrderWithWhatTheyNeedInPlace) {
  for (const Kernels kernels : {Kernels::portable, Kernels::simd}) {
    SCOPED_TRACE(space::name(kernels));
    Space<double> space(box(mpi::Comm()), options_for(3, kernels));
    device::Stream stream(space.device());
    const std::int64_t entries = space.entries(), unknowns = space.unknowns();
    const std::vector<std::int64_t> ids = space.unknown_ids();
    std::vector<double> x(3 * entries, -1), u(entries, -1), y(entries, 0);
    const auto halo_is = [&](const std::vector<double>& vector, int fields, bool filled) {
      for (int f = 0; f < fields; ++f)
        for (std::int64_t i = unknowns; i + 1 < entries; ++i)
          if ((vector[f * entries + i] != -1) != filled) return false;
      return true;
    };
    std::vector<std::string> calls;
    space::Range worked{0, 0};
    const std::vector<space::Vectors<double>> in{{x.data(), 3}, {u.data()}};
    overlap(
        space, std::span<const space::Vectors<double>>(in), space::Vectors<double>{y.data()},
        [&] {
          calls.emplace_back("before");
          for (std::size_t i = 0; i < ids.size(); ++i)
            for (int f = 0; f < 3; ++f) x[f * entries + i] = u[i] = noise(ids[i], 4);
        },
        [&](space::Part part) {
          calls.push_back(std::to_string(part.first) + std::to_string(part.last));
          const space::Range elements = space.elements(part), rows = space.rows(part);
          EXPECT_EQ(elements.begin, worked.end) << "every element once, in order";
          worked.end = elements.end;
          if (part.first == 1) {
            EXPECT_TRUE(halo_is(x, 3, true) && halo_is(u, 1, true));
          }
          for (std::int64_t i = rows.begin; i < rows.end; ++i) y[i] = 1;
        },
        [&] { calls.emplace_back("after"); }, stream);
    const bool alone = space.exchange().trivial();
    EXPECT_EQ(alone, space.comm().size() == 1);
    EXPECT_EQ(calls, alone ? (std::vector<std::string>{"before", "02", "after"})
                           : (std::vector<std::string>{"before", "00", "11", "22", "after"}));
    EXPECT_EQ(worked.end, space.elements());
    // Each rank that has the point has added 1 to its owner's entry.
    double sum = std::accumulate(y.begin(), y.begin() + unknowns, 0.0);
    EXPECT_EQ(summed(space.comm(), sum), summed(space.comm(), static_cast<double>(entries - 1)));
  }
}

TEST(Space, RefusesSimdKernelsOnAGpuAndOrdersItHasNot) {
  EXPECT_THROW(Space<double>(box(mpi::Comm()), options_for(2, Kernels::simd, "fiber")), std::invalid_argument);
  EXPECT_THROW(Space<double>(box(mpi::Comm()), options_for(16, Kernels::portable)), std::invalid_argument);
}

}  // namespace
