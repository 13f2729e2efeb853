#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "folder.hpp"
#include "orders.hpp"
#include "shape_meshes.hpp"
#include "simd_checks.hpp"
#include "weft/device/disk_cache.hpp"
#include "weft/element/gll.hpp"
#include "weft/mesh/shape.hpp"
#include "weft/poisson/simd_operator.hpp"
#include "weft/poisson/simd_sweep.hpp"
#include "weft/space/simd_access.hpp"

using namespace weft;
using namespace weft::poisson;
using mesh::Shape;
using test::half_curved, test::with_moved_vertex;

namespace {

constexpr double lambda = 0.1;

template <class T>
std::vector<T> apply(const SimdOperator<T>& op, const SimdProblem<T>& problem, const std::vector<double>& x) {
  std::vector<T> in(problem.local + 1, 0), out(problem.local + 1, T(1e30));  // begin() must overwrite everything
  for (std::int64_t i = 0; i < problem.local; ++i) in[i] = static_cast<T>(x[problem.dof_ids[i]]);
  op.begin(in.data(), out.data());
  op.work(in.data(), out.data(), space::all_parts);
  return out;
}

// The largest difference from the reference over all ids, relative to the largest value.
template <class T>
double error(const SimdProblem<T>& problem, Geometry geometry) {
  const auto space = problem.make_space();
  const SimdOperator<T> op(*space, geometry, lambda);
  std::vector<double> x(problem.ids_end());
  for (std::size_t id = 1; id < x.size(); ++id) x[id] = value_of(static_cast<std::int64_t>(id));
  x[0] = 0;
  const std::vector<T> y = apply(op, problem, x);
  EXPECT_EQ(y.back(), T(0)) << "the entry of masked points";
  std::vector<double> sum(x.size(), 0), numbered(x.size(), 0);
  for (std::int64_t i = 0; i < problem.local; ++i) sum[problem.dof_ids[i]] += y[i];
  for (const std::int64_t id : problem.dof_ids) numbered[id] = 1;
  sum = summed(sum, problem.mesh.comm);
  numbered = summed(numbered, problem.mesh.comm);
  const std::vector<double> expected = problem.reference(x, lambda);
  double difference = 0, largest = 0;
  for (std::size_t id = 1; id < x.size(); ++id) {
    if (numbered[id] == 0) continue;  // masked
    if (std::isnan(sum[id])) return INFINITY;
    difference = std::max(difference, std::abs(sum[id] - expected[id]));
    largest = std::max(largest, std::abs(expected[id]));
  }
  return difference / largest;
}

mesh::Mesh box(std::array<std::int64_t, 3> counts, std::array<bool, 3> periodic, const char* deformation) {
  mesh::BoxOptions options;
  options.counts = counts;
  options.periodic = periodic;
  options.deformation = deformation;
  return mesh::make_box(options, mpi::Comm());
}

template <class T>
constexpr double tolerance = sizeof(T) == 8 ? 1e-13 : 3e-5;

template <class T>
void all_orders(const mesh::Mesh& mesh, bool dirichlet, Geometry geometry) {
  for (const int order : test::all_orders())
    EXPECT_LT(error(SimdProblem<T>(mesh, order, dirichlet), geometry), tolerance<T>) << "order " << order;
}

}  // namespace

TEST(SimdOperator, StoredDoubleEqualsThePlainLoopsAtAllOrders) {
  all_orders<double>(box({3, 3, 3}, {}, "smooth"), false, Geometry::stored);
}
TEST(SimdOperator, StoredFloatEqualsThePlainLoopsAtAllOrders) {
  all_orders<float>(box({3, 3, 3}, {}, "smooth"), true, Geometry::stored);
}
TEST(SimdOperator, TrilinearDoubleEqualsThePlainLoopsAtAllOrders) {
  all_orders<double>(box({3, 3, 3}, {}, "kershaw"), true, Geometry::trilinear);
}
TEST(SimdOperator, TrilinearFloatEqualsThePlainLoopsAtAllOrders) {
  all_orders<float>(box({3, 3, 3}, {}, "kershaw"), false, Geometry::trilinear);
}

