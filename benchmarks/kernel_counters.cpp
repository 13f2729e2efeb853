// Launches weft's GPU kernels on the emulator of sm_90 machine code (tests/machine_code), which counts what they do, at
// sizes whose blocks are as they are at scale: a numbered box of at least 64 elements. kernel_counters.py calls it.
//
//   kernel_counters WORKLOAD ORDER double|float     WORKLOAD: poisson, solve, transfer, maxwell, flow, turbulence
//
// Prints the size as one line of JSON; the counters go to the file that WEFT_MACHINE_CODE_REPORT names.
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>

#include "../tests/cpp/find_fake_gpu.hpp"
#include "../tests/cpp/flow_terms_checks.hpp"
#include "../tests/cpp/maxwell_checks.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/poisson/operator.hpp"
#include "weft/poisson/schwarz.hpp"
#include "weft/poisson/smoother.hpp"
#include "weft/poisson/transfer.hpp"
#include "weft/solver/cg.hpp"
#include "weft/turbulence/initial.hpp"
#include "weft/turbulence/solver.hpp"

using namespace weft;

namespace {

// At least 64 elements, and about 64,000 points.
std::int64_t elements_per_direction(int order) {
  return std::max(4, static_cast<int>(std::lround(40.0 / (order + 1))));
}

mesh::Mesh box(int order, std::array<bool, 3> periodic = {false, false, false}) {
  const std::int64_t k = elements_per_direction(order);
  return mesh::make_box({.counts = {k, k, k}, .periodic = periodic}, mpi::Comm::self());
}

poisson::Options options(int order) {
  poisson::Options options;
  options.order = order;
  options.exchange = "pairwise:staged";
  options.device = device::open("cuda");
  return options;
}

template <class T>
device::Array<T> vector(std::int64_t entries) {
  std::vector<T> values(static_cast<std::size_t>(entries));
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<T>(std::cos(static_cast<double>(k)));
  return device::Array<T>(device::open("cuda"), values);
}

void print_size(std::int64_t elements, std::int64_t dofs) {
  std::printf("{\"elements\": %lld, \"dofs\": %lld}\n", static_cast<long long>(elements), static_cast<long long>(dofs));
}

// A box whose elements are of one shape.
mesh::Mesh box_of(int order, mesh::Shape shape) {
  mesh::Mesh mesh = box(order);
  double* const nodes = mesh.nodes.change().data();
  for (std::size_t i = 0; i < mesh.nodes.size(); i += 3) {
    const double x = nodes[i], y = nodes[i + 1], z = nodes[i + 2];
    if (shape >= mesh::Shape::affine) nodes[i] += 0.3 * y - 0.2 * z;
    if (shape >= mesh::Shape::trilinear) nodes[i + 1] += 0.3 * x * y * z;
  }
  return mesh;
}

// The operator in both shapes of its blocks and for all shapes of elements, and its gather.
template <class T>
void run_poisson(int order) {
  device::Stream stream(device::open("cuda"));
  using poisson::Threads;
  for (const auto threads : {Threads::points, Threads::columns, Threads::matrices})
    for (const mesh::Shape shape : mesh::all_shapes) {
      const bool stored = shape == mesh::Shape::curved, points = threads == Threads::points;
      const bool has_matrices = shape == mesh::Shape::affine || shape == mesh::Shape::trilinear;
      if (threads == Threads::matrices && (!has_matrices || !poisson::matrices_fit(order, sizeof(T)))) continue;
      // Blocks have no more threads, and points take boxes for parallelepipeds.
      if (points && (order > 9 || shape == mesh::Shape::box)) continue;
      const mesh::Mesh mesh = box_of(order, shape);
      poisson::Options chosen = options(order);
      chosen.threads = threads;
      chosen.geometry = stored ? poisson::Geometry::stored : poisson::Geometry::trilinear;
      poisson::Operator<T> op(mesh, chosen);
      auto x = vector<T>(op.entries()), y = vector<T>(op.entries());
      // The gather is the same for all shapes.
      if (threads != Threads::matrices && (stored || shape == mesh::Shape::trilinear))
        op.apply(x.data(), y.data(), stream);
      else
        op.apply_local(x.data(), y.data(), stream);
      stream.synchronize();
      if (threads == Threads::columns && stored)
        print_size(static_cast<std::int64_t>(mesh.element_ids.size()), static_cast<std::int64_t>(op.unknowns()));
    }
}

// Iterations of CG, and the operator with the product that it computes on the way.
template <class T>
void run_solve(int order) {
  const mesh::Mesh mesh = box(order);
  const auto device = device::open("cuda");
  poisson::Operator<T> op(mesh, options(order));
  device::Stream stream(device);
  auto b = vector<T>(op.entries()), x = vector<T>(op.entries());
  const device::Array<T> inverse = op.inverse_diagonal();
  solver::System<T> system = op.system();
  system.apply_product = nullptr;  // counted below
  system.product_partials = 0;
  system.inverse_diagonal = inverse.data();
  const std::int64_t few = system.small_unknowns;
  for (const std::int64_t partials : {std::int64_t{0}, op.summand_partials()}) {
    system.summand_partials = partials;
    for (const std::int64_t small_unknowns : {few, std::int64_t{0}}) {
      system.small_unknowns = small_unknowns;
      solver::ConjugateGradients<T> cg(system, device, op.comm());
      cg.solve(b.data(), x.data(), true, {.max_iterations = 2, .tolerance = 0}, stream);
    }
  }
  device::Array<double> product(device, static_cast<std::size_t>(op.product_partials()));
  op.apply(x.data(), b.data(), product.data(), stream);
  stream.synchronize();
  print_size(static_cast<std::int64_t>(mesh.element_ids.size()), static_cast<std::int64_t>(op.unknowns()));
}

// What a level of multigrid does besides: between the orders, and the smoothers.
template <class T>
void run_transfer(int order) {
  const mesh::Mesh mesh = box(order);
  poisson::Operator<T> fine(mesh, options(order)), coarse(mesh, options(std::max(1, order / 2)));
  device::Stream stream(device::open("cuda"));
  if (poisson::transfer_fits(order, sizeof(T))) {
    poisson::Transfer<T> transfer(fine, coarse);
    auto small = vector<T>(coarse.entries()), large = vector<T>(fine.entries());
    transfer.prolong(small.data(), large.data(), true, stream);
    transfer.restrict_to(large.data(), small.data(), stream);
    stream.synchronize();
  }
  auto r = vector<T>(fine.entries()), x = vector<T>(fine.entries()), work = vector<T>(fine.entries());
  poisson::Schwarz<T> schwarz(fine);
  schwarz.apply(r.data(), x.data(), stream);
  const auto smoother = poisson::make_smoother(fine, poisson::Smoothing::chebyshev_jacobi, 2);
  smoother->start(r.data(), x.data(), work.data(), true, stream);
  stream.synchronize();
  print_size(static_cast<std::int64_t>(mesh.element_ids.size()), static_cast<std::int64_t>(fine.unknowns()));
}

template <class T>
void run_maxwell(int order) {
  const mesh::Mesh mesh = box(order, {true, false, true});
  test::trajectory<T>(mesh, test::maxwell_options(mesh, order, "cuda", false), 1, 1e-3);
  const auto elements = static_cast<std::int64_t>(mesh.element_ids.size());
  print_size(elements, 6 * elements * (order + 1) * (order + 1) * (order + 1));
}

template <class T>
void run_flow(int order) {
  const mesh::Mesh mesh = box(order, {true, false, false});
  const flow::Reference reference(mesh, order);
  flow::Tested<T> tested(mesh, order, space::Kernels::portable, space::Kernels::portable, device::open("cuda"));
  const std::vector<flow::Field> u{reference.random(1), reference.random(2), reference.random(3)};
  const flow::Field p = reference.random(4);
  tested.convect(u);
  tested.convect_skew(u, {p});
  tested.gradient(p);
  tested.weak_divergence(u);
  tested.divergence(u);
  tested.curl(u);
  print_size(static_cast<std::int64_t>(mesh.element_ids.size()), static_cast<std::int64_t>(p.size()) - 1);
}

template <class T>
void run_turbulence(int) {
  turbulence::Options options;
  options.box.sizes = {48, 48, 48};
  options.viscosity = 0.05;
  options.courant = 0.4;
  options.row = options.column = "pairwise:staged";
  options.device = device::open("cuda");
  turbulence::Solver<T> solver(options, mpi::Comm::self());
  const turbulence::Spectrum spectrum = [](std::span<const double> k, std::span<double> energy) {
    for (std::size_t i = 0; i < k.size(); ++i) energy[i] = 0.05 * std::pow(k[i], 4) * std::exp(-0.2 * k[i] * k[i]);
  };
  solver.set_velocity(turbulence::random_velocity(solver.truncation(), spectrum, 3));
  solver.step(1);
  print_size(0, 48 * 48 * 48);
}

template <class T>
bool run(const std::string& workload, int order) {
  static const std::map<std::string, std::function<void(int)>> workloads{
      {"poisson", run_poisson<T>}, {"solve", run_solve<T>}, {"transfer", run_transfer<T>},
      {"maxwell", run_maxwell<T>}, {"flow", run_flow<T>},   {"turbulence", run_turbulence<T>}};
  const auto found = workloads.find(workload);
  if (found != workloads.end()) found->second(order);
  return found != workloads.end();
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0, status = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const std::string real = argc == 4 ? argv[3] : "";
  if (real != "double" && real != "float") {
    std::fprintf(stderr, "usage: kernel_counters WORKLOAD ORDER double|float\n");
    status = 2;
  } else if (device::find_fake_gpu("cuda") == nullptr) {
    std::fprintf(stderr, "the driver made for tests is not found: call kernel_counters.py\n");
    status = 2;
  } else {
    try {
      const int order = std::stoi(argv[2]);
      status = (real == "double" ? run<double>(argv[1], order) : run<float>(argv[1], order)) ? 0 : 2;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      status = 1;
    }
  }
  MPI_Finalize();
  return status;
}
