// Nekbone's problem on host processors: the SIMD operator and merged CG on a box, with the limits of the same run.
//
//   mpiexec -n RANKS poisson_cpu ORDER stored|trilinear|parallelepiped double|float [NX NY NZ] [ROUNDS]
//
// stored: six factors per point; parallelepiped: the same box, whose metric is constant; trilinear: the box deformed by
// the map of Kershaw, so that the metric is recomputed at every point.
// Prints one line of JSON on rank 0. Without NX NY NZ the box has about 2.1 million points. Times are medians over the
// rounds (CG: 100 iterations each) of the slowest rank; cpu_seconds is processor time, for machines that are shared.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "measuring.hpp"
#include "weft/exchange/exchange.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mesh/points.hpp"
#include "weft/poisson/merged_cg.hpp"
#include "weft/poisson/operator.hpp"

using namespace weft;

namespace {

using benchmarks::Time;

Time median_of(int rounds, const mpi::Comm& comm, const std::function<void()>& work) {
  std::vector<Time> times;
  for (int round = 0; round < rounds; ++round) times.push_back(benchmarks::time_of(comm, work));
  return benchmarks::median(times);
}

struct Case {
  int order;
  std::string geometry;
  std::array<std::int64_t, 3> counts;
  int rounds;
};

std::array<std::int64_t, 3> usual_box(int order) {
  switch (order) {
    case 3:
      return {32, 32, 32};
    case 5:
      return {24, 20, 20};
    case 7:
      return {16, 16, 16};
    case 9:
      return {16, 16, 8};
    case 11:
      return {12, 10, 10};
    case 13:
      return {12, 8, 8};
    case 15:
      return {8, 8, 8};
  }
  const auto count = std::max<std::int64_t>(2, std::lround(128.0 / (order + 1)));
  return {count, count, count};
}

// Flops of one application of D or D^T to a line of n points by even and odd parts (simd::contract()).
double line_flops(int n) {
  const int h = n / 2;
  return n % 2 == 0 ? 4 * h * h + 2 * h : 4 * h * h + 6 * h - 1;
}

template <class T>
void run(const Case& c) {
  const mpi::Comm comm;
  const auto device = device::open("host");
  mesh::BoxOptions options;
  options.counts = c.counts;
  // With elements of size 1, S and lambda have the same magnitude, and residuals stay far from underflow.
  for (int d = 0; d < 3; ++d) options.upper[d] = static_cast<double>(c.counts[d]);
  const bool stored = c.geometry == "stored";
  if (c.geometry == "trilinear") options.deformation = "kershaw";
  const double setup_begin = MPI_Wtime();
  const mesh::Mesh box = mesh::make_box(options, comm);
  poisson::Options chosen;
  chosen.order = c.order;
  chosen.kernels = space::Kernels::simd;
  chosen.geometry = stored ? poisson::Geometry::stored : poisson::Geometry::trilinear;
  chosen.exchange = {exchange::Schedule::pairwise, exchange::Path::direct};
  chosen.device = device;
  poisson::Operator<T> op(box, chosen);
  device::Stream stream(device);
  poisson::MergedCg<T> cg(*op.simd());
  const double setup = comm.max(MPI_Wtime() - setup_begin);

  device::Array<T> b(device, op.entries()), x(device, op.entries()), y(device, op.entries());
  b.zero();
  x.zero();
  const std::vector<std::int64_t> ids = op.unknown_ids();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<double>(ids[i]);
    b.data()[i] = x.data()[i] = static_cast<T>(std::sin(12.9898 * id) * std::cos(0.37 * id));
  }

  benchmarks::Limits limits;
  limits.measure<T>(device, comm);

  const auto apply = [&] { op.apply(x.data(), y.data(), stream); };
  constexpr int applications = 20, iterations = 100;
  apply();
  const Time operator_time = median_of(c.rounds, comm, [&] {
    for (int i = 0; i < applications; ++i) apply();
  });

  solver::SolveOptions cg_options;
  cg_options.max_iterations = 2;
  cg.solve(b.data(), y.data(), true, cg_options, stream);
  cg_options.max_iterations = iterations;
  solver::SolveResult result;
  const Time cg_time =
      median_of(c.rounds, comm, [&] { result = cg.solve(b.data(), y.data(), true, cg_options, stream); });
  limits.measure<T>(device, comm);

