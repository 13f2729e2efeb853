// Checks every message on all paths of a channel: what one rank packed must be what the other finds, whichever path it
// took. Ranks are real processes; WEFT_RANKS_PER_NODE divides them into nodes. With the driver made for tests, whose
// streams are lazy, a missing flag, event or wait gives wrong values.
#include "weft/exchange/ipc.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>

#include "find_fake_gpu.hpp"
#include "weft/device/shared.hpp"
#include "weft/exchange/channel.hpp"

using namespace weft;
using namespace weft::exchange;

namespace {

// Bytes that identify round, sender, receiver and position.
std::byte value(std::uint64_t round, int from, int to, std::size_t i) {
  std::uint64_t x = round * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(from * 64 + to) * 0xBF58476D1CE4E5B9u + i;
  x ^= x >> 29;
  return static_cast<std::byte>((x * 0x94D049BB133111EBu) >> 56);
}

using Size = std::size_t (*)(int from, int to);

std::vector<Part> parts_of(const mpi::Comm& comm, Size size) {
  std::vector<Part> parts;
  std::size_t sent = 0, received = 0;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::size_t to = size(comm.rank(), rank), from = size(rank, comm.rank());
    if (rank == comm.rank() || to + from == 0) continue;
    parts.push_back({rank, sent, to, received, from});
    sent += to;
    received += from;
  }
  return parts;
}

// A channel, and the data expected in its rounds.
class Checked {
 public:
  Checked(std::shared_ptr<device::Device> device, const mpi::Comm& comm, const Choice& choice, Size size)
      : device_(std::move(device)),
        comm_(comm),
        parts_(parts_of(comm, size)),
        channel_(std::make_unique<Channel>(device_, comm, choice, comm.fresh_tag(), parts_, "the test")) {}

  void start(device::Stream& stream) {
    ++round_;
    std::vector<std::byte>& values = sent_.emplace_back(channel_->send_bytes());
    for (const Part& part : parts_) {
      for (std::size_t i = 0; i < part.send_bytes; ++i)
        values[part.send_offset + i] = value(round_, comm_.rank(), part.rank, i);
    }
    channel_->check_idle();
    if (round_ % 2 == 0 || values.empty()) {  // like kernels
      if (!values.empty()) device_->copy(channel_->send(stream), values.data(), values.size(), to_kind(), stream);
      channel_->start(stream);
    } else {
      device::Array<std::byte>& from = arrays_.emplace_back(device_, values.size());
      device_->copy(from.data(), values.data(), values.size(), to_kind(), stream);
      channel_->start(from.data(), stream);
    }
  }
  // The data that arrived are copied to `arrived()`, but only complete after waiting for the stream.
  void finish(device::Stream& stream) {
    std::vector<std::byte>& values = arrived_.emplace_back(channel_->receive_bytes(), std::byte{0xEE});
    const auto kind = device_->is_host() ? device::CopyKind::device_to_device : device::CopyKind::device_to_host;
    if (round_ % 3 == 0) {
      channel_->finish(stream);
      if (!values.empty()) device_->copy(values.data(), channel_->receive(), values.size(), kind, stream);
      channel_->drained(stream);
    } else {
      device::Array<std::byte>& to = arrays_.emplace_back(device_, values.size());
      channel_->finish(to.data(), stream);
      if (!values.empty()) device_->copy(values.data(), to.data(), values.size(), kind, stream);
    }
  }
  // Call this after waiting for the streams: checks all rounds since the last call.
  void check() {
    std::uint64_t round = round_ - arrived_.size();
    for (const std::vector<std::byte>& values : arrived_) {
      ++round;
      for (const Part& part : parts_) {
        const std::byte* found = values.data() + part.receive_offset;
        std::size_t i = 0;
        while (i < part.receive_bytes && found[i] == value(round, part.rank, comm_.rank(), i)) ++i;
        ASSERT_EQ(i, part.receive_bytes) << "round " << round << ", from rank " << part.rank
                                         << ": the first wrong byte";
      }
    }
    arrived_.clear();
    sent_.clear();
    arrays_.clear();
  }
  void end() { channel_.reset(); }

 private:
  device::CopyKind to_kind() const {
    return device_->is_host() ? device::CopyKind::device_to_device : device::CopyKind::host_to_device;
  }

