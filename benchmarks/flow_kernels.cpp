// The element terms of the incompressible Navier-Stokes equations on host processors, with the limits of the same run.
//
//   mpiexec -n RANKS flow_kernels ORDERS affine|trilinear|curved double|float [ROUNDS [KERNELS [SIDE]]]
//
// ORDERS is a list such as 5,7,9,11. Each order runs on a periodic or deformed box of about SIDE points in each
// direction per rank; choose as many as the caches do not hold (128, two million points, is the default). KERNELS is
// simd (default) or portable. Prints a JSON list on rank 0 with one object per order. Times are medians over the rounds
// of the slowest rank, with the terms in turn; cpu_seconds is processor time, for machines that are shared.
// byte_limit_fraction and flop_limit_fraction are the shares of the time that the bytes of the term would take at the
// bandwidth of the run (8 reads : 1 write), and its flops at the peak of multiply-adds; fraction_of_roofline is the
// larger one.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "measuring.hpp"
#include "weft/flow/terms.hpp"
#include "weft/mesh/mesh.hpp"

using namespace weft;

namespace {

struct Case {
  std::string geometry;
  int rounds = 9;
  bool portable = false;
  double side = 128;
};

template <class T>
void run(int order, const Case& c, bool first) {
  const mpi::Comm comm;
  const auto device = device::open("host");
  mesh::BoxOptions box;
  const auto count = std::max<std::int64_t>(2, std::lround(c.side / (order + 1)));
  box.counts = {count, count, count * comm.size()};
  if (c.geometry == "affine")
    box.periodic = {true, true, true};
  else
    box.deformation = c.geometry == "curved" ? "smooth" : "kershaw";
  const mesh::Mesh mesh = mesh::make_box(box, comm);
  space::Options options;
  options.order = order;
  options.kernels = space::Kernels::simd;
  options.exchange = exchange::Choice{};
  options.device = device;
  space::Space<T> space(mesh, options);
  flow::Terms<T> terms(space, c.portable ? space::Kernels::portable : space::Kernels::simd);
  device::Stream stream(device);

  const std::int64_t entries = space.entries();
  device::Array<T> u(device, 3 * entries), p(device, entries), scalar(device, entries), out(device, 3 * entries),
      single(device, entries);
  out.zero();
  single.zero();
  for (std::int64_t i = 0; i < 3 * entries; ++i) u.data()[i] = static_cast<T>(std::sin(0.37 * static_cast<double>(i)));
  for (std::int64_t i = 0; i < entries; ++i)
    p.data()[i] = scalar.data()[i] = static_cast<T>(std::cos(0.21 * static_cast<double>(i)));
  for (int i = 1; i <= 3; ++i) u.data()[i * entries - 1] = 0;
  p.data()[entries - 1] = scalar.data()[entries - 1] = 0;

  using flow::Term;
  struct Timed {
    std::string name;
    flow::Work work;
    std::function<void()> call;
    std::vector<benchmarks::Time> times = {};
  };
  std::vector<Timed> timed;
  const auto add = [&](std::string name, flow::Work work, std::function<void()> call) {
    timed.push_back({std::move(name), work, std::move(call)});
  };
  add("convect", terms.work(Term::convect), [&] { terms.convect(u.data(), u.data(), 3, out.data(), stream); });
  add("convect_scalar", terms.work(Term::convect, 1, false),
      [&] { terms.convect(u.data(), scalar.data(), 1, single.data(), stream); });
  add("convect_skew", terms.work(Term::convect_skew),
      [&] { terms.convect_skew(u.data(), u.data(), 3, out.data(), stream); });
  add("gradient", terms.work(Term::gradient), [&] { terms.gradient(p.data(), out.data(), stream); });
  add("weak_divergence", terms.work(Term::weak_divergence),
      [&] { terms.weak_divergence(u.data(), single.data(), stream); });
  add("divergence", terms.work(Term::divergence), [&] { terms.divergence(u.data(), single.data(), stream); });
  add("curl", terms.work(Term::curl), [&] { terms.curl(u.data(), out.data(), stream); });

  benchmarks::Limits limits;
  limits.measure<T>(device, comm);
  for (Timed& term : timed) term.call();
  constexpr int calls = 3;
  for (int round = 0; round < c.rounds; ++round)
    for (Timed& term : timed) {
      const auto [wall, cpu] = benchmarks::time_of(comm, [&] {
        for (int i = 0; i < calls; ++i) term.call();
      });
      term.times.push_back({wall / calls, cpu / calls});
    }
  limits.measure<T>(device, comm);

  double sizes[2] = {static_cast<double>(space.points()), 0};
  for (const auto& [name, bytes] : terms.memory_bytes()) sizes[1] += static_cast<double>(bytes);
  comm.sum(sizes, 2);
  std::ostringstream text;
  text << (first ? "[" : ",\n ") << "{\"code\": \"weft\", \"order\": " << order
       << ", \"dealiasing_points\": " << terms.dealiasing_points() << ", \"geometry\": \"" << c.geometry
       << "\", \"precision\": \"" << (sizeof(T) == 8 ? "double" : "float") << "\", \"kernels\": \""
       << (c.portable ? "portable" : "simd") << "\", \"ranks\": " << comm.size()
       << ", \"elements\": " << mesh.global_elements << ", \"points\": " << sizes[0] << ", \"dofs\": " << space.dofs()
       << ", \"bytes_held_per_point\": " << sizes[1] / sizes[0] << ", \"bandwidth_gbs\": " << limits.bandwidth / 1e9
       << ", \"fma_peak_gflops\": " << limits.flops / 1e9 << ", \"terms\": {";
  for (std::size_t i = 0; i < timed.size(); ++i) {
    const Timed& term = timed[i];
    double work[2] = {term.work.bytes, term.work.flops};
    comm.sum(work, 2);
    const auto [seconds, cpu] = benchmarks::median(term.times);
    const double by_bytes = work[0] / limits.bandwidth, by_flops = work[1] / limits.flops,
                 limit = std::max(by_bytes, by_flops);
    text << (i > 0 ? ", " : "") << "\"" << term.name << "\": {\"seconds\": " << seconds << ", \"cpu_seconds\": " << cpu
         << ", \"nanoseconds_per_point\": " << 1e9 * seconds / sizes[0] << ", \"bytes\": " << work[0]
         << ", \"flops\": " << work[1] << ", \"byte_limit_fraction\": " << by_bytes / seconds
         << ", \"flop_limit_fraction\": " << by_flops / seconds << ", \"fraction_of_roofline\": " << limit / seconds
         << ", \"fraction_of_roofline_cpu\": " << limit / cpu << "}";
  }
  text << "}}";
  if (comm.rank() == 0) std::printf("%s", text.str().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  return benchmarks::run("flow_kernels", argc, argv, [&] {
    const std::string usage =
        "flow_kernels ORDERS affine|trilinear|curved double|float [ROUNDS [simd|portable [SIDE]]]";
    if (argc < 4) throw std::invalid_argument(usage);
    Case c{argv[2]};
    if (c.geometry != "affine" && c.geometry != "trilinear" && c.geometry != "curved")
      throw std::invalid_argument(usage);
    const std::string precision = argv[3];
    if (precision != "double" && precision != "float") throw std::invalid_argument(usage);
    if (argc >= 5) c.rounds = std::max(1, std::atoi(argv[4]));
    if (argc >= 6) c.portable = std::strcmp(argv[5], "portable") == 0;
    if (argc >= 7) c.side = std::atof(argv[6]);
    if (!(c.side > 1 && c.side < 4096)) throw std::invalid_argument(usage);
    std::stringstream orders(argv[1]);
    bool first = true;
    for (std::string order; std::getline(orders, order, ','); first = false) {
      if (precision == "double")
        run<double>(std::stoi(order), c, first);
      else
        run<float>(std::stoi(order), c, first);
    }
    if (mpi::Comm().rank() == 0) std::printf("]\n");
  });
}
