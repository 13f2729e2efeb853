#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "flow_terms_checks.hpp"
#include "shuffled_mesh.hpp"

using namespace weft;
using namespace weft::flow;
using space::Kernels;

namespace {

template <class T>
class FlowTerms : public testing::Test {};
using Types = testing::Types<double, float>;
TYPED_TEST_SUITE(FlowTerms, Types);

TYPED_TEST(FlowTerms, PortableOnTrilinearElementsIsTheDefinition) {
  for (const int order : {2, 5}) expect_terms<TypeParam>(box({4, 2, 2}, {}, "kershaw"), order, Kernels::portable);
}
TYPED_TEST(FlowTerms, PortableOnCurvedElementsIsTheDefinition) {
  for (const int order : {1, 4}) expect_terms<TypeParam>(box({4, 2, 2}, {}, "smooth"), order, Kernels::portable);
}
TYPED_TEST(FlowTerms, PortableOnAPeriodicBoxIsTheDefinition) {
  for (const int order : {3})
    expect_terms<TypeParam>(box({4, 2, 1}, {true, true, true}, "none"), order, Kernels::portable);
}

TYPED_TEST(FlowTerms, SimdOnTrilinearElementsIsTheDefinition) {
  for (const int order : {2, 5}) expect_terms<TypeParam>(box({5, 3, 2}, {}, "kershaw"), order, Kernels::simd);
}
TYPED_TEST(FlowTerms, SimdOnCurvedElementsIsTheDefinition) {
  for (const int order : {1, 4}) expect_terms<TypeParam>(box({5, 3, 2}, {}, "smooth"), order, Kernels::simd);
}
TYPED_TEST(FlowTerms, SimdOnAPeriodicBoxIsTheDefinition) {
  for (const int order : {3, 6})
    expect_terms<TypeParam>(box({4, 3, 1}, {true, true, true}, "none"), order, Kernels::simd);
}

}  // namespace

// Elements that meet with different orientations: lanes of a block that share points, and rotated frames.
TEST(FlowTermsSimd, TurnedElementsAreTheDefinition) {
  for (const bool curved : {false, true}) expect_terms<double>(test::shuffled_mesh(curved), 4, Kernels::simd);
}

TEST(FlowTermsSimd, ThreadsAddEveryContributionOnce) {
  omp_set_num_threads(3);
  expect_terms<double>(box({6, 5, 4}, {true, false, false}, "none"), 3, Kernels::simd);
  omp_set_num_threads(1);
}

TEST(FlowTermsSimd, PortableKernelsRunOnItsNumbering) {
  const mesh::Mesh mesh = box({5, 2, 2}, {}, "kershaw");
  const Reference reference(mesh, 3);
  Tested<double> tested(mesh, 3, Kernels::simd, Kernels::portable);
  const std::vector<Field> u{reference.random(1), reference.random(2), reference.random(3)};
  EXPECT_LT(difference(tested.convect(u), reference.convect(u, u)), 1e-13);
}

