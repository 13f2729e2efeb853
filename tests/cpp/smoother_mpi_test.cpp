// The smoothers of multigrid levels: overlapping Schwarz by fast diagonalisation, Chebyshev polynomials, their kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "fiber_device.hpp"
#include "noise.hpp"
#include "weft/element/fast_diagonalisation.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/poisson/schwarz.hpp"
#include "weft/poisson/smoother.hpp"

using namespace weft;
using poisson::Kernels;
using poisson::Smoothing;

namespace {

mesh::Mesh box(const std::string& deformation, std::array<std::int64_t, 3> counts, const mpi::Comm& comm = {},
               std::array<bool, 3> periodic = {}) {
  return mesh::make_box({.counts = counts, .periodic = periodic, .deformation = deformation}, comm);
}

poisson::Options options_for(int order, Kernels kernels, bool dirichlet = true, const std::string& device = "host") {
  poisson::Options options;
  options.order = order;
  options.lambda = 0;
  if (dirichlet) options.dirichlet = mesh::BoundarySet::all();
  options.kernels = kernels;
  options.exchange = {exchange::Schedule::pairwise, exchange::Path::direct};
  options.device = device::open(device);
  return options;
}

template <class T>
std::vector<T> noise_of(const poisson::Operator<T>& op, std::int64_t size, int seed = 0) {
  std::vector<T> values;
  for (const std::int64_t id : op.unknown_ids()) values.push_back(static_cast<T>(noise(id + 1000003 * seed)));
  values.resize(size);
  return values;
}

template <class T>
std::map<std::int64_t, double> by_id(const poisson::Operator<T>& op, const std::vector<T>& x) {
  std::map<std::int64_t, double> values;
  const std::vector<std::int64_t> ids = op.unknown_ids();
  for (std::size_t i = 0; i < ids.size(); ++i) values[ids[i]] = x[i];
  return values;
}

// M r of the Schwarz method.
template <class T>
std::vector<T> solved(poisson::Operator<T>& op, const std::vector<T>& values) {
  poisson::Schwarz<T> schwarz(op);
  const auto& device = op.options().device;
  std::vector<T> right = values;
  right.resize(schwarz.entries());
  device::Array<T> r(device, right), y(device, schwarz.entries());
  device::Stream stream(device);
  schwarz.apply(r.data(), y.data(), stream);
  stream.synchronize();
  std::vector<T> result = y.download();
  device::Array<T> weights(device, op.unknowns());
  device->copy(weights.data(), schwarz.weights(), op.unknowns() * sizeof(T), device::CopyKind::device_to_device,
               stream);
  stream.synchronize();
  const std::vector<T> w = weights.download();
  for (std::int64_t i = 0; i < op.unknowns(); ++i) result[i] *= w[i];
  result.resize(op.unknowns());
  return result;
}

template <class T>
std::vector<T> applied(poisson::Operator<T>& op, std::vector<T> x) {
  x.resize(op.entries());
  device::Array<T> in(op.options().device, x), out(op.options().device, op.entries());
  device::Stream stream(op.options().device);
  op.apply(in.data(), out.data(), stream);
  stream.synchronize();
  return out.download();
}

void expect_near(const std::map<std::int64_t, double>& found, const std::map<std::int64_t, double>& all, double scale) {
  for (const auto& [id, value] : found) ASSERT_NEAR(value, all.at(id), scale) << id;
}

TEST(FastDiagonalisation, vectors_are_orthonormal_in_the_mass_and_ends_are_what_was_said) {
  using element::End;
  const auto one = element::fast_diagonalisation(6, {2.0, End::dirichlet, End::neighbor, 0, 1.5});
  const int m = 9;
  for (int a = 0; a < m; ++a) {
    EXPECT_EQ(one.vectors[a], 0);      // beyond a boundary
    EXPECT_EQ(one.vectors[m + a], 0);  // the boundary
    EXPECT_EQ(one.vectors[a * m], 0);
    EXPECT_EQ(one.vectors[a * m + 1], 0);
    EXPECT_GT(one.values[a], 0);
  }
  const auto free = element::fast_diagonalisation(4, {1.0, End::natural, End::natural});
  EXPECT_EQ(std::ranges::count(free.values, 0.0), 1);  // the constants
  EXPECT_THROW(element::fast_diagonalisation(4, {0.0, End::natural, End::natural}), std::invalid_argument);
}

TEST(FastDiagonalisation, eigenvalues_fall_with_the_square_of_the_length_whatever_the_unit) {
  using element::End;
  const auto of = [](double unit) {
    return element::fast_diagonalisation(5, {2 * unit, End::neighbor, End::natural, 3 * unit});
  };
  const auto one = of(1);
  for (const double unit : {1e-30, 1e-9, 1e5, 1e9, 1e30}) {
    const auto other = of(unit);
    for (int i = 0; i < 6; ++i) {  // nothing is beyond the natural end
      ASSERT_NEAR(other.values[i] * unit * unit / one.values[i], 1, 1e-9) << unit;
      for (int k = 0; k < 7; ++k)
        ASSERT_NEAR(std::abs(other.vectors[k * 7 + i]) * std::sqrt(unit), std::abs(one.vectors[k * 7 + i]), 1e-9);
    }
  }
}

TEST(Schwarz, is_the_inverse_on_one_element) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "one element is one rank's";
  const mesh::Mesh mesh = mesh::make_box({.counts = {1, 1, 1}, .upper = {1, 2, 0.5}}, mpi::Comm());
  for (const Kernels kernels : {Kernels::portable, Kernels::simd}) {
    poisson::Operator<double> op(mesh, options_for(7, kernels));
    const std::vector<double> x = noise_of(op, op.entries());
    const std::vector<double> found = solved(op, applied(op, x));
    for (std::int64_t i = 0; i < op.unknowns(); ++i) ASSERT_NEAR(found[i], x[i], 1e-11);
  }
}

