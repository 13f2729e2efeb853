// The linear solves of a flow on host processors: three fields at a time in the operator, and component CG.
//
//   mpiexec -n RANKS flow_solves ORDER stored|trilinear double|float [ELEMENTS A DIRECTION] [ROUNDS]
//
// Prints one line of JSON on rank 0: seconds (medians over alternating rounds, of the slowest rank) of three operators
// one by one and together, and of an iteration of the velocity's CG with the portable kernels and with the host's
// passes; and the bytes per point of the solves.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "measuring.hpp"
#include "weft/flow/helmholtz.hpp"
#include "weft/flow/pressure.hpp"
#include "weft/poisson/component_passes.hpp"
#include "weft/space/space.hpp"

using namespace weft;

namespace {

template <class T>
void measure(int order, poisson::Geometry geometry, std::int64_t elements, int rounds) {
  const mpi::Comm comm;
  const mesh::Mesh mesh = mesh::make_box(
      {.counts = {elements, elements, elements}, .upper = {6.28, 6.28, 6.28}, .periodic = {true, true, true}}, comm);
  poisson::Options options;
  options.order = order;
  options.geometry = geometry;
  options.kernels = poisson::Kernels::simd;
  options.device = device::open("host");
  options.lambda = 0;
  space::Space<T> space(mesh, options);
  poisson::Operator<T> op(space, options);
  device::Array<T> scratch(space.device(), 6 * space.entries());
  const std::int64_t entries = space.entries();
  device::Stream stream(space.device());
  std::vector<T> x(3 * entries), y(3 * entries), rhs(3 * entries);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(std::sin(0.37 * static_cast<double>(i)));

  const device::Array<T> diagonal = op.diagonal();
  solver::ComponentSystem<T> system;
  system.name = "velocity";
  system.stiffness = [&](T* in, T* out, int fields, device::Stream& s) { op.apply(in, out, fields, s); };
  system.diagonal = diagonal.data();
  system.mass = space.mass();
  system.entries = entries;
  system.unknowns = space.unknowns();
  solver::ComponentCg<T> plain(system, space.device(), comm);
  const poisson::ComponentPasses<T> passes(*op.simd(), space.mass(), nullptr, 3);
  system.fused = [&](const solver::ComponentPass<T>& pass, double* sums, device::Stream& s) { passes(pass, sums, s); };
  solver::ComponentCg<T> fused(system, space.device(), comm);
  for (auto* cg : {&plain, &fused}) cg->set(1.0 / 1600, 180, stream);

  int iterations = 1;
  const auto solve = [&](solver::ComponentCg<T>& cg) {
    std::copy(x.begin(), x.end(), rhs.begin());
    for (std::int64_t i = 0; i < 3 * entries; ++i) rhs[i] *= space.mass()[i % entries];
    const auto results = cg.solve(rhs.data(), y.data(), true, {.tolerance = sizeof(T) == 8 ? 1e-9 : 1e-4}, stream);
    iterations = results[0].iterations;
  };
  std::vector<std::pair<const char*, std::function<void()>>> all{
      {"operators_one_by_one",
       [&] {
         for (int c = 0; c < 3; ++c) op.apply(x.data() + c * entries, y.data() + c * entries, stream);
       }},
      {"operators_together", [&] { op.apply(x.data(), y.data(), 3, stream); }},
      {"component_cg_kernels", [&] { solve(plain); }},
      {"component_cg_passes", [&] { solve(fused); }}};
  std::map<std::string, std::vector<benchmarks::Time>> times;
  for (int round = -1; round < rounds; ++round) {
    for (const auto& [name, work] : all) {
      const benchmarks::Time took = benchmarks::time_of(comm, work);
      if (round >= 0) times[name].push_back(took);
    }
  }
  flow::Helmholtz<T> helmholtz("velocity", op, 3, nullptr, scratch.data());
  flow::Pressure<T> pressure(op, {}, nullptr, {}, scratch.data());
  const auto per_point = [&](std::int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(space.points());
  };
  std::int64_t of_pressure = 0, of_operator = 0;
  for (const auto& [name, bytes] : pressure.memory_bytes()) of_pressure += bytes;
  for (const auto& [name, bytes] : op.memory_bytes()) of_operator += bytes;
  if (comm.rank() != 0) return;
  std::printf(
      "{\"order\": %d, \"elements\": %lld, \"ranks\": %d, \"type\": \"%s\", \"geometry\": \"%s\", "
      "\"iterations\": %d",
      order, static_cast<long long>(mesh.global_elements), comm.size(), device::type_name<T>(),
      poisson::name(geometry).c_str(), iterations);
  for (const auto& [name, measured] : times)
    std::printf(", \"%s_seconds\": %.6f", name.c_str(), benchmarks::median(measured).wall);
  std::printf(", \"bytes_a_point\": {\"operator\": %.1f, \"velocity\": %.1f, \"pressure\": %.1f}}\n",
              per_point(of_operator), per_point(helmholtz.memory_bytes()), per_point(of_pressure));
}

}  // namespace

int main(int argc, char** argv) {
  return benchmarks::run("flow_solves", argc, argv, [&] {
    const std::string usage = "flow_solves ORDER stored|trilinear double|float [ELEMENTS A DIRECTION] [ROUNDS]";
    if (argc < 4) throw std::invalid_argument(usage);
    const std::string geometry = argv[2], precision = argv[3];
    if ((geometry != "stored" && geometry != "trilinear") || (precision != "double" && precision != "float"))
      throw std::invalid_argument(usage);
    const auto of = geometry == "stored" ? poisson::Geometry::stored : poisson::Geometry::trilinear;
    const int order = std::atoi(argv[1]), rounds = argc > 5 ? std::max(1, std::atoi(argv[5])) : 15;
    const std::int64_t elements = argc > 4 ? std::atoi(argv[4]) : 8;
    if (precision == "float")
      measure<float>(order, of, elements, rounds);
    else
      measure<double>(order, of, elements, rounds);
  });
}
