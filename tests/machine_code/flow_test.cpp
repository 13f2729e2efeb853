// A flow in single precision on machine code, and in both precisions what the tests of the GPU backends leave out: a
// constant flow rate, averages, statistics.
#include "../cpp/flow_checks.hpp"
#include "on_machine_code.hpp"
#include "weft/flow/statistics.hpp"

using namespace weft;
using namespace weft::flow;

namespace {

template <class T>
class FlowKernels : public machine_code::OnMachineCode<> {};
using Types = testing::Types<double, float>;
TYPED_TEST_SUITE(FlowKernels, Types);

// Few iterations: the results are only compared, so they need not be accurate.
template <class T>
void loosen(Options<T>& options) {
  options.first_step_halvings = 0;
  options.pressure_tolerance = options.velocity_tolerance = options.scalar_tolerance = 1e-2;
}

}  // namespace

using SingleFlow = machine_code::OnMachineCode<>;
TEST_F(SingleFlow, StepsWithEveryBoundaryConditionAndAScalar) {
  const mesh::Mesh mesh = mesh::make_box({.counts = {2, 1, 1}, .upper = {1, 0.8, 0.6}}, mpi::Comm());
  auto options = test::flow_options<float>(device::open("cuda"));
  loosen(options);
  options.pressure.orders = {3};
  options.pressure.projection = 2;  // full after two steps
  for (const Convection convection : {Convection::over_integrated, Convection::skew_symmetric}) {
    options.convection = convection;
    test::flow_trajectory<float>(mesh, test::space_options(mesh, 3, "cuda", "pairwise:staged"), options, 4);
  }
}

TYPED_TEST(FlowKernels, AConstantFlowRateAveragesAndStatistics) {
  using T = TypeParam;
  const mesh::Mesh mesh = mesh::make_box({.counts = {2, 1, 1}, .periodic = {true, false, true}}, mpi::Comm());
  Options<T> options;
  loosen(options);
  options.viscosity = 0.1;
  options.boundaries = {{"y-", {Kind::wall}}, {"y+", {Kind::wall}}};
  options.scalars.push_back({.name = "heat", .diffusivity = 0.02});
  options.flow_rate = FlowRate{0.7, {1, 0, 0}};
  options.pressure.orders = {3};
  options.pressure.projection = 2;
  Solver<T> solver(mesh, test::space_options(mesh, 3, "cuda", "pairwise:staged"), options);
  solver.average(1);
  for (int step = 0; step < 3; ++step) solver.step(0.05);
  Statistics<T> statistics(solver.space());
  State<T>& state = solver.state();
  statistics.velocity(state.velocity(), solver.stream());
  statistics.courant_rate(state.velocity(), solver.stream());
  statistics.fields(state.velocity(), 3, solver.stream());
}