namespace {

double dot(const std::vector<Field>& a, const std::vector<Field>& b) {
  double sum = 0;
  for (std::size_t f = 0; f < a.size(); ++f)
    for (std::size_t id = 1; id < a[f].size(); ++id) sum += a[f][id] * b[f][id];
  return sum;
}
double size(const std::vector<Field>& a) { return std::sqrt(dot(a, a)); }

class FlowTermsProperties : public testing::TestWithParam<Kernels> {
 protected:
  Tested<double> tested(const mesh::Mesh& mesh, int order) { return {mesh, order, GetParam(), GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Both, FlowTermsProperties, testing::Values(Kernels::portable, Kernels::simd),
                         [](const auto& info) { return space::name(info.param); });

TEST_P(FlowTermsProperties, DerivativesOfPolynomialsAreExactOnTrilinearElements) {
  const int order = 5;
  const mesh::Mesh mesh = box({3, 3, 2}, {}, "kershaw");
  const Reference reference(mesh, order);
  Tested<double> terms = tested(mesh, order);
  const Field x = reference.of([](double x, double, double) { return x; });
  const Field mass = terms.gradient(x)[0];
  const auto weak = [&](const Function& f) {
    Field values = reference.of(f);
    for (std::size_t id = 1; id < values.size(); ++id) values[id] *= mass[id];
    return values;
  };
  double volume = 0;
  for (std::size_t id = 1; id < mass.size(); ++id) volume += mass[id];
  EXPECT_NEAR(volume, 1, 1e-12);

  const Field p = reference.of([](double x, double y, double z) { return x * x * y * z + std::pow(z, 5) - 2 * y; });
  EXPECT_LT(difference(terms.gradient(p),
                       {weak([](double x, double y, double z) { return 2 * x * y * z; }),
                        weak([](double x, double, double z) { return x * x * z - 2; }),
                        weak([](double x, double y, double z) { return x * x * y + 5 * std::pow(z, 4); })}),
            1e-12);
  const std::vector<Field> u{reference.of([](double x, double y, double z) { return x * x * x + y * z; }),
                             reference.of([](double x, double y, double z) { return x * y * y * z; }),
                             reference.of([](double x, double y, double z) { return std::pow(x, 4) * z - y; })};
  EXPECT_LT(difference(terms.divergence(u),
                       {weak([](double x, double y, double z) { return 3 * x * x + 2 * x * y * z + std::pow(x, 4); })}),
            1e-12);
  EXPECT_LT(difference(terms.curl(u), {weak([](double x, double y, double) { return -1 - x * y * y; }),
                                       weak([](double x, double y, double z) { return y - 4 * x * x * x * z; }),
                                       weak([](double, double y, double z) { return y * y * z - z; })}),
            1e-12);
}

// The integral of v (u . grad) f with factors of degree N: products of three such factors are covered by the dealiasing
// rule.
TEST_P(FlowTermsProperties, OverIntegrationIsExactForThreePolynomials) {
  for (const int order : {1, 2, 4, 7}) {
    for (const char* deformation : {"none", "kershaw"}) {
      const mesh::Mesh mesh = box({3, 2, 2}, {}, deformation);
      const Reference reference(mesh, order);
      Tested<double> terms = tested(mesh, order);
      const auto power = [&](int direction) {
        return reference.of([=](double x, double y, double z) {
          return std::pow(direction == 0 ? x : direction == 1 ? y : z, order);
        });
      };
      const Field zero(reference.ids_end(), 0.0);
      // z^N d/dx x^N times y^N or x^N, over the unit cube.
      const std::vector<Field> result = terms.convect({power(2), zero, zero}, {power(0)});
      const double n = order;
      EXPECT_NEAR(dot(result, {power(1)}), 1 / ((n + 1) * (n + 1)), 1e-13) << order << " " << deformation;
      EXPECT_NEAR(dot(result, {power(0)}), 0.5 / (n + 1), 1e-13) << order << " " << deformation;
      // x^N d/dx x^N times x^N: degree 3 N - 1 in one direction.
      EXPECT_NEAR(dot(terms.convect({power(0), zero, zero}, {power(0)}), {power(0)}), 1.0 / 3, 1e-13)
          << order << " " << deformation;
    }
  }
}

TEST_P(FlowTermsProperties, GradientAndWeakDivergenceAreTransposes) {
  for (const char* deformation : {"kershaw", "smooth"}) {
    const mesh::Mesh mesh = box({3, 2, 2}, {}, deformation);
    const Reference reference(mesh, 6);
    Tested<double> terms = tested(mesh, 6);
    const std::vector<Field> f{reference.random(1), reference.random(2), reference.random(3)}, p{reference.random(4)},
        gradient = terms.gradient(p[0]);
    EXPECT_NEAR(dot(f, gradient), dot(p, terms.weak_divergence(f)), 1e-13 * size(f) * size(gradient)) << deformation;
  }
}

TEST_P(FlowTermsProperties, WeakAndStrongDivergenceAreOppositeInAPeriodicBox) {
  const mesh::Mesh mesh = box({4, 3, 3}, {true, true, true}, "none");
  const Reference reference(mesh, 5);
  Tested<double> terms = tested(mesh, 5);
  const std::vector<Field> u{reference.random(1), reference.random(2), reference.random(3)};
  std::vector<Field> weak = terms.weak_divergence(u);
  for (double& value : weak[0]) value = -value;
  EXPECT_LT(difference(terms.divergence(u), weak), 1e-12);
}

TEST_P(FlowTermsProperties, TheSkewSymmetricFormKeepsEnergyInAPeriodicBox) {
  for (const char* deformation : {"none", "smooth"}) {
    const mesh::Mesh mesh = box({3, 3, 3}, {true, true, true}, deformation);
    const Reference reference(mesh, 5);
    Tested<double> terms = tested(mesh, 5);
    const std::vector<Field> u{reference.random(1), reference.random(2), reference.random(3)}, f{reference.random(4)};
    const std::vector<Field> own = terms.convect_skew(u), other = terms.convect_skew(u, f);
    EXPECT_LT(std::abs(dot(u, own)), 1e-13 * size(u) * size(own)) << deformation;
    EXPECT_LT(std::abs(dot(f, other)), 1e-13 * size(f) * size(other)) << deformation;
    // The other form has no such property.
    const std::vector<Field> plain = terms.convect(u, f);
    EXPECT_GT(std::abs(dot(f, plain)), 1e-6 * size(f) * size(plain)) << deformation;
  }
}

TEST(FlowTermsErrors, SimdKernelsNeedASpaceWithBlocks) {
  const mesh::Mesh mesh = box({4, 2, 2}, {}, "none");
  space::Options options;
  options.order = 2;
  options.device = device::open("host");
  space::Space<double> portable(mesh, options);
  EXPECT_THROW((Terms<double>{portable, Kernels::simd}), std::invalid_argument);
}

}  // namespace
