// Conjugate gradients and multigrid on machine code. On several ranks CG launches different kernels.
#include <cmath>

#include "../cpp/coarse_solver.hpp"
#include "on_machine_code.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/poisson/multigrid_solver.hpp"
#include "weft/solver/cg.hpp"
#include "weft/solver/chebyshev.hpp"

using namespace weft;

namespace {

template <class T>
class Solvers : public machine_code::OnMachineCode<> {};
using Types = testing::Types<double, float>;
TYPED_TEST_SUITE(Solvers, Types);

mesh::Mesh box() { return mesh::make_box({.counts = {3, 2, 1}, .deformation = "smooth"}, mpi::Comm()); }

poisson::Options options(double lambda) {
  poisson::Options options;
  options.order = 3;
  options.lambda = lambda;
  options.exchange = "pairwise:staged";
  options.device = device::open("cuda");
  return options;
}

template <class T>
device::Array<T> vector(const poisson::Operator<T>& op) {
  std::vector<T> values(static_cast<std::size_t>(op.entries()));
  const std::vector<std::int64_t> ids = op.unknown_ids();
  for (std::size_t i = 0; i < ids.size(); ++i) values[i] = static_cast<T>(std::sin(static_cast<double>(ids[i])));
  return device::Array<T>(op.options().device, values);
}

// The residuals.
template <class T>
std::vector<double> solve(poisson::Operator<T>& op, const T* inverse_diagonal, bool with_product,
                          bool with_summands = false) {
  solver::System<T> system = op.system();
  if (!with_product) {
    system.apply_product = nullptr;
    system.product_partials = 0;
  }
  if (!with_summands) system.summand_partials = 0;
  system.few_partials = 1;
  system.inverse_diagonal = inverse_diagonal;
  device::Stream stream(op.options().device);
  auto b = vector(op);
  std::vector<std::vector<double>> residuals;
  for (const std::int64_t small_unknowns : {system.small_unknowns, std::int64_t{0}}) {
    system.small_unknowns = small_unknowns;
    solver::ConjugateGradients<T> cg(system, op.options().device, op.comm());
    auto x = vector(op);
    for (const bool zero_guess : {true, false})
      residuals.push_back(
          cg.solve(b.data(), x.data(), zero_guess, {.max_iterations = 3, .tolerance = 0}, stream).residuals);
  }
  for (std::size_t solve = 0; solve < 2; ++solve)
    for (std::size_t i = 0; i < residuals[solve].size(); ++i)
      EXPECT_NEAR(residuals[solve][i], residuals[solve + 2][i], 1e-5 * residuals[solve][0]);
  return residuals[0];
}

}  // namespace

TYPED_TEST(Solvers, ConjugateGradients) {
  using T = TypeParam;
  poisson::Operator<T> op(box(), options(0.1));
  const device::Array<T> inverse = op.inverse_diagonal();
  poisson::Operator<T> without_lambda(box(), options(0));
  const auto compare = [](poisson::Operator<T>& of, const T* inverse_diagonal) {
    const auto stored = solve<T>(of, inverse_diagonal, true), gathered = solve<T>(of, inverse_diagonal, true, true);
    const double rounding = sizeof(T) == 8 ? 1e-13 : 1e-5;
    for (std::size_t i = 0; i < stored.size(); ++i) EXPECT_NEAR(gathered[i], stored[i], rounding * stored[0]);
  };
  compare(op, nullptr);
  compare(op, inverse.data());
  compare(without_lambda, nullptr);
  poisson::Options recomputed = options(0.1);  // whose lambda is left to the gather
  recomputed.geometry = poisson::Geometry::mixed;
  poisson::Operator<T> straight(mesh::make_box({.counts = {3, 2, 1}}, mpi::Comm()), recomputed);
  compare(straight, nullptr);
  solve<T>(op, inverse.data(), false);
}

TYPED_TEST(Solvers, ScreeningAddsItsMassToTheOperator) {
  using T = TypeParam;
  poisson::Operator<T> op(box(), options(0.1));
  device::Stream stream(op.options().device);
  auto x = vector(op), without = vector(op), with = vector(op);
  op.apply(x.data(), without.data(), stream);
  std::vector<T> mass(static_cast<std::size_t>(op.space().points()));
  for (std::size_t i = 0; i < mass.size(); ++i) mass[i] = T(1) + static_cast<T>(i % 7);
  op.set_screening(mass);
  op.apply(x.data(), with.data(), stream);
  stream.synchronize();
  const std::vector<T> total = op.sum_points(mass), values = x.download(), ax = without.download(),
                       screened = with.download();
  for (std::size_t i = 0; i < total.size(); ++i)
    EXPECT_NEAR(screened[i], ax[i] + total[i] * values[i], 1e-4 * (std::abs(ax[i]) + total[i]));
}

TYPED_TEST(Solvers, ChebyshevWithoutAPreconditioner) {
  using T = TypeParam;
  poisson::Operator<T> op(box(), options(0.1));
  solver::ChebyshevSetup<T> setup;
  setup.apply = [&](T* x, T* y, device::Stream& s) { op.apply(x, y, s); };
  setup.entries = op.entries();
  setup.unknowns = op.unknowns();
  setup.start = poisson::rough_values(op);
  setup.degree = 2;
  solver::Chebyshev<T> chebyshev(std::move(setup), op.options().device, op.comm());
  device::Stream stream(op.options().device);
  auto b = vector(op), x = vector(op);
  for (const bool zero_guess : {true, false}) chebyshev.smooth(b.data(), x.data(), zero_guess, stream);
  stream.synchronize();
}

// Without a boundary condition, so that constants have to be removed.
TYPED_TEST(Solvers, MultigridInKrylovMethods) {
  using T = TypeParam;
  using poisson::Method, poisson::Smoothing;
  const mesh::Mesh mesh = box();
  poisson::Operator<T> op(mesh, options(0));
  device::Stream stream(op.options().device);
  auto x = vector(op), b = vector(op);
  op.apply(x.data(), b.data(), stream);
  for (const auto& [method, smoothing, single] : {std::tuple{Method::cg, Smoothing::chebyshev_schwarz, true},
                                                  {Method::gmres, Smoothing::chebyshev_jacobi, false}}) {
    poisson::MultigridSolver<T> multigrid(op, mesh, {{3, 1}, 2, smoothing}, single, method, 4);
    multigrid.set_coarse(exact_coarse_solver(multigrid.coarse_matrix(), op.comm(), multigrid.coarse_unknowns(), true));
    multigrid.solve(b.data(), x.data(), false, {.max_iterations = 2, .tolerance = 0}, stream);
    stream.synchronize();
  }
}