  std::shared_ptr<device::Device> device_;
  mpi::Comm comm_;
  std::vector<Part> parts_;
  std::unique_ptr<Channel> channel_;
  std::uint64_t round_ = 0;
  // Sources and targets of copies that may be executed later.
  std::vector<std::vector<std::byte>> sent_, arrived_;
  std::vector<device::Array<std::byte>> arrays_;
};

// All sizes from zero to megabytes, different in the two directions.
std::size_t any_size(int from, int to) {
  constexpr std::size_t sizes[] = {8, 0, 1, 7, 4096, 4097, 100, 65536, 3};
  if (from == 0 && to == 1) return (std::size_t{1} << 20) + 3;
  return sizes[static_cast<std::size_t>(from * 5 + to * 7) % std::size(sizes)];
}
std::size_t small_size(int from, int to) { return static_cast<std::size_t>(8 + (from + 2 * to) % 3 * 8); }
std::size_t one_way(int from, int to) { return from < to ? 40 : 0; }
std::size_t ring(int from, int to) { return to == from + 1 || from == to + 1 ? 1000 : 0; }

class Paths : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() != std::string("host") && device::find_fake_gpu(GetParam()) == nullptr)
      GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
    if (GetParam() == std::string("hip") && comm_.size() > 2)
      GTEST_SKIP() << "the code is that of cuda: two ranks show that hip's functions are found";
    device_ = device::open(GetParam());
    choices_.push_back({Schedule::pairwise, Path::ipc});
    choices_.push_back({Schedule::pairwise, Path::ipc, 64});
    // The driver made for tests uses host memory, which MPI accepts; this is not tested here.
    if (comm_.size() <= 3) choices_.push_back({Schedule::pairwise, Path::direct, 100});
  }
  bool host() const { return device_->is_host(); }
  // The same on all ranks, because a rank that is alone on its node takes part in the set-up of the others.
  // (collective)
  bool some_share_a_node() const { return comm_.max(static_cast<std::int64_t>(comm_.node().size())) > 1; }

  mpi::Comm comm_;
  std::shared_ptr<device::Device> device_;
  std::vector<Choice> choices_;
};

}  // namespace

TEST_P(Paths, MessagesOfAllSizesArriveAsTheyWereSent) {
  device::Stream stream(device_);
  for (const Choice& choice : choices_) {
    SCOPED_TRACE(name(choice));
    for (const Size size : {any_size, small_size, one_way, ring}) {
      Checked channel(device_, comm_, choice, size);
      for (int round = 0; round < 4; ++round) {
        channel.start(stream);
        channel.finish(stream);
      }
      stream.synchronize();
      channel.check();
    }
  }
}

TEST_P(Paths, ThousandsOfRoundsBackToBackNeverShowAnothersRound) {
  std::mt19937 random(static_cast<unsigned>(comm_.rank()));
  const int rounds = host() ? (comm_.size() <= 2 ? 3000 : comm_.size() <= 4 ? 1000 : 100) : 40;
  for (const Size size : {small_size, one_way, ring}) {
    device::Stream stream(device_);
    Checked channel(device_, comm_, choices_[0], size);
    for (int round = 0; round < rounds; ++round) {
      if (random() % 64 == 0) usleep(random() % 200);  // puts ranks out of step
      channel.start(stream);
      channel.finish(stream);
      if (round % 20 == 19) {
        stream.synchronize();
        channel.check();
      }
    }
  }
}

TEST_P(Paths, ChannelsInFlightTogetherDoNotMeet) {
  device::Stream stream(device_), second(device_);
  for (const Choice& choice : choices_) {
    SCOPED_TRACE(name(choice));
    std::vector<std::unique_ptr<Checked>> channels;
    for (const Size size : {any_size, one_way, small_size})
      channels.push_back(std::make_unique<Checked>(device_, comm_, choice, size));
    for (int round = 0; round < 4; ++round) {
      for (std::size_t c = 0; c < channels.size(); ++c) channels[c]->start(c % 2 == 0 ? stream : second);
      for (std::size_t c = channels.size(); c-- > 0;) channels[c]->finish(c % 2 == 0 ? stream : second);
    }
    stream.synchronize();
    second.synchronize();
    for (auto& channel : channels) channel->check();
  }
}

