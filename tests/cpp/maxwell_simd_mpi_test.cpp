#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "orders.hpp"
#include "shape_meshes.hpp"
#include "shuffled_mesh.hpp"
#include "weft/maxwell/operator.hpp"
#include "weft/maxwell/solver.hpp"
#include "weft/mesh/points.hpp"

using namespace weft;
using namespace weft::maxwell;

namespace {

mesh::Mesh box(std::array<std::int64_t, 3> counts, std::array<bool, 3> periodic, const char* deformation = "none") {
  mesh::BoxOptions options;
  options.counts = counts;
  options.upper = {1, 1.5, 0.75};
  options.periodic = periodic;
  options.deformation = deformation;
  options.smooth_geometry_order = 3;
  return mesh::make_box(options, mpi::Comm());
}

Options options_for(const mesh::Mesh& mesh, int order, Kernels kernels) {
  Options options;
  options.order = order;
  options.kernels = kernels;
  options.device = device::open("host");
  options.exchange = exchange::Choice{};
  constexpr std::array<Condition, 3> conditions{Condition::pec, Condition::pmc, Condition::absorbing};
  for (std::size_t b = 0; b < mesh.boundary_names.size(); ++b)
    options.boundaries[mesh.boundary_names[b]] = conditions[b % conditions.size()];
  options.materials = {{"vacuum", {1, 1, 0}}, {"glass", {2.25, 1, 0}}, {"mud", {5, 1.5, 0.7}}};
  for (std::int64_t e = 0; e < mesh.elements(); ++e)
    options.regions.push_back(static_cast<std::int32_t>(mesh.element_ids[e] % 3));
  return options;
}

// Values in [-1, 1] that look random, for an entry of a global element.
double value_of(std::int64_t element, std::int64_t entry) {
  auto h = static_cast<std::uint64_t>(element * 100003 + entry + 1) * 0x9E3779B97F4A7C15ull;
  h = (h ^ (h >> 29)) * 0xBF58476D1CE4E5B9ull;
  return static_cast<double>((h ^ (h >> 32)) >> 11) * 0x1p-52 - 1;
}

template <class T>
std::vector<T> some_fields(const mesh::Mesh& mesh, std::int64_t each) {
  std::vector<T> fields;
  for (std::int64_t e = 0; e < mesh.elements(); ++e)
    for (std::int64_t i = 0; i < each; ++i) fields.push_back(static_cast<T>(value_of(mesh.element_ids[e], i)));
  return fields;
}

template <class T>
double difference(const mpi::Comm& comm, const std::vector<T>& a, const std::vector<T>& b) {
  double largest = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = std::max(largest, std::isnan(d) ? INFINITY : d);
    size = std::max(size, std::abs(static_cast<double>(b[i])));
  }
  return comm.max(largest) / comm.max(size);
}

// A dipole, and a layer in every third element.
void drive(const mesh::Mesh& mesh, Options& options) {
  Dipole dipole;
  dipole.position = {0.3, 0.4, 0.2};
  dipole.moment = {1, -2, 0.5};
  dipole.pulse.frequency = 1;
  options.dipoles.push_back(dipole);
  const int n = options.order + 1, each = 3 * n * n * n;
  for (std::int64_t e = 0; e < mesh.elements(); ++e)
    for (int i = 0; i < each; ++i)
      options.damping.push_back(mesh.element_ids[e] % 3 == 1 ? 1 + value_of(mesh.element_ids[e], i) : 0);
}

