// The kernels of the exchange on machine code, on three ranks: the smallest number with which the crystal router
// forwards.
#include "../cpp/all_ids.hpp"
#include "on_machine_code.hpp"
#include "weft/exchange/gather_scatter.hpp"

using namespace weft;
using namespace weft::exchange;

namespace {

template <class T>
class ExchangeKernels : public machine_code::OnMachineCode<> {};
using Types = testing::Types<double, float, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(ExchangeKernels, Types);

}  // namespace

TYPED_TEST(ExchangeKernels, GatherAndScatterFieldsInBothLayouts) {
  using T = TypeParam;
  const mpi::Comm comm;
  const auto cuda = device::open("cuda");
  device::Stream stream(cuda);
  const Ids ids = random_ids(0, comm);
  for (const Layout layout : {Layout::points_major, Layout::fields_major})
    for (const Choice& choice : {Choice{Schedule::pairwise, Path::staged}, Choice{Schedule::crystal, Path::direct}}) {
      constexpr int fields = 3;
      GatherScatter<T> gs(ids, comm, cuda, choice, fields, layout);
      std::vector<T> values(ids.size() * fields);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i * 7 % 3) - T(1);  // bounded
      device::Array<T> points(cuda, values.size());
      device::Array<T> dofs(cuda, static_cast<std::size_t>(gs.assembly().local + 1) * fields);
      for (const Op op : {Op::add, Op::mul, Op::min, Op::max}) {
        points.upload(values);
        gs.gather_scatter(points.data(), op, stream);
        gs.gather(points.data(), dofs.data(), op, stream);
        gs.scatter(dofs.data(), points.data(), stream);
        stream.synchronize();
      }
    }
}
