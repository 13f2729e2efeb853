// p-multigrid: transfers between orders, Chebyshev smoothing, the V-cycle, and the flexible Krylov methods that use it.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "coarse_solver.hpp"
#include "fiber_device.hpp"
#include "noise.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/poisson/multigrid_solver.hpp"
#include "weft/poisson/transfer.hpp"
#include "weft/solver/krylov.hpp"

using namespace weft;

namespace {

mesh::Mesh box(const std::string& deformation = "smooth", std::array<std::int64_t, 3> counts = {4, 3, 3}) {
  return mesh::make_box({.counts = counts, .deformation = deformation}, mpi::Comm());
}

poisson::Options options_for(int order, const std::string& device = "host", bool dirichlet = true) {
  poisson::Options options;
  options.order = order;
  options.lambda = 0;
  if (dirichlet) options.dirichlet = mesh::BoundarySet::all();
  options.exchange = {exchange::Schedule::pairwise, exchange::Path::direct};
  options.device = device::open(device);
  return options;
}

std::vector<double> noise_of(const poisson::Operator<double>& op, int seed) {
  std::vector<double> values;
  for (const std::int64_t id : op.unknown_ids()) values.push_back(noise(id, seed));
  values.resize(op.entries());
  return values;
}

double product(const poisson::Operator<double>& op, const std::vector<double>& x, const std::vector<double>& y) {
  double sum = std::inner_product(x.begin(), x.begin() + op.unknowns(), y.begin(), 0.0);
  op.comm().sum(&sum, 1);
  return sum;
}

std::vector<double> prolonged(poisson::Operator<double>& fine, poisson::Operator<double>& coarse,
                              const std::vector<double>& x) {
  poisson::Transfer<double> transfer(fine, coarse);
  const auto& device = fine.options().device;
  device::Array<double> x_c(device, x), x_f(device, std::vector<double>(fine.entries(), 1e30));
  device::Stream stream(device);
  transfer.prolong(x_c.data(), x_f.data(), false, stream);
  stream.synchronize();
  return x_f.download();
}

std::vector<double> restricted(poisson::Operator<double>& fine, poisson::Operator<double>& coarse,
                               const std::vector<double>& r) {
  poisson::Transfer<double> transfer(fine, coarse);
  const auto& device = fine.options().device;
  device::Array<double> r_f(device, r), r_c(device, std::vector<double>(coarse.entries(), 1e30));
  device::Stream stream(device);
  transfer.restrict_to(r_f.data(), r_c.data(), stream);
  stream.synchronize();
  return r_c.download();
}

solver::SolveResult solved(poisson::Operator<double>& op, const mesh::Mesh& mesh, std::vector<int> orders, int degree,
                           bool single, poisson::Method method, std::vector<double>* solution = nullptr) {
  poisson::MultigridSolver<double> multigrid(op, mesh, {std::move(orders), degree}, single, method, 8);
  if (const poisson::Triplets matrix = multigrid.coarse_matrix(); multigrid.coarse_unknowns() != op.unknowns())
    multigrid.set_coarse(exact_coarse_solver(matrix, op.comm(), multigrid.coarse_unknowns()));
  const auto& device = op.options().device;
  device::Array<double> b(device, noise_of(op, 3)), x(device, op.entries());
  device::Stream stream(device);
  const solver::SolveResult result =
      multigrid.solve(b.data(), x.data(), true, {.max_iterations = 100, .tolerance = 1e-9}, stream);
  if (solution != nullptr) *solution = x.download();
  return result;
}

TEST(Transfer, restriction_is_the_transpose_of_prolongation) {
  const mesh::Mesh mesh = box();
  for (const auto& [order, below] : {std::pair{7, 3}, {5, 2}, {4, 3}, {2, 1}}) {
    poisson::Operator<double> fine(mesh, options_for(order)), coarse(mesh, options_for(below));
    const std::vector<double> x = noise_of(coarse, 1), r = noise_of(fine, 2);
    const double left = product(fine, prolonged(fine, coarse, x), r);
    const double right = product(coarse, x, restricted(fine, coarse, r));
    EXPECT_NEAR(left, right, 1e-11 * (std::abs(left) + 1)) << order << " to " << below;
  }
}

TEST(Transfer, prolongation_keeps_polynomials_of_the_coarse_order) {
  const mesh::Mesh mesh = box("none");
  const auto cubic = [](const double* p) { return p[0] * p[0] * p[1] - 2 * p[1] * p[2] * p[2] + p[0] + 1; };
  poisson::Operator<double> fine(mesh, options_for(6, "host", false)), coarse(mesh, options_for(3, "host", false));
  const std::vector<double> from = coarse.coordinates(), to = fine.coordinates();
  std::vector<double> x(coarse.entries());
  for (std::int64_t i = 0; i < coarse.unknowns(); ++i) x[i] = cubic(&from[3 * i]);
  const std::vector<double> y = prolonged(fine, coarse, x);
  for (std::int64_t i = 0; i < fine.unknowns(); ++i) ASSERT_NEAR(y[i], cubic(&to[3 * i]), 1e-12);
}

TEST(Transfer, the_gpu_branch_agrees_and_needs_each_of_its_barriers) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "one rank shows it";
  const mesh::Mesh mesh = box("smooth", {2, 1, 1});
  const auto both = [&](const std::string& device) {
    poisson::Operator<double> fine(mesh, options_for(4, device)), coarse(mesh, options_for(3, device));
    std::vector<double> all = prolonged(fine, coarse, noise_of(coarse, 1));
    const std::vector<double> down = restricted(fine, coarse, noise_of(fine, 2));
    all.resize(fine.unknowns());
    all.insert(all.end(), down.begin(), down.begin() + coarse.unknowns());
    return all;
  };
  fiber::take_barriers_met();
  const std::vector<double> host = both("host"), gpu = both("fiber");
  ASSERT_EQ(host.size(), gpu.size());
  for (std::size_t i = 0; i < host.size(); ++i) ASSERT_NEAR(host[i], gpu[i], 1e-13);
  std::vector<fiber::Barrier> mine;
  for (const fiber::Barrier& barrier : fiber::take_barriers_met())
    if (barrier.file.find("transfer") != std::string::npos) mine.push_back(barrier);
  EXPECT_EQ(mine.size(), 6u);
  for (const fiber::Barrier& barrier : mine) {
    const fiber::WithoutBarrier without(barrier);
    const std::vector<double> wrong = both("fiber");
    bool differs = false;
    for (std::size_t i = 0; i < host.size(); ++i) differs |= !(std::abs(wrong[i] - host[i]) < 1e-6);
    EXPECT_TRUE(differs) << "the barrier in line " << barrier.line << " is not needed, or not tested";
  }
}