// Subdomains without edges to go beyond are solved exactly, so a solution inside the first element is recovered.
TEST(Schwarz, solves_a_subdomain_of_elements_of_several_lengths) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "the next test compares ranks";
  mesh::Mesh mesh = box("none", {3, 1, 1});
  std::vector<double>& nodes = mesh.nodes.change();
  for (std::size_t i = 0; i < nodes.size(); i += 3) nodes[i] *= 1 + nodes[i];
  for (const Kernels kernels : {Kernels::portable, Kernels::simd}) {
    poisson::Operator<double> op(mesh, options_for(5, kernels));
    const std::vector<double> place = op.coordinates();
    // For the middle element and one layer beyond its faces.
    const double left = (1.0 / 3) * (4.0 / 3), right = (2.0 / 3) * (5.0 / 3);
    std::vector<double> layers;
    for (std::int64_t i = 0; i < op.unknowns(); ++i) layers.push_back(place[3 * i]);
    std::ranges::sort(layers);
    const double below = *std::prev(std::ranges::lower_bound(layers, left - 1e-9));
    const double above = *std::ranges::upper_bound(layers, right + 1e-9);
    std::vector<double> x = noise_of(op, op.entries());
    for (std::int64_t i = 0; i < op.unknowns(); ++i)
      if (place[3 * i] < below - 1e-9 || place[3 * i] > above + 1e-9) x[i] = 0;
    const std::vector<double> found = solved(op, applied(op, x));
    for (std::int64_t i = 0; i < op.unknowns(); ++i) {
      if (place[3 * i] > left + 1e-9 && place[3 * i] < right - 1e-9) {
        ASSERT_NEAR(found[i], x[i], 1e-11);
      }
    }
  }
}