// On meshes whose blocks have runs, conflicts (a narrow periodic box) and spare lanes.
template <class T>
void all_accesses(int order) {
  for (const mesh::Mesh& mesh : {box({5, 4, 3}, {}, "kershaw"), box({3, 1, 2}, {true, true, false}, "none")}) {
    const SimdProblem<T> problem(mesh, order, order % 2 == 0);
    std::vector<double> x(problem.ids_end());
    for (std::size_t id = 1; id < x.size(); ++id) x[id] = value_of(static_cast<std::int64_t>(id));
    std::vector<T> first;
    for (const space::Access access : space::access_candidates<T>()) {
      const auto space = problem.make_space();
      EXPECT_FALSE(space->blocks()->access_reason().empty());
      space->use(access);
      const std::vector<T> y = apply(SimdOperator<T>(*space, Geometry::trilinear, lambda), problem, x);
      if (first.empty()) first = y;
      EXPECT_EQ(y, first) << "order " << order << ", " << space::name(access);
    }
  }
}
TEST(SimdOperator, EveryAccessToSurfacePointsGivesTheSameBits) {
  for (const int order : {2, 9}) all_accesses<double>(order);  // with columns of an odd and an even number of points
  all_accesses<float>(2);
}

TEST(SimdOperator, AParallelepipedAsSuchAsTrilinearAndAsStoredIsOneOperator) {
  for (const int order : test::all_orders()) {
    // Displaced by less than shapes can distinguish, by more, and visibly.
    for (const double by : {0.0, 1e-13, 0.2}) {
      const SimdProblem<double> problem(with_moved_vertex(by), order, false);
      EXPECT_LT(error(problem, Geometry::trilinear), 1e-13) << "order " << order << ", moved by " << by;
      if (order == 4) {
        EXPECT_LT(error(problem, Geometry::stored), 1e-13) << "moved by " << by;
      }
    }
    EXPECT_LT(error(SimdProblem<float>(with_moved_vertex(0.2), order, true), Geometry::trilinear), 3e-5);
  }
}

// `count` elements of each of these shapes.
mesh::Mesh row_of(std::initializer_list<Shape> shapes, int count) {
  std::vector<Shape> all;
  for (const Shape shape : shapes) all.insert(all.end(), count, shape);
  return test::row_of(all);
}

// Angles of a tenth, edges of different lengths, and opposite edges of which one is five times as long as the other.
TEST(SimdOperator, ThinShearedAndTaperedElementsEqualThePlainLoops) {
  mesh::Mesh mesh = test::row_of(std::vector<Shape>(9, Shape::trilinear));
  for (std::int64_t e = 0; e < mesh.elements(); ++e)
    test::place_nodes(mesh, e, [](const std::array<double, 3>& at) {
      const auto [r, s, t] = at;
      return std::array{r + 3 * s + 0.5 * r * t, 0.3 * s * (1 - 0.8 * r) + 0.1 * t, 2 * t + 0.3 * s - 0.4 * r * s * t};
    });
  for (const int order : {2, 3, 7, 8}) {
    EXPECT_LT(error(SimdProblem<double>(mesh, order, false), Geometry::mixed), 1e-12) << "order " << order;
    EXPECT_LT(error(SimdProblem<float>(mesh, order, false), Geometry::mixed), 3e-4) << "order " << order;
  }
}

// Their edges are not along the axes, and differ in length.
TEST(SimdOperator, BoxesAndOtherParallelepipedsEqualThePlainLoopsAtAllOrders) {
  for (const Shape shape : {Shape::box, Shape::affine}) {
    const mesh::Mesh mesh = row_of({shape}, 9);
    all_orders<double>(mesh, false, Geometry::mixed);
    all_orders<float>(mesh, false, Geometry::mixed);
    const SimdProblem<double> problem(mesh, 3, false);
    const auto space = problem.make_space();
    const auto counts = SimdOperator<double>(*space, Geometry::automatic, lambda).elements_by_shape();
    EXPECT_EQ(counts[static_cast<int>(shape)], 9);
  }
}