TEST(Chebyshev, refuses_degrees_it_has_no_weights_for) {
  const mesh::Mesh mesh = box();
  poisson::Operator<double> op(mesh, options_for(3));
  EXPECT_THROW(solved(op, mesh, {3, 1}, 5, false, poisson::Method::cg), std::invalid_argument);
  EXPECT_THROW(solved(op, mesh, {3, 2}, 2, false, poisson::Method::cg), std::invalid_argument);
  EXPECT_THROW(solved(op, mesh, {1, 3}, 2, false, poisson::Method::cg), std::invalid_argument);
}

TEST(Multigrid, converges_at_a_rate_that_mesh_and_order_hardly_change) {
  for (const auto& [counts, order] :
       {std::pair{std::array<std::int64_t, 3>{2, 2, 2}, 5}, {{4, 4, 4}, 5}, {{4, 3, 3}, 8}}) {
    const mesh::Mesh mesh = box("smooth", counts);
    poisson::Operator<double> op(mesh, options_for(order));
    const auto result = solved(op, mesh, {order, 3, 1}, 3, false, poisson::Method::cg);
    EXPECT_TRUE(result.converged);
    EXPECT_LE(result.iterations, 14) << order;
  }
}

TEST(Multigrid, single_precision_cycles_reach_the_same_solution_in_as_many_iterations) {
  const mesh::Mesh mesh = box();
  poisson::Options options = options_for(5);
  for (const auto kernels : {poisson::Kernels::portable, poisson::Kernels::simd}) {
    options.kernels = kernels;
    poisson::Operator<double> op(mesh, options);
    std::vector<double> x, y, z;
    const auto wide = solved(op, mesh, {5, 2, 1}, 2, false, poisson::Method::cg, &x);
    const auto narrow = solved(op, mesh, {5, 2, 1}, 2, true, poisson::Method::cg, &y);
    const auto gmres = solved(op, mesh, {5, 2, 1}, 2, true, poisson::Method::gmres, &z);
    EXPECT_TRUE(wide.converged && narrow.converged && gmres.converged);
    EXPECT_LE(std::abs(wide.iterations - narrow.iterations), 1);
    const double size = std::sqrt(product(op, x, x));
    for (const auto* other : {&y, &z}) {
      std::vector<double> difference(x);
      for (std::size_t i = 0; i < x.size(); ++i) difference[i] -= (*other)[i];
      EXPECT_LE(std::sqrt(product(op, difference, difference)), 1e-7 * size);
    }
  }
}

