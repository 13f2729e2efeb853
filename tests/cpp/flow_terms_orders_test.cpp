// The host's SIMD kernels of the flow's terms at every order, since each order is compiled separately.
#include <gtest/gtest.h>

#include "flow_terms_checks.hpp"
#include "orders.hpp"

using namespace weft;
using namespace weft::flow;

namespace {

template <class T>
void every_order(const char* deformation) {
  for (const int order : test::all_orders())
    expect_terms<T>(box({3, 1, 1}, {}, deformation, mpi::Comm::self()), order, space::Kernels::simd);
}

}  // namespace

TEST(FlowTermsAtAllOrders, AreTheDefinitionOnTrilinearElementsInDouble) { every_order<double>("kershaw"); }
TEST(FlowTermsAtAllOrders, AreTheDefinitionOnTrilinearElementsInSingle) { every_order<float>("kershaw"); }
TEST(FlowTermsAtAllOrders, AreTheDefinitionOnCurvedElementsInDouble) { every_order<double>("smooth"); }
TEST(FlowTermsAtAllOrders, AreTheDefinitionOnAffineElementsInDouble) { every_order<double>("none"); }
