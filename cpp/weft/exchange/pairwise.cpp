#include "weft/exchange/pairwise.hpp"

#include "weft/exchange/messages.hpp"

namespace weft::exchange {
namespace {

class Pairwise final : public Transfer {
 public:
  explicit Pairwise(const Route& route) : sends_(route.comm, route.tag), receives_(route.comm, route.tag) {
    for (const Part& part : route.parts) {
      receives_.add_receive(route.receive + part.receive_offset, part.receive_bytes, part.rank);
      sends_.add_send(route.send + part.send_offset, part.send_bytes, part.rank);
    }
  }

  void post() override { receives_.start(); }
  void start() override { sends_.start(); }
  void finish() override {
    receives_.wait();
    sends_.wait();
  }

 private:
  Messages sends_, receives_;
};

}  // namespace

std::unique_ptr<Transfer> make_pairwise(Route route) {
  std::unique_ptr<Transfer> transfer;
  route.comm.together([&] { transfer = std::make_unique<Pairwise>(route); });
  return transfer;
}

}  // namespace weft::exchange