TEST(Schwarz, is_the_same_on_any_ranks_and_kernels) {
  for (const auto& [deformation, periodic] :
       {std::pair{"smooth", std::array{false, false, false}}, {"kershaw", {false, true, false}}}) {
    const std::array<std::int64_t, 3> counts{4, 3, 4};
    for (const int order : {2, 5}) {
      poisson::Operator<double> alone(box(deformation, counts, mpi::Comm::self(), periodic),
                                      options_for(order, Kernels::portable));
      const auto all = by_id(alone, solved(alone, noise_of(alone, alone.entries())));
      double size = 0;
      for (const auto& [id, value] : all) size = std::max(size, std::abs(value));
      const mesh::Mesh mesh = box(deformation, counts, mpi::Comm(), periodic);
      for (const Kernels kernels : {Kernels::portable, Kernels::simd}) {
        poisson::Operator<double> op(mesh, options_for(order, kernels));
        expect_near(by_id(op, solved(op, noise_of(op, op.entries()))), all, 1e-12 * size);
        poisson::Operator<float> single(mesh, options_for(order, kernels));
        expect_near(by_id(single, solved(single, noise_of(single, single.entries()))), all, 1e-4 * size);
      }
    }
  }
}

TEST(Schwarz, the_gpu_branch_agrees_and_needs_each_of_its_barriers) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "one rank shows it";
  const mesh::Mesh mesh = box("smooth", {2, 1, 1});
  const auto found = [&](const std::string& device) {
    poisson::Operator<double> op(mesh, options_for(4, Kernels::portable, true, device));
    return solved(op, noise_of(op, op.entries()));
  };
  const std::vector<double> host = found("host");
  fiber::take_barriers_met();
  const std::vector<double> gpu = found("fiber");
  for (std::size_t i = 0; i < host.size(); ++i) ASSERT_NEAR(host[i], gpu[i], 1e-12);
  std::vector<fiber::Barrier> mine;
  for (const fiber::Barrier& barrier : fiber::take_barriers_met())
    if (barrier.file.find("schwarz") != std::string::npos) mine.push_back(barrier);
  EXPECT_EQ(mine.size(), 5u);
  for (const fiber::Barrier& barrier : mine) {
    const fiber::WithoutBarrier without(barrier);
    const std::vector<double> wrong = found("fiber");
    bool differs = false;
    for (std::size_t i = 0; i < host.size(); ++i) differs |= !(std::abs(wrong[i] - host[i]) < 1e-6);
    EXPECT_TRUE(differs) << "the barrier in line " << barrier.line << " is not needed, or not tested";
  }
}

struct Smoothed {
  std::vector<double> x, residual, better;
};

Smoothed smoothed(poisson::Operator<double>& op, Smoothing smoothing, int degree, const std::vector<double>& right) {
  const auto smoother = poisson::make_smoother(op, smoothing, degree);
  const auto& device = op.options().device;
  std::vector<double> stale(op.entries(), 1e30);
  stale.back() = 0;
  device::Array<double> b(device, right), x(device, stale), work(device, op.entries());
  device::Stream stream(device);
  smoother->start(b.data(), x.data(), work.data(), true, stream);
  stream.synchronize();
  Smoothed result{x.download(), work.download(), {}};
  smoother->improve(b.data(), x.data(), work.data(), stream);
  stream.synchronize();
  result.better = x.download();
  return result;
}

double product(const poisson::Operator<double>& op, const std::vector<double>& x, const std::vector<double>& y) {
  double sum = std::inner_product(x.begin(), x.begin() + op.unknowns(), y.begin(), 0.0);
  op.comm().sum(&sum, 1);
  return sum;
}

TEST(Smoother, merged_steps_are_those_of_the_kernels_one_by_one) {
  const mesh::Mesh mesh = box("smooth", {4, 3, 3});
  for (const int degree : {1, 2, 3, 4}) {
    for (const double lambda : {0.0, 0.2}) {
      poisson::Options options = options_for(4, Kernels::portable);
      options.lambda = lambda;
      poisson::Operator<double> portable(mesh, options);
      options.kernels = Kernels::simd;
      poisson::Operator<double> simd(mesh, options);
      const Smoothed one =
          smoothed(portable, Smoothing::chebyshev_jacobi, degree, noise_of(portable, portable.entries()));
      const Smoothed other = smoothed(simd, Smoothing::chebyshev_jacobi, degree, noise_of(simd, simd.entries()));
      for (const auto part : {&Smoothed::x, &Smoothed::residual, &Smoothed::better}) {
        const auto expected = by_id(portable, one.*part);
        double size = 0;
        for (const auto& [id, value] : expected) size = std::max(size, std::abs(value));
        expect_near(by_id(simd, other.*part), expected, 1e-10 * size);
      }
    }
  }
}

