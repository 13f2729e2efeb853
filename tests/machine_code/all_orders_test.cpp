// The kernels that exist once per order, on machine code. Every launch is compared with the host's (launches.hpp), so
// here they are only launched, on small meshes. A few orders by default, all of them with WEFT_ALL_ORDERS=1.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "../cpp/flow_terms_checks.hpp"
#include "../cpp/maxwell_checks.hpp"
#include "../cpp/shape_meshes.hpp"
#include "on_machine_code.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/poisson/local_operator.hpp"
#include "weft/poisson/schwarz.hpp"
#include "weft/poisson/transfer.hpp"

using namespace weft;

namespace {

bool all_orders() { return std::getenv("WEFT_ALL_ORDERS") != nullptr; }

class AllOrders : public machine_code::OnMachineCode<testing::TestWithParam<int>> {
 protected:
  void SetUp() override {
    const bool edited = std::getenv("WEFT_FAKE_GPU_EDITS") != nullptr;  // as for another GPU
    const std::set<int> some = edited ? std::set{15} : std::set{1, 3, 7, 15};
    if (!all_orders() && some.count(order) == 0) GTEST_SKIP() << "set WEFT_ALL_ORDERS=1";
    OnMachineCode::SetUp();
  }
  const int order = GetParam();
};
INSTANTIATE_TEST_SUITE_P(MachineCode, AllOrders, testing::Range(1, 16));

mesh::Mesh deformed(std::array<int, 3> counts) {
  return mesh::make_box(
      {.counts = {counts[0], counts[1], counts[2]}, .deformation = "kershaw", .deformation_parameter = 0.6},
      mpi::Comm::self());
}

// A value that is not a number would equal the host's.
template <class T>
void expect_finite(const device::Array<T>& values, std::size_t first = 0) {
  const std::vector<T> all = values.download();
  EXPECT_TRUE(std::all_of(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(),
                          [](T value) { return std::isfinite(value); }));
}

// Launches, and returns what waits for the end: a launch runs, and its kernel is disassembled, when it is waited for,
// and nvdisasm starts once for all kernels that were loaded by then. Elements 1 … 5 of six: full and incomplete tiles.
template <class T>
std::function<void()> apply_poisson(int order, poisson::Threads threads, poisson::Geometry geometry, mesh::Shape shape,
                                    bool weighted = true) {
  const mesh::Mesh mesh = test::row_of(std::array{shape, shape, shape, shape, shape, shape});
  const auto device = device::open("cuda");
  const std::size_t points = 6u * static_cast<unsigned>((order + 1) * (order + 1) * (order + 1));
  std::vector<std::int32_t> index(points);
  std::iota(index.rbegin(), index.rend(), 0);
  std::vector<double> weights(weighted ? points : 0, 0.5);
  std::vector<T> x(points + 1);
  for (std::size_t p = 0; p < points; ++p) x[p] = static_cast<T>(std::sin(static_cast<double>(p)));
  poisson::Options options;
  options.order = order;
  options.lambda = 0.7;
  options.geometry = geometry;
  options.threads = threads;
  options.device = device;
  const auto local = std::make_shared<poisson::LocalOperator<T>>(mesh, options, index, weights);
  const auto in = std::make_shared<device::Array<T>>(device, x),
             out = std::make_shared<device::Array<T>>(device, points);
  const auto stream = std::make_shared<device::Stream>(device);
  local->apply(in->data(), out->data(), 1, 6, *stream);
  std::shared_ptr<device::Array<double>> products;
  if (threads != poisson::Threads::points) {
    products = std::make_shared<device::Array<double>>(device, local->product_partials());
    local->apply(in->data(), out->data(), products->data(), *stream);
  }
  return [local, in, out, products, stream, points] {  // keeps what the launches use
    stream->synchronize();
    expect_finite(*out, points / 6);
    if (products) expect_finite(*products);
  };
}

poisson::Options portable(int order) {
  poisson::Options options;
  options.order = order;
  options.kernels = poisson::Kernels::portable;
  options.exchange = "pairwise:staged";
  options.device = device::open("cuda");
  return options;
}

template <class T>
void transfer_and_smooth(int order) {
  const mesh::Mesh mesh = deformed({2, 1, 1});
  poisson::Operator<T> fine(mesh, portable(order)), coarse(mesh, portable(order / 2));
  device::Stream stream(device::open("cuda"));
  const auto vector = [&](std::int64_t entries) {
    std::vector<T> values(static_cast<std::size_t>(entries));
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<T>(std::cos(static_cast<double>(k)));
    return device::Array<T>(device::open("cuda"), values);
  };
  if (poisson::transfer_fits(order, sizeof(T))) {
    poisson::Transfer<T> transfer(fine, coarse);
    auto small = vector(coarse.entries()), large = vector(fine.entries());
    transfer.prolong(small.data(), large.data(), true, stream);
    transfer.restrict_to(large.data(), small.data(), stream);
    stream.synchronize();
    expect_finite(small);
    expect_finite(large);
  }
  poisson::Schwarz<T> schwarz(fine);
  auto r = vector(schwarz.entries()), y = vector(schwarz.entries());
  schwarz.apply(r.data(), y.data(), stream);
  stream.synchronize();
  expect_finite(y);
}

template <class T>
void step_maxwell(int order) {
  const mesh::Mesh mesh = mesh::make_box({.counts = {3, 1, 1}, .periodic = {true, false, true}}, mpi::Comm::self());
  test::trajectory<T>(mesh, test::maxwell_options(mesh, order, "cuda", order < 8), 1, 1e-3);
}

template <class T>
void take_flow_terms(int order, const char* deformation) {
  const mesh::Mesh mesh = flow::box({3, 1, 1}, {true, false, false}, deformation, mpi::Comm::self());
  const flow::Reference reference(mesh, order);
  flow::Tested<T> tested(mesh, order, space::Kernels::portable, space::Kernels::portable, device::open("cuda"));
  const std::vector<flow::Field> u{reference.random(1), reference.random(2), reference.random(3)},
      f{reference.random(4)};
  tested.convect(u);
  tested.convect_skew(u, f);
  tested.gradient(f[0]);
  tested.weak_divergence(u);
  tested.divergence(u);
  tested.curl(u);
}

}  // namespace