TEST(SimdOperator, BlocksOfSeveralShapesAreTreatedAsTheMostGeneral) {
  for (const int count : {3, 8, 11}) {  // 3 and 11: shapes change within a block
    const mesh::Mesh mesh =
        row_of({Shape::box, Shape::affine, Shape::box, Shape::trilinear, Shape::affine, Shape::curved}, count);
    for (const int order : {1, 2, 5, 7}) {
      const SimdProblem<double> problem(mesh, order, order == 2);
      EXPECT_LT(error(problem, Geometry::mixed), 1e-13) << "order " << order << ", " << count << " of each shape";
      EXPECT_LT(error(SimdProblem<float>(mesh, order, false), Geometry::mixed), 3e-5);
      const auto space = problem.make_space();
      const auto counts = SimdOperator<double>(*space, Geometry::mixed, lambda).elements_by_shape();
      EXPECT_EQ(counts[0] + counts[1] + counts[2] + counts[3], problem.mesh.elements());
      if (count == 8) {
        EXPECT_EQ(counts, (std::array<std::int64_t, 4>{16, 16, 8, 8}));
      }
    }
  }
}

TEST(SimdOperator, AMovedVertexMakesOnlyTheElementsRoundItTrilinear) {
  const auto trilinear = [](double by) {
    const SimdProblem<double> problem(with_moved_vertex(by), 2, false);
    const auto space = problem.make_space();
    auto counts = SimdOperator<double>(*space, Geometry::trilinear, lambda).elements_by_shape();
    EXPECT_EQ(counts[3], 0);
    return summed({static_cast<double>(counts[2])}, problem.mesh.comm)[0];
  };
  EXPECT_EQ(trilinear(0), 0);
  EXPECT_GE(trilinear(0.2), 8);
  EXPECT_LE(trilinear(0.2), 8 + 7 * 3 * mpi::Comm().size());  // whole blocks
}

TEST(SimdOperator, MixedGeometryStoresCurvedElementsAlone) {
  for (const int order : {1, 2, 5, 7}) {
    for (const int threads : {1, 2}) {
      const SimdProblem<double> problem(half_curved(), order, threads == 2, threads);
      EXPECT_LT(error(problem, Geometry::mixed), 1e-13) << "order " << order;
      const auto space = problem.make_space();
      const SimdOperator<double> mixed(*space, Geometry::mixed, lambda), stored(*space, Geometry::stored, lambda);
      const auto counts = mixed.elements_by_shape();
      EXPECT_EQ(counts[0] + counts[1] + counts[2] + counts[3], problem.mesh.elements());
      const auto bytes = [](const SimdOperator<double>& op) {
        const auto all = op.memory_bytes();
        return all.contains("geometry") ? all.at("geometry") : 0;
      };
      if (counts[0] > 0) {
        EXPECT_LT(bytes(mixed), bytes(stored));
      }
    }
  }
}

// Its own cache folder during its lifetime.
class OwnCache {
 public:
  explicit OwnCache(const mpi::Comm& comm) : folder_(comm) {
    if (const char* value = std::getenv("WEFT_CACHE")) before_ = value;
    setenv("WEFT_CACHE", folder_.path.c_str(), 1);
  }
  ~OwnCache() {
    if (before_)
      setenv("WEFT_CACHE", before_->c_str(), 1);
    else
      unsetenv("WEFT_CACHE");
  }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;
  const std::string& path() const { return folder_.path; }

 private:
  Folder folder_;
  std::optional<std::string> before_;
};

// Replaces the only choice of the metric in a cache by `choice`.
void replace_kept_metric(const std::string& folder, const std::string& choice) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".geometry") files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);
  std::ifstream file(files[0], std::ios::binary);
  std::string magic;
  std::getline(file, magic);
  std::array<std::uint64_t, 3> sizes;  // of the key and of the value; then a checksum
  file.read(reinterpret_cast<char*>(sizes.data()), sizeof sizes);
  std::string key(sizes[0], ' ');
  file.read(key.data(), static_cast<std::streamsize>(key.size()));
  device::DiskCache("geometry", 1).write(key, choice + "\nby this test");
}

