// The kernels of component CG and of projections: the GPU branch gives the host's results, and every barrier is needed.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "fiber_device.hpp"
#include "weft/device/vector.hpp"

using namespace weft;

namespace {

constexpr long n = 4500, entries = 4600;  // two blocks of entries, the second incomplete
constexpr int fields = 2, vectors = 3;

struct Scalars {
  std::array<double, 4> alpha{0.3, -0.2, 0, 0}, beta{0.7, 0.1, 0, 0};
};
using Start = device::Kernel<long, long, int, double, double, const double*, const double*, const double*,
                             const double*, const double*, double*, double*, double*>;
struct Coefficients {
  std::array<double, 16> a{0.5, -1.5, 2};
};

std::vector<double> numbers(std::size_t size, double frequency) {
  std::vector<double> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = 1.5 + std::sin(frequency * static_cast<double>(i));
  return values;
}

// All results of the kernels, one after the other.
std::vector<double> everything(const std::string& name) {
  const auto device = device::open(name);
  device::Stream stream(device);
  const auto array = [&](std::size_t size, double frequency) {
    return device::Array<double>(device, numbers(size, frequency));
  };
  using In = const double*;
  using Out = double*;
  const auto cg = [&](const char* which) { return device->kernel<double>("component_cg", which); };
  const auto projection = [&](const char* which) { return device->kernel<double>("projection", which); };
  const device::Kernel<long, double, double, In, In, Out> diagonals = cg("component_diagonal");
  const Start start = cg("component_start");
  const device::Kernel<long, long, int, double, double, In, In, In, In, In, Out, Out> products =
      cg("component_products");
  const device::Kernel<long, long, int, Scalars, In, In, Out, Out, Out, Out> update = cg("component_update");
  const device::Kernel<long, In, Out> sum = cg("component_sums");
  const device::Kernel<long, long, int, Scalars, In, Out> solution = cg("component_solution");
  const device::Kernel<long, long, int, In, In, Out> project = projection("projection_products");
  const device::Kernel<long, long, int, Coefficients, double, In, Out> combine = projection("projection_combine");
  const device::Kernel<long, long, int, int, In, Out> rotate = projection("projection_rotate");
  const std::int64_t blocks = device::vector_blocks(n);
  auto diagonal = array(entries, 0.1), b = array(entries, 0.2), d = array(entries, 0.3);
  auto mask = array(fields * entries, 0.4), w = array(fields * entries, 0.5), x = array(fields * entries, 0.6);
  auto r = array(fields * entries, 0.7), p = array(fields * entries, 0.8), y = array(entries, 0.9);
  auto basis = array(vectors * entries, 1.1);
  auto partials = array(7 * fields * blocks, 1), more = array((vectors + 1) * blocks, 1), sums = array(7 * fields, 1);
  diagonals(stream, blocks, device::vector_shape, n, 0.7, 1.3, diagonal.data(), b.data(), d.data());
  start(stream, fields * blocks, device::vector_shape, n, entries, fields, 0.7, 1.3, b.data(), d.data(), mask.data(),
        w.data(), x.data(), r.data(), p.data(), partials.data());
  stream.synchronize();
  std::vector<double> all = partials.download();
  products(stream, fields * blocks, device::vector_shape, n, entries, fields, 0.7, 1.3, b.data(), d.data(), mask.data(),
           r.data(), p.data(), w.data(), partials.data());
  stream.synchronize();
  const std::vector<double> more_partials = partials.download();
  all.insert(all.end(), more_partials.begin(), more_partials.end());
  update(stream, fields * blocks, device::vector_shape, n, entries, fields, Scalars{}, d.data(), w.data(), x.data(),
         r.data(), p.data(), partials.data());
  sum(stream, 7 * fields, device::vector_shape, blocks, partials.data(), sums.data());
  project(stream, (vectors + 1) * blocks, device::vector_shape, n, entries, vectors, basis.data(), y.data(),
          more.data());
  combine(stream, blocks, device::vector_shape, n, entries, vectors, Coefficients{}, 0.5, basis.data(), y.data());
  const device::Array<double> q(device, numbers(vectors * 2, 1.3));
  rotate(stream, blocks, device::vector_shape, n, entries, vectors, 2, q.data(), basis.data());
  solution(stream, fields * blocks, device::vector_shape, n, entries, fields, Scalars{}, p.data(), x.data());
  stream.synchronize();
  for (const auto* each : {&d, &w, &x, &r, &p, &y, &basis, &partials, &more, &sums}) {
    const std::vector<double> values = each->download();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : 1e30;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    largest = std::max(largest, std::isfinite(b[i]) ? std::abs(a[i] - b[i]) / (1 + std::abs(a[i])) : 1e30);
  return largest;
}

}  // namespace

TEST(SolveKernels, AgreeOnGpuThreadsInAnyOrderAndNeedTheirBarriers) {
  const std::vector<double> host = everything("host");
  fiber::take_barriers_met();
  EXPECT_LE(difference(host, everything("fiber")), 1e-13);
  int mine = 0;
  for (const fiber::Barrier& barrier : fiber::take_barriers_met()) {
    mine += barrier.file.find("component_cg") != std::string::npos ? 1 : 0;
    const fiber::WithoutBarrier without(barrier);
    EXPECT_GT(difference(host, everything("fiber")), 1e-6)
        << "the barrier in line " << barrier.line << " of " << barrier.file << " is not needed, or not tested";
  }
  EXPECT_EQ(mine, 6);
}

TEST(SolveKernels, AGuessOfNothingReadsNothing) {
  const auto host = device::open("host");
  device::Stream stream(host);
  device::Array<double> r(host, numbers(n, 0.3)), p(host, n), d(host, numbers(n, 0.2)), partials(host, 4);
  const std::vector<double> before = r.download();
  const Start start = host->kernel<double>("component_cg", "component_start");
  start(stream, 2, device::vector_shape, n, n, 1, 1.0, 1.0, nullptr, d.data(), nullptr, nullptr, nullptr, r.data(),
        p.data(), partials.data());
  stream.synchronize();
  EXPECT_EQ(r.download(), before);
  for (long i = 0; i < n; ++i) ASSERT_EQ(p.data()[i], d.data()[i] * before[i]);
}
