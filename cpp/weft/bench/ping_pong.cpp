#include "weft/bench/ping_pong.hpp"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "weft/exchange/channel.hpp"

namespace weft::bench {
namespace {

class PingPong : public Timed {
 public:
  PingPong(const mpi::Comm& comm, const std::shared_ptr<device::Device>& device, Pairing pairing, std::size_t bytes)
      : Timed(comm), pairing_(pairing), bytes_(takes_part() ? bytes : 0), stream_(device) {}

 protected:
  // The memory that messages are sent from and received in.
  virtual std::byte* outgoing() = 0;
  virtual const std::byte* incoming() = 0;

  bool takes_part() const override { return pairing_.partner >= 0; }
  void wait_for_device() override { stream_.synchronize(); }
  std::string wrong() override {
    if (!takes_part()) return {};
    fill_message(outgoing(), bytes_, comm().rank(), pairing_.partner, Memory::device, stream_);
    once();
    return compare_message(incoming(), bytes_, pairing_.partner, comm().rank(), Memory::device, stream_);
  }

  Pairing pairing_;
  std::size_t bytes_;
  device::Stream stream_;
};

class Plain final : public PingPong {
 public:
  Plain(const mpi::Comm& comm, const std::shared_ptr<device::Device>& device, Pairing pairing, std::size_t bytes)
      : PingPong(comm, device, pairing, bytes), send_(device, bytes_), receive_(device, bytes_) {}

 private:
  std::byte* outgoing() override { return send_.data(); }
  const std::byte* incoming() override { return receive_.data(); }
  void once() override {
    if (pairing_.leads) send();
    mpi::check(MPI_Recv(receive_.data(), static_cast<int>(bytes_), MPI_BYTE, pairing_.partner, 0, comm().get(),
                        MPI_STATUS_IGNORE),
               "MPI_Recv");
    if (!pairing_.leads) send();
  }
  void send() {
    mpi::check(MPI_Send(send_.data(), static_cast<int>(bytes_), MPI_BYTE, pairing_.partner, 0, comm().get()),
               "MPI_Send");
  }

  device::Array<std::byte> send_, receive_;
};

class ByChannels final : public PingPong {
 public:
  ByChannels(const mpi::Comm& comm, const std::shared_ptr<device::Device>& device, Pairing pairing, std::size_t bytes,
             const exchange::Choice& choice)
      : PingPong(comm, device, pairing, bytes),
        there_(device, comm, choice, comm.fresh_tag(), part(pairing.leads), "the ping"),
        back_(device, comm, choice, comm.fresh_tag(), part(!pairing.leads), "the pong") {}

 private:
  std::vector<exchange::Part> part(bool sends) const {
    if (!takes_part()) return {};
    return {{pairing_.partner, 0, sends ? bytes_ : 0, 0, sends ? 0 : bytes_}};
  }
  std::byte* outgoing() override { return (pairing_.leads ? there_ : back_).send(stream_); }
  const std::byte* incoming() override { return (pairing_.leads ? back_ : there_).receive(); }
  void once() override {
    pass(there_);
    pass(back_);
  }
  // The second pass waits for the packing, and so for the data of the first.
  void pass(exchange::Channel& channel) {
    channel.send(stream_);  // a kernel would write here, so the wait for the buffer counts
    channel.start(stream_);
    channel.finish(stream_);
    channel.drained(stream_);
  }

  exchange::Channel there_, back_;
};

}  // namespace

std::unique_ptr<Timed> ping_pong(const mpi::Comm& comm, std::shared_ptr<device::Device> device, Pairing pairing,
                                 std::size_t bytes, const std::optional<exchange::Choice>& choice) {
  if (bytes < 1 || bytes > std::size_t{1} << 30) {
    throw std::invalid_argument("the size of a message must be 1 byte to 1 GiB, not " + std::to_string(bytes));
  }
  if (choice) return std::make_unique<ByChannels>(comm, device, pairing, bytes, *choice);
  std::unique_ptr<Timed> plain;
  comm.together([&] { plain = std::make_unique<Plain>(comm, device, pairing, bytes); });
  return plain;
}

}  // namespace weft::bench