TEST(Multigrid, one_order_alone_is_chebyshev_on_the_diagonal) {
  const mesh::Mesh mesh = box();
  poisson::Operator<double> op(mesh, options_for(4));
  const auto short_cycle = solved(op, mesh, {4, 2, 1}, 3, false, poisson::Method::cg);
  poisson::MultigridSolver<double> chebyshev(op, mesh, {{4}, 3}, false, poisson::Method::cg, 8);
  device::Array<double> b(op.options().device, noise_of(op, 3)), x(op.options().device, op.entries());
  device::Stream stream(op.options().device);
  const auto alone = chebyshev.solve(b.data(), x.data(), true, {.max_iterations = 200, .tolerance = 1e-9}, stream);
  EXPECT_TRUE(alone.converged);
  EXPECT_GT(alone.iterations, short_cycle.iterations);
}

TEST(Gmres, restarts_and_solves_what_is_not_symmetric) {
  const auto device = device::open("host");
  const mpi::Comm comm;
  constexpr std::int64_t n = 40;  // per rank: each has its own upwind chain
  solver::PreconditionedSystem<double> system;
  system.entries = system.unknowns = n;
  system.apply = [](double* x, double* y, device::Stream&) {
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = 2.5 * x[i] - (i > 0 ? 1.4 * x[i - 1] : 0) - (i + 1 < n ? 0.3 * x[i + 1] : 0);
  };
  system.precondition = [](double* r, double* z, device::Stream&) {
    for (std::int64_t i = 0; i < n; ++i) z[i] = r[i] / 2.5;
  };
  solver::Gmres<double> gmres(system, device, comm, 6);
  std::vector<double> exact(n), right(n);
  for (std::int64_t i = 0; i < n; ++i) exact[i] = noise(i + 1, comm.rank());
  device::Stream stream(device);
  system.apply(exact.data(), right.data(), stream);
  device::Array<double> b(device, right), x(device, n);
  const auto result = gmres.solve(b.data(), x.data(), true, {.max_iterations = 200, .tolerance = 1e-12}, stream);
  EXPECT_TRUE(result.converged);
  EXPECT_GT(result.iterations, 6);  // so there were restarts
  for (std::int64_t i = 0; i < n; ++i) EXPECT_NEAR(x.data()[i], exact[i], 1e-10);
  const std::vector<double> bad(n, std::nan(""));
  device::Array<double> nan(device, bad);
  EXPECT_THROW(gmres.solve(nan.data(), x.data(), true, {.max_iterations = 5, .tolerance = 0.1}, stream),
               mpi::CollectiveError);
}

TEST(Amg, hierarchies_that_do_not_fit_are_refused) {
  solver::AmgLevel level;
  level.a = {2, 2, {0, 1, 2}, {0, 1}, {1.0, 1.0}};
  EXPECT_NO_THROW(solver::Amg({level}, {1, 0, 0, 1}, false));
  EXPECT_THROW(solver::Amg({level}, {1, 0, 0}, false), std::invalid_argument);
  EXPECT_THROW(solver::Amg({level, level}, {1, 0, 0, 1}, false), std::invalid_argument);  // no interpolation
  level.a.values[1] = 0;
  EXPECT_THROW(solver::Amg({level}, {1, 0, 0, 1}, false), std::invalid_argument);
  level.a.indices[1] = 2;
  EXPECT_THROW(solver::Amg({level}, {1, 0, 0, 1}, false), std::invalid_argument);
}

}  // namespace