TEST_P(Paths, ARoundOnAnotherStreamWaitsForTheOneBefore) {
  for (const Choice& choice : choices_) {
    SCOPED_TRACE(name(choice));
    device::Stream one(device_), two(device_);
    Checked channel(device_, comm_, choice, small_size);
    for (int round = 0; round < 12; ++round) {
      device::Stream& stream = round % 4 < 2 ? one : two;
      channel.start(stream);
      channel.finish(stream);
      if (round % 5 == 4) stream.synchronize();
    }
    two.synchronize();  // not in the order of the work
    one.synchronize();
    channel.check();
  }
}

TEST_P(Paths, ValuesOnTheirWayArriveAlsoWhenTheChannelIsGone) {
  device::Stream stream(device_);
  for (const Size size : {any_size, one_way}) {
    Checked channel(device_, comm_, choices_[0], size);
    for (int round = 0; round < 2; ++round) {
      channel.start(stream);
      channel.finish(stream);
    }
    channel.end();
    stream.synchronize();
    channel.check();
  }
}

TEST_P(Paths, ARankThatGivesUpEndsTheOthersWait) {
  const std::vector<int>& node = comm_.node();
  if (!some_share_a_node()) GTEST_SKIP() << "needs two ranks on a node";
  const int culprit = node.front();
  device::Stream stream(device_);
  const auto parts = parts_of(comm_, [](int, int) -> std::size_t { return 16; });
  std::vector<Part> near;
  for (const Part& part : parts) {
    if (std::binary_search(node.begin(), node.end(), part.rank)) near.push_back(part);
  }
  std::optional<Ipc> ipc;
  ipc.emplace(device_, comm_, comm_.fresh_tag(), near, std::size_t{16} * static_cast<std::size_t>(comm_.size()));
  device::Array<std::byte> to(device_, std::size_t{16} * static_cast<std::size_t>(comm_.size()));
  if (comm_.rank() == culprit) {
    ipc.reset();
  } else {
    ipc->start(stream);
    try {
      ipc->finish(to.data(), stream);
      ADD_FAILURE() << "what should it have found?";
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find("rank " + std::to_string(culprit) + ", which has abandoned"),
                std::string::npos)
          << error.what();
    }
  }
  comm_.barrier();
}

TEST_P(Paths, RanksThatDisagreeOnLengthsAreToldSoAndTheNextExchangeWorks) {
  if (!some_share_a_node()) GTEST_SKIP() << "needs two ranks on a node";
  device::Stream stream(device_);
  auto parts = parts_of(comm_, [](int, int) -> std::size_t { return 16; });
  if (comm_.rank() == comm_.node().front()) {
    for (Part& part : parts) part.send_bytes = 8;
  }
  EXPECT_THROW(Channel(device_, comm_, choices_[0], comm_.fresh_tag(), parts, "the test"), mpi::CollectiveError);
  Checked channel(device_, comm_, choices_[0], ring);
  channel.start(stream);
  channel.finish(stream);
  stream.synchronize();
  channel.check();
}

TEST_P(Paths, ARankThatCannotMakeItsMemoryStopsTheSetUpOfAll) {
  FakeGpu* gpu = host() ? nullptr : device::find_fake_gpu(GetParam());
  if (gpu == nullptr || !some_share_a_node()) GTEST_SKIP() << "needs the driver made for tests and two ranks";
  for (const char* function : {"cuMemAlloc_v2", "cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2", "cuIpcGetEventHandle",
                               "cuIpcOpenEventHandle", "cuEventCreate"}) {
    const auto parts = parts_of(comm_, small_size);
    if (comm_.rank() == comm_.node().back()) gpu->fail = function;
    EXPECT_THROW(Ipc(device_, comm_, comm_.fresh_tag(), parts, 4096), mpi::CollectiveError) << function;
    comm_.barrier();
    Checked(device_, comm_, choices_[0], ring);
    comm_.barrier();
    Checked(device_, comm_, choices_[0], ring);  // checks what remains
  }
}

TEST_P(Paths, WhatIsMadeOverAndOverIsReleased) {
  FakeGpu* gpu = host() ? nullptr : device::find_fake_gpu(GetParam());
  device::Stream stream(device_);
  const auto use = [&] {
    Checked channel(device_, comm_, choices_[0], ring);
    channel.start(stream);
    channel.finish(stream);
    stream.synchronize();
    channel.check();
  };
  const auto open_files = [] {
    int count = 0;
    for (int file = 0; file < 1024; ++file)
      count += access(("/proc/self/fd/" + std::to_string(file)).c_str(), F_OK) == 0;
    return count;
  };
  for (int i = 0; i < 2; ++i) use();
  comm_.barrier();
  const int files = open_files(), live = gpu == nullptr ? 0 : gpu->live;
  for (int i = 0; i < 10; ++i) use();
  comm_.barrier();
  EXPECT_LE(open_files(), files);
  if (gpu != nullptr) {
    EXPECT_LE(gpu->live, live + 3 * 6);  // the last ones may still be open in another process
  }
}

