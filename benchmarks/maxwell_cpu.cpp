// Maxwell's equations on host processors: the SIMD kernels' Runge-Kutta step on a box, with the limits of the same run.
//
//   mpiexec -n RANKS maxwell_cpu ORDER ELEMENTS box|curved double|float [ROUNDS [STEPS [KERNELS]]]
//
// ELEMENTS is the number in each direction of a box with conducting walls (like NekCEM's 3dboxpec); KERNELS is simd or
// portable. Prints one line of JSON on rank 0. Times are those of a step of five stages: medians over the rounds, of
// the slowest rank. cpu_seconds is processor time, for machines that are shared.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

#include "measuring.hpp"
#include "weft/maxwell/operator.hpp"
#include "weft/maxwell/solver.hpp"
#include "weft/mesh/points.hpp"

using namespace weft;

namespace {

struct Case {
  int order;
  std::int64_t count;
  bool curved;
  int rounds = 7, steps = 10;
  bool portable = false;
};

// The lowest mode of a cube [-1, 1]^3 with conducting walls: E at time 0; H is 0.
template <class T>
void set_mode(const mesh::Mesh& mesh, int order, T* fields) {
  const std::vector<double> x = mesh::point_coordinates(mesh, order);
  const auto each = static_cast<std::size_t>((order + 1) * (order + 1) * (order + 1));
  constexpr double w = std::numbers::pi;
  for (std::size_t e = 0; e < x.size() / (3 * each); ++e)
    for (std::size_t p = 0; p < each; ++p) {
      const double* at = x.data() + 3 * (e * each + p);
      T* u = fields + e * 6 * each + p;
      u[0] = static_cast<T>(-std::cos(w * at[0]) * std::sin(w * at[1]) * std::sin(w * at[2]));
      u[each] = static_cast<T>(std::sin(w * at[0]) * std::cos(w * at[1]) * std::sin(w * at[2]));
      for (int c = 2; c < 6; ++c) u[c * each] = 0;
    }
}

template <class T>
void run(const Case& c) {
  const mpi::Comm comm;
  const auto device = device::open("host");
  mesh::BoxOptions box;
  box.counts = {c.count, c.count, c.count};
  box.lower = {-1, -1, -1};
  if (c.curved) box.deformation = "smooth";
  const mesh::Mesh mesh = mesh::make_box(box, comm);
  maxwell::Options options;
  options.order = c.order;
  options.kernels = c.portable ? maxwell::Kernels::portable : maxwell::Kernels::simd;
  options.device = device;
  options.exchange = exchange::Choice{};
  for (const std::string& name : mesh.boundary_names) options.boundaries[name] = maxwell::Condition::pec;
  const double setup_begin = MPI_Wtime();
  maxwell::Operator<T> op(mesh, options);
  const double setup = comm.max(MPI_Wtime() - setup_begin);
  maxwell::Solver<T> solver(op);
  set_mode(mesh, c.order, solver.fields().data());
  const double dt = 0.5 * op.dt_limit();

  benchmarks::Limits limits;
  limits.measure<T>(device, comm);
  solver.step(2, dt);
  std::vector<benchmarks::Time> times;
  for (int round = 0; round < c.rounds; ++round) {
    const auto [wall, cpu] = benchmarks::time_of(comm, [&] { solver.step(c.steps, dt); });
    times.push_back({wall / c.steps, cpu / c.steps});
  }
  limits.measure<T>(device, comm);

  // E of the mode at this time is cos(omega t) times the initial one, with omega = sqrt(3) pi.
  double error = 0, energy = 0;
  if (!c.curved) {
    std::vector<T> first(static_cast<std::size_t>(op.entries()));
    set_mode(mesh, c.order, first.data());
    const double now = std::cos(std::sqrt(3.0) * std::numbers::pi * solver.time());
    const auto each = op.points() / std::max<std::int64_t>(1, op.elements());
    for (std::int64_t i = 0; i < op.entries(); ++i)
      if (i / each % 6 < 3)
        error = std::max(
            error, std::abs(static_cast<double>(solver.fields().data()[i]) - now * static_cast<double>(first[i])));
  }
  error = comm.max(error);
  const auto [electric, magnetic] = op.energy(solver.fields().data(), solver.stream());
  energy = electric + magnetic;

  std::array<double, 5> sums{5 * op.bytes(), 5 * op.flops(), 5 * op.paper_flops(), static_cast<double>(op.points()), 0};
  for (const auto& [name, bytes] : op.memory_bytes()) sums[4] += static_cast<double>(bytes);
  for (const auto& [name, bytes] : solver.memory_bytes()) sums[4] += static_cast<double>(bytes);
  comm.sum(sums.data(), 5);
  if (comm.rank() != 0) return;
  const auto [bytes, flops, paper, points, memory] = sums;
  const auto [seconds, cpu] = benchmarks::median(times);
  const double limit = std::max(bytes / limits.bandwidth, flops / limits.flops);
  std::printf(
      "{\"code\": \"weft\", \"order\": %d, \"elements\": %lld, \"points\": %.0f, \"geometry\": \"%s\", "
      "\"precision\": \"%s\", \"kernels\": \"%s\", \"ranks\": %d, \"setup_seconds\": %.3f, \"step_seconds\": %.6e, "
      "\"step_cpu_seconds\": %.6e, \"nanoseconds_per_point\": %.3f, \"bytes\": %.0f, \"flops\": %.0f, "
      "\"gflops_eq16\": %.2f, \"bandwidth_gbs\": %.2f, \"fma_peak_gflops\": %.1f, \"roofline_seconds\": %.6e, "
      "\"fraction_of_roofline\": %.3f, \"fraction_of_roofline_cpu\": %.3f, \"bytes_held_per_point\": %.1f, "
      "\"error\": %.3e, \"energy\": %.12e}\n",
      c.order, static_cast<long long>(mesh.global_elements), points, c.curved ? "curved" : "box",
      sizeof(T) == 8 ? "double" : "float", c.portable ? "portable" : "simd", comm.size(), setup, seconds, cpu,
      1e9 * seconds / points, bytes, flops, paper / seconds / 1e9, limits.bandwidth / 1e9, limits.flops / 1e9, limit,
      limit / seconds, limit / cpu, memory / points, error, energy);
}

}  // namespace

int main(int argc, char** argv) {
  return benchmarks::run("maxwell_cpu", argc, argv, [&] {
    const std::string usage = "maxwell_cpu ORDER ELEMENTS box|curved double|float [ROUNDS [STEPS [KERNELS]]]";
    if (argc < 5) throw std::invalid_argument(usage);
    Case c{std::atoi(argv[1]), std::atoll(argv[2]), std::strcmp(argv[3], "curved") == 0};
    if (!c.curved && std::strcmp(argv[3], "box") != 0) throw std::invalid_argument(usage);
    if (argc >= 6) c.rounds = std::max(1, std::atoi(argv[5]));
    if (argc >= 7) c.steps = std::max(1, std::atoi(argv[6]));
    if (argc >= 8) c.portable = std::strcmp(argv[7], "portable") == 0;
    if (std::strcmp(argv[4], "double") == 0)
      run<double>(c);
    else if (std::strcmp(argv[4], "float") == 0)
      run<float>(c);
    else
      throw std::invalid_argument(usage);
  });
}
