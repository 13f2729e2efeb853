// Kernels of the flow's boundaries and filter, which exist once per order, on machine code: as all_orders_test.cpp.
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "on_machine_code.hpp"
#include "weft/flow/boundary.hpp"
#include "weft/flow/filter.hpp"
#include "weft/mesh/mesh.hpp"

using namespace weft;

namespace {

class AllOrders : public machine_code::OnMachineCode<testing::TestWithParam<int>> {
 protected:
  void SetUp() override {
    if (std::getenv("WEFT_ALL_ORDERS") == nullptr && std::set{1, 7, 15}.count(order) == 0)
      GTEST_SKIP() << "set WEFT_ALL_ORDERS=1";
    OnMachineCode::SetUp();
  }
  const int order = GetParam();
};
INSTANTIATE_TEST_SUITE_P(MachineCode, AllOrders, testing::Range(1, 16));

// Vorticity at walls, and the filter.
template <class T>
void treat_boundaries_and_filter(int order, const char* deformation) {
  const mesh::Mesh mesh = mesh::make_box(
      {.counts = {3, 1, 1}, .periodic = {true, false, false}, .deformation = deformation}, mpi::Comm::self());
  space::Options options;
  options.order = order;
  options.exchange = exchange::Choice{};
  options.device = device::open("cuda");
  space::Space<T> space(mesh, options);
  std::map<std::string, flow::Condition<T>> walls;
  for (const char* side : {"y-", "y+", "z-", "z+"}) walls[side] = {flow::Kind::wall};
  flow::Boundaries<T> boundaries(space, walls);
  device::Stream stream(options.device);
  std::vector<T> values(3 * static_cast<std::size_t>(space.entries()));
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<T>(std::sin(static_cast<double>(k)));
  device::Array<T> u(options.device, values), out(options.device, values);
  boundaries.add_wall_vorticity(T(0.1), u.data(), out.data(), stream);
  std::optional<flow::Filter<T>> filter;
  if (order > 1) filter.emplace(space, flow::FilterOptions{0.3, 1});
  if (filter) filter->apply(3, nullptr, u.data(), out.data(), stream);
  stream.synchronize();
  for (const device::Array<T>* array : {&u, &out})
    for (const T value : array->download()) ASSERT_TRUE(std::isfinite(value));  // others would equal the host's, too
}

}  // namespace

TEST_P(AllOrders, FlowBoundaries) {
  for (const char* deformation : {"none", "smooth"}) {  // straight elements, and curved ones
    treat_boundaries_and_filter<double>(order, deformation);
    treat_boundaries_and_filter<float>(order, deformation);
  }
}