TEST_P(Paths, MemoryOfThisProcessIsNotOpenedByItsHandleAndTextsOfErrorsSayWhat) {
  if (host()) GTEST_SKIP() << "of GPUs";
  device::SharedMemory memory = device::SharedMemory::allocate(device_, 100);
  EXPECT_THROW(device::SharedMemory::open(device_, memory.handle()), std::runtime_error);
  device::SharedHandle handle;
  const device::Event event = device::Event::shared(device_, handle);
  EXPECT_THROW(device::Event::opened(device_, handle), std::runtime_error);
}

INSTANTIATE_TEST_SUITE_P(Devices, Paths, testing::Values("host", "cuda", "hip"));

TEST(Node, IsWhatSharesMemoryOrWhatTheVariablePretends) {
  const mpi::Comm comm;
  const std::vector<int>& node = comm.node();
  EXPECT_TRUE(std::is_sorted(node.begin(), node.end()));
  EXPECT_TRUE(std::binary_search(node.begin(), node.end(), comm.rank()));
  const char* pretended = std::getenv("WEFT_RANKS_PER_NODE");
  const int most = pretended == nullptr ? comm.size() : std::atoi(pretended);
  EXPECT_LE(static_cast<int>(node.size()), most);
  EXPECT_EQ(node.front() % most, 0);
}

TEST(Choice, IpcIsACandidateWhereRanksShareANodeAndRefusedWithTheReasonWhereNot) {
  const mpi::Comm comm;
  const auto host = device::open("host");
  const bool shared = comm.max(static_cast<std::int64_t>(comm.node().size())) > 1;
  bool found = false;
  for (const Choice& choice : candidates("auto", *host, comm)) {
    EXPECT_FALSE(choice.reason.empty());
    EXPECT_NE(choice.path, Path::staged);
    found = found || choice.path == Path::ipc;
  }
  EXPECT_EQ(found, shared);
  for (const PathState& state : path_states(*host, comm)) {
    EXPECT_FALSE(state.reason.empty());
    EXPECT_EQ(state.usable, state.path != Path::ipc || shared);
  }
  if (shared) {
    EXPECT_EQ(name(choose("pairwise:ipc:2048", *host, comm)), "pairwise:ipc:2048");
    EXPECT_EQ(name(candidates("auto:ipc", *host, comm).front()), "pairwise:ipc");
  } else {
    for (const auto& ask :
         {+[](const std::shared_ptr<device::Device>& d, const mpi::Comm& c) { choose("auto:ipc", *d, c); },
          +[](const std::shared_ptr<device::Device>& d, const mpi::Comm& c) { candidates("pairwise:ipc", *d, c); }}) {
      try {
        ask(host, comm);
        FAIL() << "ipc must be refused";
      } catch (const mpi::CollectiveError& error) {
        EXPECT_NE(std::string(error.what()).find("no two ranks share a node"), std::string::npos) << error.what();
      }
    }
  }
}

TEST(Choice, SizesOfSmallMessagesAreReadAndBadOnesNamed) {
  const mpi::Comm comm;
  const auto host = device::open("host");
  const Choice choice = choose("pairwise:direct:512", *host, comm);
  EXPECT_EQ(choice.small_bytes, 512U);
  EXPECT_EQ(name(choice), "pairwise:direct:512");
  EXPECT_EQ(name(choose("pairwise:direct:0", *host, comm)), "pairwise:direct");
  for (const std::string text : {"pairwise:direct:", "pairwise:direct:-1", "pairwise:direct:1k", "pairwise:staged:8",
                                 "pairwise:auto:8", "pairwise:ipc:8:8", "pairwise:direct:99999999999999999999999"}) {
    try {
      choose(text, *host, comm);
      ADD_FAILURE() << text;
    } catch (const mpi::CollectiveError& error) {
      EXPECT_NE(std::string(error.what()).find("'" + text + "'"), std::string::npos) << error.what();
    }
  }
}
