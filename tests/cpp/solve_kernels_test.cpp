// The kernels of component CG and of projections: the GPU branch against the host's, and every barrier needed.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "fiber_device.hpp"
#include "weft/device/vector.hpp"

using namespace weft;

namespace {

constexpr long n = 4500, entries = 4600;  // two blocks of entries, the second ragged
constexpr int fields = 2, vectors = 3;

struct Scalars {
  std::array<double, 4> alpha{0.3, -0.2, 0, 0}, beta{0.7, 0.1, 0, 0};
};
struct Coefficients {
  std::array<double, 16> a{0.5, -1.5, 2};
};

std::vector<double> numbers(std::size_t size, double frequency) {
  std::vector<double> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = 1.5 + std::sin(frequency * static_cast<double>(i));
  return values;
}

// Everything the kernels write, one after the other.
std::vector<double> everything(const std::string& name) {
  const auto device = device::open(name);
  device::Stream stream(device);
  const auto array = [&](std::size_t size, double frequency) {
    return device::Array<double>(device, numbers(size, frequency));
  };
  const auto kernel = [&](const char* file, const char* which) {
    return device->kernel({file, which, {{"WEFT_REAL", "double"}}});
  };
  const unsigned blocks = device::vector_blocks(n);
  auto diagonal = array(entries, 0.1), b = array(entries, 0.2), d = array(entries, 0.3);
  auto mask = array(fields * entries, 0.4), w = array(fields * entries, 0.5), x = array(fields * entries, 0.6);
  auto r = array(fields * entries, 0.7), p = array(fields * entries, 0.8), y = array(entries, 0.9);
  auto basis = array(vectors * entries, 1.1);
  auto partials = array(7 * fields * blocks, 1), more = array((vectors + 1) * blocks, 1), sums = array(7 * fields, 1);
  kernel("component_cg", "component_diagonal")(stream, blocks, device::vector_shape, n, 0.7, 1.3,
                                               static_cast<const double*>(diagonal.data()),
                                               static_cast<const double*>(b.data()), d.data());
  kernel("component_cg", "component_start")(
      stream, fields * blocks, device::vector_shape, n, entries, fields, 0.7, 1.3, static_cast<const double*>(b.data()),
      static_cast<const double*>(d.data()), static_cast<const double*>(mask.data()),
      static_cast<const double*>(w.data()), static_cast<const double*>(x.data()), r.data(), p.data(), partials.data());
  stream.synchronize();
  std::vector<double> all = partials.download();
  kernel("component_cg", "component_products")(
      stream, fields * blocks, device::vector_shape, n, entries, fields, 0.7, 1.3, static_cast<const double*>(b.data()),
      static_cast<const double*>(d.data()), static_cast<const double*>(mask.data()),
      static_cast<const double*>(r.data()), static_cast<const double*>(p.data()), w.data(), partials.data());
  stream.synchronize();
  const std::vector<double> products = partials.download();
  all.insert(all.end(), products.begin(), products.end());
  kernel("component_cg", "component_update")(stream, fields * blocks, device::vector_shape, n, entries, fields,
                                             Scalars{}, static_cast<const double*>(d.data()),
                                             static_cast<const double*>(w.data()), x.data(), r.data(), p.data(),
                                             partials.data());
  kernel("component_cg", "component_sums")(stream, 7 * fields, device::vector_shape, static_cast<long>(blocks),
                                           static_cast<const double*>(partials.data()), sums.data());
  kernel("projection", "projection_products")(stream, (vectors + 1) * blocks, device::vector_shape, n, entries, vectors,
                                              static_cast<const double*>(basis.data()),
                                              static_cast<const double*>(y.data()), more.data());
  kernel("projection", "projection_combine")(stream, blocks, device::vector_shape, n, entries, vectors, Coefficients{},
                                             0.5, static_cast<const double*>(basis.data()), y.data());
  const device::Array<double> q(device, numbers(vectors * 2, 1.3));
  kernel("projection", "projection_rotate")(stream, blocks, device::vector_shape, n, entries, vectors, 2,
                                            static_cast<const double*>(q.data()), basis.data());
  kernel("component_cg", "component_solution")(stream, fields * blocks, device::vector_shape, n, entries, fields,
                                               Scalars{}, static_cast<const double*>(p.data()), x.data());
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
  const double* none = nullptr;
  host->kernel({"component_cg", "component_start", {{"WEFT_REAL", "double"}}})(
      stream, 2, device::vector_shape, n, n, 1, 1.0, 1.0, none, static_cast<const double*>(d.data()), none, none, none,
      r.data(), p.data(), partials.data());
  stream.synchronize();
  EXPECT_EQ(r.download(), before);
  for (long i = 0; i < n; ++i) ASSERT_EQ(p.data()[i], d.data()[i] * before[i]);
}