void expect_metric(const SimdOperator<double>& op, bool stored, const mpi::Comm& comm) {
  EXPECT_EQ(op.geometry() != Geometry::trilinear, stored);
  EXPECT_EQ(op.elements_by_shape()[stored ? 2 : 3], 0);
  EXPECT_EQ(op.memory_bytes().contains("geometry"), op.elements_by_shape()[3] > 0);
  const auto number = static_cast<double>(op.geometry());
  EXPECT_EQ(summed({number}, comm)[0], number * comm.size()) << "ranks differ";
}

TEST(SimdOperator, AutomaticGeometryTimesOnceAndThenTakesWhatIsKept) {
  const mpi::Comm comm;
  for (const int threads : {1, 2}) {
    const OwnCache cache(comm);
    const SimdProblem<double> problem(box({5, 4, 3}, {}, "kershaw"), 4, true, threads);
    const auto space = problem.make_space();
    const auto expect = [&](const std::string& reason) {
      const SimdOperator<double> op(*space, Geometry::automatic, lambda);
      const bool stored = op.geometry() != Geometry::trilinear;
      expect_metric(op, stored, comm);
      if (comm.rank() == 0) {
        EXPECT_NE(op.geometry_reason().find(reason), std::string::npos) << op.geometry_reason();
      }
      EXPECT_LT(error(problem, Geometry::automatic), 1e-13);
      return stored;
    };
    const bool timed = expect(", fastest of 2 ways");
    EXPECT_EQ(expect(", fastest of 2 ways"), timed);
    for (const bool stored : {false, true}) {
      if (comm.rank() == 0) replace_kept_metric(cache.path(), stored ? "stored" : "recomputed");
      comm.barrier();
      EXPECT_EQ(expect("by this test, kept from an earlier run"), stored);
    }
  }
}

TEST(SimdOperator, OfRunsThatTimeAtTheSameTimeTheFirstChoiceStays) {
  const mpi::Comm comm;
  const OwnCache folder(comm);
  if (comm.rank() == 0) {
    const device::DiskCache cache("geometry", 1);
    EXPECT_EQ(cache.keep("one", "stored"), "stored");
    EXPECT_EQ(cache.keep("one", "recomputed"), "stored");
    EXPECT_EQ(cache.read("one").value.value_or(""), "stored");
    EXPECT_EQ(cache.keep("other", "recomputed"), "recomputed");
  }
  comm.barrier();
}

TEST(SimdOperator, AutomaticGeometryIsNotTimedIfNothingKeepsTheChoice) {
  const mpi::Comm comm;
  const OwnCache cache(comm);
  setenv("WEFT_CACHE", "off", 1);
  const SimdProblem<double> problem(box({5, 4, 3}, {}, "kershaw"), 4, true);
  const auto space = problem.make_space();
  const SimdOperator<double> op(*space, Geometry::automatic, lambda);
  expect_metric(op, false, comm);
  EXPECT_EQ(op.geometry_reason(), "");
}

TEST(SimdOperator, AutomaticGeometryKeepsTheConstantMetricOfParallelepipeds) {
  const SimdProblem<double> plain(box({4, 4, 4}, {}, "none"), 3, false), half(half_curved(), 3, false);
  const auto plain_space = plain.make_space(), half_space = half.make_space();
  const SimdOperator<double> op(*plain_space, Geometry::automatic, lambda);
  EXPECT_EQ(op.geometry(), Geometry::trilinear);
  EXPECT_EQ(op.geometry_reason(), "") << "timed, although there is nothing to choose";
  EXPECT_EQ(op.elements_by_shape()[0], plain.mesh.elements());
  const SimdOperator<double> of_half(*half_space, Geometry::automatic, lambda);
  EXPECT_NE(of_half.geometry(), Geometry::trilinear);
  EXPECT_EQ(of_half.geometry_reason(), "");
  EXPECT_LT(error(half, Geometry::automatic), 1e-13);
}