TEST_P(AllOrders, Poisson) {
  using poisson::Geometry, poisson::Threads;
  std::vector<std::function<void()>> waits;
  const auto add = [&](auto real, Threads threads, Geometry geometry, mesh::Shape shape, bool weighted = true) {
    waits.push_back(apply_poisson<decltype(real)>(order, threads, geometry, shape, weighted));
  };
  for (const Threads threads : {Threads::points, Threads::columns, Threads::matrices})
    for (const mesh::Shape shape : mesh::all_shapes) {
      if (threads == Threads::points && order > 9) continue;  // more threads than a block has
      if (threads == Threads::matrices) {
        if (poisson::matrices_fit(order, sizeof(double))) add(double{}, threads, Geometry::mixed, shape);
        continue;
      }
      const Geometry geometry = shape == mesh::Shape::curved ? Geometry::stored : Geometry::mixed;
      add(double{}, threads, geometry, shape);
      add(float{}, threads, geometry, shape);
      if (shape != mesh::Shape::curved) continue;
      add(double{}, threads, Geometry::mixed, shape, false);
      add(float{}, threads, Geometry::mixed, shape, false);
    }
  for (const auto& wait : waits) wait();
}
TEST_P(AllOrders, TransferAndSchwarz) {
  if (order < 2) GTEST_SKIP() << "order 1 is the coarsest";
  transfer_and_smooth<double>(order);
  transfer_and_smooth<float>(order);
}
TEST_P(AllOrders, Maxwell) {
  step_maxwell<double>(order);
  step_maxwell<float>(order);
}
TEST_P(AllOrders, FlowTerms) {
  for (const char* deformation : {"none", "smooth"}) {  // straight elements, and curved ones
    take_flow_terms<double>(order, deformation);
    take_flow_terms<float>(order, deformation);
  }
}