TEST(Smoother, leaves_the_residual_it_says) {
  const mesh::Mesh mesh = box("smooth", {4, 3, 3});
  for (const Kernels kernels : {Kernels::portable, Kernels::simd}) {
    for (const Smoothing smoothing : {Smoothing::chebyshev_jacobi, Smoothing::schwarz, Smoothing::chebyshev_schwarz}) {
      for (const int degree : {1, 2, 3}) {
        poisson::Operator<double> op(mesh, options_for(5, kernels));
        const std::vector<double> b = noise_of(op, op.entries());
        const Smoothed found = smoothed(op, smoothing, degree, b);
        const std::vector<double> ax = applied(op, found.x), better = applied(op, found.better);
        double size = 0, smaller = 0;
        for (std::int64_t i = 0; i < op.unknowns(); ++i) {
          ASSERT_NEAR(found.residual[i], b[i] - ax[i], 1e-10) << poisson::name(smoothing) << degree;
          size += b[i] * b[i];
          smaller += (b[i] - better[i]) * (b[i] - better[i]);
        }
        op.comm().sum(&size, 1);
        op.comm().sum(&smaller, 1);
        EXPECT_LT(smaller, size) << poisson::name(smoothing) << degree;
      }
    }
  }
}

// With the diagonal, the smoother is symmetric, and so is a cycle. The restricted Schwarz method is not symmetric, and
// needs flexible Krylov methods.
TEST(Smoother, chebyshev_jacobi_is_symmetric_and_restricted_schwarz_is_not) {
  const mesh::Mesh mesh = box("smooth", {3, 3, 3});
  poisson::Operator<double> op(mesh, options_for(4, Kernels::simd));
  const std::vector<double> a = noise_of(op, op.entries(), 1), b = noise_of(op, op.entries(), 2);
  const auto asymmetry = [&](Smoothing smoothing) {
    const std::vector<double> x = smoothed(op, smoothing, 2, a).x, y = smoothed(op, smoothing, 2, b).x;
    return std::abs(product(op, x, b) - product(op, y, a)) / std::sqrt(product(op, x, x) * product(op, b, b));
  };
  EXPECT_LT(asymmetry(Smoothing::chebyshev_jacobi), 1e-12);
  EXPECT_GT(asymmetry(Smoothing::schwarz), 1e-6);
}

TEST(Smoother, is_refused_for_degrees_there_are_no_weights_for) {
  poisson::Operator<double> op(box("none", {2, 2, 2}), options_for(3, Kernels::simd));
  EXPECT_THROW(poisson::make_smoother(op, Smoothing::chebyshev_jacobi, 0), std::invalid_argument);
  EXPECT_THROW(poisson::make_smoother(op, Smoothing::schwarz, 5), std::invalid_argument);
}

TEST(Smoother, is_chosen_by_whether_elements_are_boxes) {
  EXPECT_EQ(poisson::chosen(Smoothing::automatic, box("none", {4, 3, 3})), Smoothing::schwarz);
  EXPECT_EQ(poisson::chosen(Smoothing::automatic, box("smooth", {4, 3, 3})), Smoothing::chebyshev_schwarz);
  EXPECT_EQ(poisson::chosen(Smoothing::automatic, box("kershaw", {6, 6, 6})), Smoothing::chebyshev_schwarz);
  EXPECT_EQ(poisson::chosen(Smoothing::chebyshev_jacobi, box("none", {4, 3, 3})), Smoothing::chebyshev_jacobi);
}

}  // namespace
