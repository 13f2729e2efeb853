#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "flow_terms_checks.hpp"
#include "shuffled_mesh.hpp"

using namespace weft;
using namespace weft::flow;
using poisson::Kernels;

namespace {

mesh::Mesh box(std::array<std::int64_t, 3> counts, std::array<bool, 3> periodic, const char* deformation) {
  mesh::BoxOptions options;
  options.counts = counts;
  options.periodic = periodic;
  options.deformation = deformation;
  return mesh::make_box(options, mpi::Comm());
}

template <class T>
constexpr double tolerance = sizeof(T) == 8 ? 2e-13 : 1e-4;

// Every term on values that look random, against the definitions.
template <class T>
void expect_terms(const mesh::Mesh& mesh, int order, Kernels kernels) {
  const Reference reference(mesh, order);
  Tested<T> tested(mesh, order, kernels, kernels);
  const std::vector<Field> u{reference.random(1), reference.random(2), reference.random(3)},
      scalars{reference.random(4), reference.random(5), reference.random(6), reference.random(7)};
  EXPECT_LT(difference(tested.gradient(scalars[0]), reference.gradient(scalars[0])), tolerance<T>) << order;
  EXPECT_LT(difference(tested.weak_divergence(u), reference.weak_divergence(u)), tolerance<T>) << order;
  EXPECT_LT(difference(tested.divergence(u), reference.divergence(u)), tolerance<T>) << order;
  EXPECT_LT(difference(tested.curl(u), reference.curl(u)), tolerance<T>) << order;
  EXPECT_LT(difference(tested.convect_skew(u), reference.convect_skew(u, u)), tolerance<T>) << order;
  EXPECT_LT(difference(tested.convect_skew(u, scalars), reference.convect_skew(u, scalars)), tolerance<T>) << order;
  EXPECT_LT(difference(tested.convect(u), reference.convect(u, u)), tolerance<T>) << order;
  EXPECT_LT(difference(tested.convect(u, scalars), reference.convect(u, scalars)), tolerance<T>) << order;
}

template <class T>
class FlowTerms : public testing::Test {};
using Types = testing::Types<double, float>;
TYPED_TEST_SUITE(FlowTerms, Types);

TYPED_TEST(FlowTerms, PortableOnTrilinearElementsIsTheDefinition) {
  for (const int order : {1, 2, 3, 6, 7})
    expect_terms<TypeParam>(box({4, 2, 2}, {}, "kershaw"), order, Kernels::portable);
}
TYPED_TEST(FlowTerms, PortableOnCurvedElementsIsTheDefinition) {
  for (const int order : {1, 2, 5, 8}) expect_terms<TypeParam>(box({4, 2, 2}, {}, "smooth"), order, Kernels::portable);
}
TYPED_TEST(FlowTerms, PortableOnAPeriodicBoxIsTheDefinition) {
  for (const int order : {2, 5})
    expect_terms<TypeParam>(box({4, 2, 1}, {true, true, true}, "none"), order, Kernels::portable);
}

}  // namespace
