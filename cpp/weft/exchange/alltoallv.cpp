#include "weft/exchange/alltoallv.hpp"

#include "weft/exchange/collective.hpp"

namespace weft::exchange {
namespace {

class Alltoallv final : public CollectiveTransfer {
 public:
  explicit Alltoallv(const Route& route)
      : CollectiveTransfer(route),
        comm_(route.comm),
        send_(route.send),
        receive_(route.receive),
        unit_(route),
        arguments_(static_cast<std::size_t>(comm_.size())) {
    comm_.together([&] {
      for (const Part& part : route.parts) arguments_.set(static_cast<std::size_t>(part.rank), part, unit_);
    });
#if WEFT_MPI_PERSISTENT_COLLECTIVES
    mpi::check(MPI_Alltoallv_init(send_, arguments_.send_counts.data(), arguments_.send_places.data(), unit_.type(),
                                  receive_, arguments_.receive_counts.data(), arguments_.receive_places.data(),
                                  unit_.type(), comm_.get(), MPI_INFO_NULL, &request_),
               "MPI_Alltoallv_init");
#endif
  }

 private:
  void begin() override {
#if WEFT_MPI_PERSISTENT_COLLECTIVES
    mpi::check(MPI_Start(&request_), "MPI_Start");
#else
    mpi::check(MPI_Ialltoallv(send_, arguments_.send_counts.data(), arguments_.send_places.data(), unit_.type(),
                              receive_, arguments_.receive_counts.data(), arguments_.receive_places.data(),
                              unit_.type(), comm_.get(), &request_),
               "MPI_Ialltoallv");
#endif
  }

  mpi::Comm comm_;
  const std::byte* send_;
  std::byte* receive_;
  Unit unit_;
  Arguments arguments_;
};

}  // namespace

std::unique_ptr<Transfer> make_alltoallv(Route route) { return std::make_unique<Alltoallv>(route); }

}  // namespace weft::exchange