  const double n = c.order + 1, elements = static_cast<double>(box.global_elements);
  const double local_points = elements * n * n * n, dofs = static_cast<double>(op.space().dofs());
  const double word = sizeof(T), surface = elements * (n * n * n - std::pow(n - 2, 3));
  // Bytes that must pass between memory and cache, each entry once: first geometry and indices.
  const double geometry_bytes = stored ? 6 * word * local_points : 24 * word * elements;
  const double fixed_bytes = geometry_bytes + 4 * surface;
  const double operator_bytes = fixed_bytes + 3 * word * dofs;  // x read; y read (for ownership) and written
  const double cg_bytes = fixed_bytes + (6 + 1) * word * dofs;  // r, p, Ap read and written; x every second time
  // By shape: box, other parallelepiped, trilinear, stored (docs/cpu-kernels.md).
  constexpr std::array per_point{3.0, 18.0, 32.5, 15.0}, per_row{3.0, 6.0, 60.0, 0.0}, per_plane{0.0, 0.0, 230.0, 0.0};
  std::array<std::int64_t, 4> by_shape = op.elements_by_shape();
  comm.sum(by_shape.data(), 4);
  double metric_flops = 0, lines = 0;
  for (std::size_t shape = 0; shape < 4; ++shape) {
    const double of_line = line_flops(c.order + 1);  // that of a symmetric matrix has 2 more if n is odd
    lines +=
        static_cast<double>(by_shape[shape]) * (shape == 0 ? 3 * (of_line + 2 * ((c.order + 1) % 2)) : 6 * of_line);
    metric_flops +=
        static_cast<double>(by_shape[shape]) * n * (n * (per_point[shape] * n + per_row[shape]) + per_plane[shape]);
  }
  const double operator_flops = lines * n * n + 2 * local_points + metric_flops + 2 * dofs;
  const double cg_flops = operator_flops + 14 * dofs;
  const double nekbone = 12 * elements * std::pow(n, 4) + 34 * local_points;         // Eq. 3
  const double paper_flops = 12 * elements * std::pow(n, 4) + 18 * local_points;     // Eq. 4
  const double paper_bytes = 8 * elements * std::pow(n - 1, 3) + 68 * local_points;  // Eq. 4
  const double roofline = std::min(limits.flops, paper_flops / paper_bytes * limits.bandwidth);
  if (comm.rank() != 0) return;

  const double op_s = operator_time.wall / applications, op_cpu = operator_time.cpu / applications;
  const double it_s = cg_time.wall / iterations, it_cpu = cg_time.cpu / iterations;
  std::printf(
      "{\"code\": \"weft\", \"order\": %d, \"geometry\": \"%s\", \"precision\": \"%s\", \"ranks\": %d, \"lanes\": %d, "
      "\"elements\": %.0f, \"dofs\": %.0f, \"points\": %.0f, \"setup_seconds\": %.3f, \"bandwidth_gbs\": %.2f, "
      "\"fma_peak_gflops\": %.1f, ",
      c.order, c.geometry.c_str(), sizeof(T) == 8 ? "double" : "float", comm.size(), op.space().numbering().lanes,
      elements, dofs, local_points, setup, limits.bandwidth / 1e9, limits.flops / 1e9);
  std::printf(
      "\"operator\": {\"seconds\": %.6e, \"cpu_seconds\": %.6e, \"mdofs\": %.1f, \"gflops_eq4\": %.2f, "
      "\"fraction_of_roofline_eq4\": %.3f, \"fraction_of_roofline_eq4_cpu\": %.3f, \"bytes\": %.0f, \"flops\": %.0f, "
      "\"byte_limit_fraction\": %.3f, \"flop_limit_fraction\": %.3f}, ",
      op_s, op_cpu, dofs / op_s / 1e6, paper_flops / op_s / 1e9, paper_flops / op_s / roofline,
      paper_flops / op_cpu / roofline, operator_bytes, operator_flops, operator_bytes / limits.bandwidth / op_s,
      operator_flops / limits.flops / op_s);
  std::printf(
      "\"cg\": {\"iterations\": %d, \"seconds\": %.6e, \"cpu_seconds\": %.6e, \"bytes\": %.0f, \"flops\": %.0f, "
      "\"byte_limit_fraction\": %.3f, \"flop_limit_fraction\": %.3f, \"relative_residual\": %.3e}, "
      "\"gflops_nekbone_count\": %.2f, \"gflops_nekbone_count_cpu\": %.2f}\n",
      iterations, it_s, it_cpu, cg_bytes, cg_flops, cg_bytes / limits.bandwidth / it_s, cg_flops / limits.flops / it_s,
      result.residuals.back() / result.residuals.front(), nekbone / it_s / 1e9, nekbone / it_cpu / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  return benchmarks::run("poisson_cpu", argc, argv, [&] {
    if (argc < 4)
      throw std::invalid_argument("poisson_cpu ORDER stored|trilinear|parallelepiped double|float [NX NY NZ] [ROUNDS]");
    Case c{std::atoi(argv[1]), argv[2], usual_box(std::atoi(argv[1])), 3};
    if (c.geometry != "stored" && c.geometry != "trilinear" && c.geometry != "parallelepiped")
      throw std::invalid_argument("geometry: stored, trilinear or parallelepiped");
    if (argc >= 7) c.counts = {std::atoll(argv[4]), std::atoll(argv[5]), std::atoll(argv[6])};
    if (argc >= 8) c.rounds = std::max(1, std::atoi(argv[7]));
    if (std::strcmp(argv[3], "double") == 0)
      run<double>(c);
    else if (std::strcmp(argv[3], "float") == 0)
      run<float>(c);
    else
      throw std::invalid_argument("precision: double or float");
  });
}