TEST(SimdOperator, CurvedElementsAloneNeedNoTrilinearMaps) {
  const SimdProblem<double> problem(box({4, 4, 4}, {}, "smooth"), 4, false);
  const auto space = problem.make_space();
  const SimdOperator<double> op(*space, Geometry::mixed, lambda);
  EXPECT_EQ(op.elements_by_shape()[3], problem.mesh.elements());
  EXPECT_FALSE(space->memory_bytes().contains("trilinear maps"));
}

TEST(SimdOperator, PeriodicImagesAreOnePoint) {
  for (const int order : {1, 2, 3, 6}) {
    const SimdProblem<double> problem(box({4, 2, 1}, {true, true, true}, "none"), order, false);
    EXPECT_LT(error(problem, Geometry::trilinear), 1e-13) << "order " << order;
  }
}

TEST(SimdOperator, FullAndRaggedBlocksMix) {
  for (const int count : {4, 7, 8, 9, 17, 40}) {
    const SimdProblem<double> problem(box({count, 1, 1}, {}, "none"), 4, false);
    EXPECT_LT(error(problem, Geometry::stored), 1e-13) << count << " elements";
  }
}

TEST(SimdOperator, ThreadsAddEveryContributionOnce) {
  for (const bool dirichlet : {false, true})
    for (const int threads : {2, 3}) {
      const SimdProblem<double> problem(box({6, 6, 5}, {true, false, false}, "none"), 3, dirichlet, threads);
      EXPECT_LT(error(problem, Geometry::trilinear), 1e-13) << threads << " threads";
      const SimdProblem<float> single(box({6, 6, 5}, {}, "none"), 2, dirichlet, threads);
      EXPECT_LT(error(single, Geometry::stored), tolerance<float>) << threads << " threads";
    }
}

// They all have this entry in common.
TEST(SimdOperator, ThreadsNeverWriteTheEntryOfMaskedPoints) {
  for (const auto& [order, geometry] : {std::pair{1, Geometry::trilinear}, {4, Geometry::stored}}) {
    const SimdProblem<double> problem(box({6, 5, 5}, {}, "kershaw"), order, true, 2);
    const auto space = problem.make_space();
    for (const space::Access access : space::access_candidates<double>()) {
      space->use(access);
      const SimdOperator<double> op(*space, geometry, lambda);
      constexpr double kept = 7;
      std::vector<double> x(problem.local + 1, 1), y(x.size(), 0);
      x.back() = 0;
      y.back() = kept;
      OperatorSweep<double> sweep(x.data(), y.data(), lambda);
      for (const auto& part : op.plan().chunks)
        for (const auto& colour : part)
          for (const space::Range& chunk : colour)
            simd_passes<double>(order).apply(op.elements(), op.plan(), sweep, chunk, op.scratch(0));
      EXPECT_EQ(y.back(), kept) << "order " << order << ", " << space::name(access);
    }
  }
}

TEST(SimdOperator, LanesThatShareAPointAreBothAdded) {
  const mpi::Comm self = mpi::Comm::self();
  mesh::BoxOptions options;
  options.counts = {5, 2, 2};
  const mesh::Mesh mesh = mesh::make_box(options, self);
  std::vector<std::int64_t> ids = ids_of(mesh, 3, false);
  for (std::size_t p = 0; p < 64; ++p) ids[64 + p] = ids[p];  // element 1 lies on element 0, point for point
  const SimdProblem<double> problem(mesh, 3, ids);
  EXPECT_LT(error(problem, Geometry::stored), 1e-13);
}