// Rates, and three steps of the Runge-Kutta method in two calls, with both kinds of kernels on the same fields.
template <class T>
void compare(const mesh::Mesh& mesh, int order, Flux flux, int threads = 1, bool driven = false) {
  SCOPED_TRACE("order " + std::to_string(order) + " on " + mesh.source);
  constexpr double tolerance = sizeof(T) == 8 ? 1e-12 : 3e-4;
  const auto device = device::open("host");
  device::Stream stream(device);
  std::vector<T> rates[2], fields[2];
  std::pair<double, double> energies[2];
  for (const Kernels kernels : {Kernels::portable, Kernels::simd}) {
    const int which = kernels == Kernels::simd ? 1 : 0;
    Options options = options_for(mesh, order, kernels);
    options.flux = flux;
    if (driven) drive(mesh, options);
    omp_set_num_threads(threads);
    Operator<T> op(mesh, options);
    omp_set_num_threads(1);
    const std::vector<T> start = some_fields<T>(mesh, op.entries() / std::max<std::int64_t>(1, mesh.elements()));
    rates[which].assign(op.entries(), T(NAN));  // every value must be written
    op.apply(0.1, start.data(), rates[which].data(), stream);
    stream.synchronize();
    Solver<T> solver(op);
    std::copy(start.begin(), start.end(), solver.fields().data());
    const double dt = op.dt_limit() / 4;
    solver.step(2, dt);
    solver.step(1, dt);
    fields[which].assign(solver.fields().data(), solver.fields().data() + op.entries());
    energies[which] = op.energy(fields[which].data(), stream);
  }
  EXPECT_LT(difference(mesh.comm, rates[1], rates[0]), tolerance) << "rates";
  EXPECT_LT(difference(mesh.comm, fields[1], fields[0]), tolerance) << "three steps";
  const double rounding = sizeof(T) == 8 ? 1e-12 : 1e-5;
  EXPECT_NEAR(energies[1].first / energies[0].first, 1, rounding);
  EXPECT_NEAR(energies[1].second / energies[0].second, 1, rounding);
}

template <class T>
void all_orders(const mesh::Mesh& mesh, Flux flux = Flux::upwind) {
  for (const int order : test::all_orders()) compare<T>(mesh, order, flux);
}

}  // namespace