TEST(SimdOperator, RerunsAreBitEqual) {
  for (const int threads : {1, 2}) {
    const SimdProblem<double> problem(box({4, 4, 3}, {}, "kershaw"), 5, false, threads);
    const auto space = problem.make_space();
    const SimdOperator<double> op(*space, Geometry::trilinear, lambda);
    std::vector<double> x(problem.ids_end());
    for (std::size_t id = 1; id < x.size(); ++id) x[id] = value_of(static_cast<std::int64_t>(id));
    const std::vector<double> once = apply(op, problem, x);
    for (int again = 0; again < 5; ++again) EXPECT_EQ(once, apply(op, problem, x)) << threads << " threads";
  }
}

TEST(SimdOperator, TheSplitTakesEveryElementOnceAndKeepsHaloElementsTogether) {
  for (const int elements : {0, 1, 7, 8, 16, 61}) {
    for (const int halo_every : {1, 2, 3, 100}) {
      std::vector<std::uint8_t> halo(elements);
      std::vector<mesh::Shape> shapes(elements);
      for (int e = 0; e < elements; ++e) {
        halo[e] = e % halo_every == halo_every - 1;
        shapes[e] = static_cast<mesh::Shape>(e % 4);
      }
      const space::BlockSplit split = space::split_blocks(halo, shapes, 8);
      EXPECT_EQ(split.blocks, (elements + 7) / 8);
      EXPECT_EQ(std::set<std::int64_t>(split.order.begin(), split.order.end()).size(), halo.size());
      EXPECT_EQ(split.order.size(), halo.size());
      EXPECT_LE(split.half, split.halo_end);
      EXPECT_LE(split.halo_end, split.blocks);
      for (std::size_t i = 0; i < split.order.size(); ++i) {
        const auto block = static_cast<std::int64_t>(i) / 8;
        EXPECT_TRUE(!halo[split.order[i]] || (block >= split.half && block < split.halo_end));
      }
    }
  }
}

// Lanes that are no neighbours read and write most surface points as one vector.
TEST(SimdOperator, BlocksTakeTheSamePlacesOfEqualBricks) {
  const auto runs = [](const mesh::Mesh& mesh) {
    const SimdProblem<double> problem(mesh, 3, false);
    const auto space = problem.make_space();
    const space::BlockIndex index = space->blocks()->index({true, true});
    const std::int64_t points = problem.numbering.split.blocks * space::surface_points<4>;
    return std::accumulate(index.runs, index.runs + points, 0.0) / static_cast<double>(points);
  };
  const auto of_box = [&](std::array<std::int64_t, 3> counts) {
    return runs(test::box_of(counts, "none", mpi::Comm::self()));
  };
  // In tiles, which is how make_box orders elements. With neighbours as lanes it would be at most 0.57.
  // A box of 8 x 8 x 8 has but one group of 8 tiles, all of which meet.
  EXPECT_GT(of_box({8, 8, 8}), simd::lanes<double> < 8 ? 0.7 : 0.6);
  EXPECT_GT(of_box({16, 8, 8}), 0.7);
  EXPECT_GT(of_box({16, 16, 16}), 0.7);
  // Tiles of 4 x 4 x 4 would not come in eights here.
  EXPECT_GT(of_box({12, 10, 10}), 0.7);
  EXPECT_GT(of_box({15, 15, 15}), 0.65);
  EXPECT_GT(of_box({18, 18, 18}), 0.7);
  // Tiles, and their layers and rows, that are left over find partners.
  EXPECT_GT(of_box({11, 9, 5}), 0.5);
  EXPECT_GT(of_box({7, 7, 7}), 0.35);
}

TEST(SimdOperator, AFoldedElementIsNamed) {
  mesh::Mesh mesh = box({4, 2, 2}, {}, "none");
  if (mesh.elements() > 0)
    std::swap(mesh.nodes.change()[0], mesh.nodes.change()[3]);  // x of corners 0 and 1 of the first element
  const SimdProblem<double> problem(mesh, 2, false);
  try {
    const auto space = problem.make_space();
    SimdOperator<double>(*space, Geometry::trilinear, lambda);
    FAIL() << "accepted a Jacobian that is not positive";
  } catch (const mpi::CollectiveError& e) {
    EXPECT_NE(std::string(e.what()).find("element"), std::string::npos) << e.what();
  }
}