TEST(MaxwellSimd, BoxesEqualThePortableKernelsAtAllOrders) { all_orders<double>(box({3, 2, 2}, {true, false, false})); }
TEST(MaxwellSimd, CurvedElementsEqualThePortableKernelsAtAllOrders) {
  all_orders<double>(box({2, 2, 2}, {false, true, false}, "smooth"));
}
TEST(MaxwellSimd, SinglePrecisionEqualsThePortableKernelsAtAllOrders) {
  all_orders<float>(box({2, 2, 1}, {true, true, true}));
  all_orders<float>(box({2, 1, 2}, {false, false, true}, "smooth"));
}
TEST(MaxwellSimd, TrilinearElementsEqualThePortableKernels) {
  for (const int order : {2, 7, 8})
    compare<double>(box({2, 3, 2}, {false, false, false}, "kershaw"), order, Flux::upwind);
}
TEST(MaxwellSimd, CentralFluxEqualsThePortableKernels) {
  for (const int order : {3, 7, 14}) compare<double>(box({2, 2, 2}, {true, true, false}), order, Flux::central);
}
TEST(MaxwellSimd, ThreadsEqualThePortableKernels) {
  for (const int threads : {2, 3})
    compare<double>(box({3, 3, 3}, {true, true, true}, "smooth"), 5, Flux::upwind, threads);
}
// Parallelepipeds whose axes are rotated relative to each other: every orientation of faces.
TEST(MaxwellSimd, FacesOfAnyOrientationEqualThePortableKernels) {
  for (const bool curved : {false, true})
    for (const int order : {1, 4, 7}) {
      compare<double>(test::shuffled_mesh(curved), order, Flux::upwind);
      compare<float>(test::shuffled_mesh(curved), order, Flux::upwind);
    }
}
TEST(MaxwellSimd, DipolesAndMatchedLayersEqualThePortableKernels) {
  compare<double>(box({3, 3, 2}, {true, false, false}), 5, Flux::upwind, 1, true);
  compare<double>(box({2, 3, 2}, {false, false, true}, "smooth"), 4, Flux::central, 2, true);
}
// The kernels treat elements by the shapes of mesh/shape.hpp; only boxes along the axes are boxes here.
TEST(MaxwellSimd, ElementsAreTreatedByTheirShapes) {
  using Place = std::array<double, 3> (*)(std::array<double, 3>);
  struct Case {
    const char* name;
    Place place;
    std::array<std::int64_t, 3> counts;
  };
  constexpr std::int64_t elements = 12;
  const std::array<Case, 8> cases{{
      {"box", [](std::array<double, 3> x) { return x; }, {elements, 0, 0}},
      {"box far from the origin",
       [](std::array<double, 3> x) { return std::array{10 + x[0], 10 + x[1], x[2] - 10}; },
       {elements, 0, 0}},
      {"box turned by half a turn",
       [](std::array<double, 3> x) { return std::array{-x[0], -x[1], x[2]}; },
       {elements, 0, 0}},
      {"box turned by a quarter turn",
       [](std::array<double, 3> x) { return std::array{-x[1], x[0], x[2]}; },
       {0, elements, 0}},
      {"box with its axes in turn",
       [](std::array<double, 3> x) { return std::array{x[1], x[2], x[0]}; },
       {0, elements, 0}},
      {"rotated box",
       [](std::array<double, 3> x) { return std::array{0.8 * x[0] - 0.6 * x[1], 0.6 * x[0] + 0.8 * x[1], x[2]}; },
       {0, elements, 0}},
      {"sheared box",
       [](std::array<double, 3> x) { return std::array{x[0] + 1e-9 * x[1], x[1], x[2]}; },
       {0, elements, 0}},
      {"tapered box",
       [](std::array<double, 3> x) { return std::array{x[0] * (1 + x[1]), x[1], x[2]}; },
       {0, 0, elements}},
  }};
  const mpi::Comm comm;
  for (const auto& [name, place, counts] : cases) {
    SCOPED_TRACE(name);
    mesh::Mesh mesh = box({3, 2, 2}, {false, false, false});
    double* const nodes = mesh.nodes.change().data();
    for (std::int64_t i = 0; i < 8 * mesh.elements(); ++i) {
      const std::array<double, 3> at = place({nodes[3 * i], nodes[3 * i + 1], nodes[3 * i + 2]});
      std::copy(at.begin(), at.end(), nodes + 3 * i);
    }
    const Operator<float> op(mesh, options_for(mesh, 3, Kernels::simd));
    std::array<std::int64_t, 3> found = op.simd()->elements_by_shape();
    comm.sum(found.data(), 3);
    EXPECT_EQ(found, counts);
    compare<double>(mesh, 3, Flux::upwind);
  }
}
TEST(MaxwellSimd, AMovedVertexMakesOnlyTheElementsRoundItCurved) {
  const mpi::Comm comm;
  for (const double by : {0.0, 1e-12, 0.2}) {
    const mesh::Mesh mesh = test::with_moved_vertex(by);
    const Operator<double> op(mesh, options_for(mesh, 4, Kernels::simd));
    std::array<std::int64_t, 3> found = op.simd()->elements_by_shape();
    comm.sum(found.data(), 3);
    const std::int64_t curved = by == 0 ? 0 : 8;
    EXPECT_EQ(found, (std::array<std::int64_t, 3>{mesh.global_elements - curved, 0, curved})) << by;
    compare<double>(mesh, 4, Flux::upwind);
  }
}
TEST(MaxwellSimd, MemoryIsTracesAndForCurvedElementsFrames) {
  const mesh::Mesh straight = box({4, 4, 4}, {true, true, true});
  const mesh::Mesh curved = box({4, 4, 4}, {true, true, true}, "smooth");
  constexpr int order = 7;
  for (const mesh::Mesh* mesh : {&straight, &curved}) {
    const Operator<double> op(*mesh, options_for(*mesh, order, Kernels::simd));
    double bytes = 0;
    for (const auto& [name, count] : op.memory_bytes())
      if (name != "scratch") bytes += static_cast<double>(count);
    // docs/cpu-kernels.md: traces take 2 x 24 n^2 words per element plus those of halo faces, frames 9 n^3 + 18 n^2.
    const double n = order + 1, elements = static_cast<double>(mesh->elements());
    const double frames = mesh == &curved ? 9 * n * n * n + 18 * n * n : 0;
    const double halo = static_cast<double>(op.bytes_sent()) / 8;
    EXPECT_LT(bytes, 8 * elements * (48 * n * n + frames + 250) + 8 * 2 * (halo + 8 * n * n)) << mesh->source;
  }
}
