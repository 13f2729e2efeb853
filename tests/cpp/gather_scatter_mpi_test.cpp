// Gather-scatter, gather, scatter and halo against a serial reference that has all ids and values.
#include "weft/exchange/gather_scatter.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <numeric>

#include "all_ids.hpp"
#include "choices.hpp"

using namespace weft::exchange;
using weft::mpi::Comm;
namespace device = weft::device;

namespace {

template <class T>
T combined(Op op, T a, T b) {
  switch (op) {
    case Op::add:
      return a + b;
    case Op::mul:
      return a * b;
    case Op::min:
      return std::min(a, b);
    case Op::max:
      return std::max(a, b);
  }
  return a;
}

// Small integers, so that sums and minima are exact in every type. Factors are -1, 1 and an occasional 2.
template <class T>
std::vector<T> random_values(std::size_t count, Op op, unsigned seed, const Comm& comm) {
  std::mt19937_64 random(seed * 77 + static_cast<unsigned>(comm.rank()));
  std::vector<T> values(count);
  for (auto& v : values) {
    const auto r = static_cast<int>(random() % 41);
    v = static_cast<T>(op == Op::mul ? (r == 0 ? 2 : r % 2 == 0 ? 1 : -1) : r - 20);
  }
  return values;
}

// [entry][field] as [field][entry].
template <class T>
std::vector<T> transposed(const std::vector<T>& values, std::size_t fields) {
  std::vector<T> result;
  for (std::size_t f = 0; f < fields; ++f) {
    for (std::size_t i = f; i < values.size(); i += fields) result.push_back(values[i]);
  }
  return result;
}

constexpr Op ops[] = {Op::add, Op::mul, Op::min, Op::max};

template <class T>
std::vector<T> run_gather_scatter(GatherScatter<T>& gs, const std::shared_ptr<device::Device>& host, Op op,
                                  const std::vector<T>& values) {
  device::Array<T> points(host, std::span<const T>(values));
  device::Stream stream(host);
  gs.gather_scatter(points.data(), op, stream);
  stream.synchronize();
  return points.download();
}

}  // namespace

template <class T>
class GatherScatterOf : public testing::Test {};
using Types = testing::Types<double, float, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(GatherScatterOf, Types);

TYPED_TEST(GatherScatterOf, RandomIdsEveryOperationAndChoiceAgreeWithTheSerialReference) {
  using T = TypeParam;
  const Comm comm;
  const auto host = device::open("host");
  for (const unsigned seed : seeds(comm)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Ids ids = random_ids(seed, comm);
    const auto all = of_all_ranks(ids, comm);
    const int fields = seed % 3 == 1 ? 6 : 1;
    const auto width = static_cast<std::size_t>(fields);
    const auto connectivity = std::make_shared<const Connectivity>(ids, comm);
    std::vector<GatherScatter<T>> all_ways, fields_major;
    for (const Choice& choice : choices_in_turn(comm, seed + sizeof(T) + std::is_integral_v<T>)) {
      all_ways.emplace_back(connectivity, host, choice, fields);
      if (fields > 1) fields_major.emplace_back(connectivity, host, choice, fields, Layout::fields_major);
    }
    GatherScatter<T> single(connectivity, host, Choice{});
    for (const Op op : ops) {
      const auto values = random_values<T>(ids.size() * width, op, seed, comm);
      const auto all_values = of_all_ranks(values, comm);
      std::map<std::pair<std::int64_t, std::size_t>, T> expected;
      for (std::size_t r = 0; r < all.size(); ++r) {
        for (std::size_t p = 0; p < all[r].size(); ++p) {
          for (std::size_t f = 0; f < width; ++f) {
            const T value = all_values[r][p * width + f];
            const auto [entry, fresh] = expected.try_emplace({all[r][p], f}, value);
            if (!fresh) entry->second = combined(op, entry->second, value);
          }
        }
      }
      const auto result = run_gather_scatter(all_ways.front(), host, op, values);
      for (std::size_t p = 0; p < ids.size(); ++p) {
        for (std::size_t f = 0; f < width; ++f) {
          const std::size_t i = p * width + f;
          EXPECT_EQ(result[i], ids[p] > 0 ? (expected[{ids[p], f}]) : values[i]) << "point " << p << " field " << f;
        }
      }
      for (auto& gs : all_ways) EXPECT_EQ(result, run_gather_scatter(gs, host, op, values)) << name(gs.tuning().chosen);
      if (fields == 1) continue;
      // Fields one after the other in one array, and in separate arrays.
      for (auto& gs : fields_major) {
        EXPECT_EQ(transposed(result, width), run_gather_scatter(gs, host, op, transposed(values, width)))
            << name(gs.tuning().chosen);
      }
      const auto apart = transposed(values, width);
      std::vector<T> one_by_one;
      for (std::size_t f = 0; f < width; ++f) {
        const auto begin = apart.begin() + static_cast<std::ptrdiff_t>(f * ids.size());
        const auto field =
            run_gather_scatter(single, host, op, {begin, begin + static_cast<std::ptrdiff_t>(ids.size())});
        one_by_one.insert(one_by_one.end(), field.begin(), field.end());
      }
      EXPECT_EQ(transposed(result, width), one_by_one);
    }
  }
}

TYPED_TEST(GatherScatterOf, GatherThenScatterEqualsGatherScatterAndOwnersAreComplete) {
  using T = TypeParam;
  const Comm comm;
  const auto host = device::open("host");
  device::Stream stream(host);
  for (const unsigned seed : seeds(comm)) {
    const Ids ids = random_ids(seed, comm);
    const auto connectivity = std::make_shared<const Connectivity>(ids, comm);
    for (const Choice& choice : choices_in_turn(comm, seed + sizeof(T) + std::is_integral_v<T>)) {
      SCOPED_TRACE(name(choice));
      const int fields = seed % 2 == 0 ? 1 : 3;
      GatherScatter<T> gs(connectivity, host, choice, fields),
          apart(connectivity, host, choice, fields, Layout::fields_major);
      const auto width = static_cast<std::size_t>(fields);
      const auto& a = gs.assembly();
      for (const Op op : ops) {
        const auto values = random_values<T>(ids.size() * width, op, seed, comm);
        device::Array<T> points(host, std::span<const T>(values)),
            dofs(host, static_cast<std::size_t>(a.local + 1) * width);
        gs.gather(points.data(), dofs.data(), op, stream);
        EXPECT_EQ(dofs.data()[a.local * fields], T{0});
        gs.scatter(dofs.data(), points.data(), stream);
        stream.synchronize();
        const auto values_apart = transposed(values, width);
        device::Array<T> points_apart(host, std::span<const T>(values_apart)), dofs_apart(host, dofs.size());
        apart.gather(points_apart.data(), dofs_apart.data(), op, stream);
        apart.scatter(dofs_apart.data(), points_apart.data(), stream);
        stream.synchronize();
        EXPECT_EQ(transposed(dofs.download(), width), dofs_apart.download());
        EXPECT_EQ(transposed(points.download(), width), points_apart.download());
        const auto whole = run_gather_scatter(gs, host, op, values);
        for (std::size_t p = 0; p < ids.size(); ++p) {
          for (std::size_t f = 0; f < width; ++f) {
            EXPECT_EQ(points.data()[p * width + f], ids[p] > 0 ? whole[p * width + f] : T{0});
          }
        }
      }
    }
  }
}

namespace {

// Values whose sums depend on the order of the terms.
std::vector<double> rough_values(std::size_t count, unsigned seed, const Comm& comm) {
  std::mt19937_64 random(seed + 31 * static_cast<unsigned>(comm.rank()));
  std::uniform_real_distribution<double> exponent(-30, 30), sign(-1, 1);
  std::vector<double> values(count);
  for (auto& v : values) v = sign(random) * std::exp2(exponent(random));
  return values;
}

}  // namespace

TEST(GatherScatter, RerunsAllChoicesAndAllRanksGiveTheSameBits) {
  const Comm comm;
  const auto host = device::open("host");
  for (const unsigned seed : seeds(comm)) {
    const Ids ids = random_ids(seed, comm);
    const auto values = rough_values(ids.size(), seed, comm);
    std::vector<double> first;
    const auto connectivity = std::make_shared<const Connectivity>(ids, comm);
    for (const Choice& choice : choices_in_turn(comm, seed)) {
      for (int rerun = 0; rerun < 2; ++rerun) {
        GatherScatter<double> gs(connectivity, host, choice);
        auto result = run_gather_scatter(gs, host, Op::add, values);
        if (first.empty()) first = result;
        ASSERT_EQ(std::memcmp(result.data(), first.data(), result.size() * sizeof(double)), 0);
      }
    }
    std::map<std::int64_t, double> seen;
    const auto all = of_all_ranks(ids, comm);
    const auto results = of_all_ranks(first, comm);
    for (std::size_t r = 0; r < all.size(); ++r) {
      for (std::size_t p = 0; p < all[r].size(); ++p) {
        if (all[r][p] <= 0) continue;
        EXPECT_EQ(seen.try_emplace(all[r][p], results[r][p]).first->second, results[r][p]);
      }
    }
  }
}

TEST(GatherScatter, GatherIsTheTransposeOfScatter) {
  const Comm comm;
  const auto choices = all_choices();
  const auto host = device::open("host");
  device::Stream stream(host);
  for (const unsigned seed : seeds(comm)) {
    const Ids ids = random_ids(seed, comm);
    GatherScatter<double> gs(ids, comm, host, choices[seed % choices.size()]);
    const auto& a = gs.assembly();
    const auto size = static_cast<std::size_t>(a.local + 1);
    auto x = random_values<double>(size, Op::add, seed, comm);  // DOFs; the halo's content must not matter
    const auto y = random_values<double>(ids.size(), Op::add, seed + 1, comm);  // points
    device::Array<double> dofs(host, std::span<const double>(x)), zx(host, ids.size()), zty(host, size);
    device::Array<double> points(host, std::span<const double>(y));
    gs.scatter(dofs.data(), zx.data(), stream);
    gs.gather(points.data(), zty.data(), Op::add, stream);
    stream.synchronize();
    double products[2] = {0, 0};
    for (std::size_t p = 0; p < ids.size(); ++p) products[0] += zx.data()[p] * y[p];
    for (std::size_t d = 0; d < static_cast<std::size_t>(a.owned); ++d) products[1] += x[d] * zty.data()[d];
    comm.sum(products, 2);
    EXPECT_EQ(products[0], products[1]);  // integers: exact
  }
}

TEST(Exchange, HaloAndGatherMoveTheOwnersAndTheCopiesValues) {
  const Comm comm;
  const auto host = device::open("host");
  device::Stream stream(host);
  for (const unsigned seed : seeds(comm)) {
    const Ids ids = random_ids(seed, comm);
    const Assembly a(ids, 16, comm);
    const bool somebody_talks = comm.max(std::int64_t{!a.pattern.neighbors.empty()}) != 0;
    for (const Choice& choice : choices_in_turn(comm, seed)) {
      SCOPED_TRACE(name(choice));
      Exchange<double> exchange(a.pattern, host, comm, choice, 2);
      EXPECT_EQ(exchange.trivial(), collective(choice.schedule) ? !somebody_talks : a.pattern.neighbors.empty());
      EXPECT_EQ(exchange.bytes_sent(), static_cast<std::int64_t>(16 * a.pattern.owned_index.size()));
      std::vector<double> x(static_cast<std::size_t>(2 * (a.local + 1)), -1.0);
      const auto id = [&](std::int64_t d) { return static_cast<double>(a.dof_ids[static_cast<std::size_t>(d)]); };
      for (std::int64_t d = 0; d < a.owned; ++d) {
        x[static_cast<std::size_t>(2 * d)] = id(d);
        x[static_cast<std::size_t>(2 * d + 1)] = id(d) + 0.5;
      }
      exchange.start_halo(x.data(), stream);
      for (std::int64_t d = 0; d < 2 * a.owned; ++d) x[static_cast<std::size_t>(d)] += 1.0;  // allowed after start
      exchange.finish_halo(x.data(), stream);
      for (std::int64_t d = a.owned; d < a.local; ++d) {
        EXPECT_EQ(x[static_cast<std::size_t>(2 * d)], id(d));
        EXPECT_EQ(x[static_cast<std::size_t>(2 * d + 1)], id(d) + 0.5);
      }
      EXPECT_EQ(x[static_cast<std::size_t>(2 * a.local)], -1.0);

      // Ones everywhere: the gather counts holders.
      std::fill(x.begin(), x.end(), 1.0);
      exchange.start_gather(x.data(), stream);
      exchange.finish_gather(x.data(), Op::add, stream);
      std::map<std::int64_t, int> holders;
      for (const auto& others : of_all_ranks(a.dof_ids, comm)) {
        for (const auto other : others) ++holders[other];
      }
      for (std::int64_t d = 0; d < a.owned; ++d) {
        EXPECT_EQ(x[static_cast<std::size_t>(2 * d)], holders[a.dof_ids[static_cast<std::size_t>(d)]]);
      }
    }
  }
}

TEST(Exchange, FieldsOneAfterTheOtherGetTheBitsOfFieldsNextToEachOther) {
  const Comm comm;
  const auto host = device::open("host");
  device::Stream stream(host);
  for (const unsigned seed : seeds(comm)) {
    const Ids ids = random_ids(seed, comm);
    const Assembly a(ids, 16, comm);
    auto together = rough_values(static_cast<std::size_t>(3 * (a.local + 1)), seed, comm);
    auto apart = transposed(together, 3);
    for (const Choice& choice : choices_in_turn(comm, seed)) {
      Exchange<double> points(a.pattern, host, comm, choice, 3),
          fields(a.pattern, host, comm, choice, 3, Layout::fields_major);
      points.start_gather(together.data(), stream);
      points.finish_gather(together.data(), Op::add, stream);
      points.start_halo(together.data(), stream);
      points.finish_halo(together.data(), stream);
      fields.start_gather(apart.data(), stream);
      fields.finish_gather(apart.data(), Op::add, stream);
      fields.start_halo(apart.data(), stream);
      fields.finish_halo(apart.data(), stream);
      EXPECT_EQ(transposed(together, 3), apart) << name(choice) << " seed " << seed;
    }
  }
}

TEST(Exchange, AnOwnerAddsItsOwnValueFirstThenTheOthersByRank) {
  const Comm comm;
  const auto host = device::open("host");
  device::Stream stream(host);
  const Ids ids = random_ids(0, comm);
  const Assembly a(ids, 16, comm);
  auto y = rough_values(static_cast<std::size_t>(a.local + 1), 5, comm);
  const auto all_ids = of_all_ranks(a.dof_ids, comm);
  const auto all_values = of_all_ranks(y, comm);
  std::vector<double> expected(y.begin(), y.begin() + a.owned);
  for (std::size_t r = 0; r < all_ids.size(); ++r) {
    if (static_cast<int>(r) == comm.rank()) continue;
    std::map<std::int64_t, double> theirs;
    for (std::size_t d = 0; d < all_ids[r].size(); ++d) theirs[all_ids[r][d]] = all_values[r][d];
    for (std::size_t d = 0; d < expected.size(); ++d) {
      if (theirs.contains(a.dof_ids[d])) expected[d] += theirs[a.dof_ids[d]];
    }
  }
  const auto mine = y;
  for (const Choice& choice : all_choices()) {
    Exchange<double> exchange(a.pattern, host, comm, choice);
    y = mine;
    exchange.start_gather(y.data(), stream);
    exchange.finish_gather(y.data(), Op::add, stream);
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), expected.size() * sizeof(double)), 0) << name(choice);
  }
}

namespace {

// Several exchanges with these choices in flight together, started and finished in the given orders.
void several_in_flight(const std::vector<Choice>& choices, const std::vector<std::size_t>& starts,
                       const std::vector<std::size_t>& finishes) {
  const Comm comm;
  const auto host = device::open("host");
  device::Stream stream(host);
  Ids ids(100);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i) + 1;  // shared by all ranks
  const Assembly a(ids, 10, comm);
  std::vector<Exchange<double>> exchanges;
  std::vector<std::vector<double>> halo, gather;
  const auto size = static_cast<std::size_t>(a.local + 1);
  for (std::size_t e = 0; e < choices.size(); ++e) {
    exchanges.emplace_back(a.pattern, host, comm, choices[e]);
    halo.emplace_back(size, 100.0 * static_cast<double>(e) + 1.0);
    gather.emplace_back(size);
  }
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t e : starts) {
      std::fill(gather[e].begin(), gather[e].end(), 1000.0 * static_cast<double>(e) + 1.0);
      std::fill(halo[e].begin() + a.owned, halo[e].end(), -1.0);
      exchanges[e].start_halo(halo[e].data(), stream);
      exchanges[e].start_gather(gather[e].data(), stream);
    }
    for (const std::size_t e : finishes) {
      exchanges[e].finish_gather(gather[e].data(), Op::add, stream);
      exchanges[e].finish_halo(halo[e].data(), stream);
      const auto value = static_cast<double>(e);
      for (std::int64_t d = a.owned; d < a.local; ++d)
        ASSERT_EQ(halo[e][static_cast<std::size_t>(d)], 100.0 * value + 1.0);
      for (std::int64_t d = 0; d < a.owned; ++d) {
        ASSERT_EQ(gather[e][static_cast<std::size_t>(d)], comm.size() * (1000.0 * value + 1.0));
      }
    }
  }
}

}  // namespace

TEST(Exchange, SeveralInFlightAtOnceKeepTheirMessagesApart) {
  std::vector<Choice> choices = all_choices();
  choices.push_back(choices.front());
  std::vector<std::size_t> starts(choices.size());
  std::iota(starts.begin(), starts.end(), 0U);
  auto finishes = starts;
  std::rotate(finishes.begin(), finishes.begin() + 2, finishes.end());  // not in the order of the starts
  several_in_flight(choices, starts, finishes);
}

TEST(Exchange, PairwiseOnesMayStartInAnotherOrderOnEveryRank) {
  const bool even = Comm().rank() % 2 == 0;
  several_in_flight(
      {{Schedule::pairwise, Path::direct}, {Schedule::pairwise, Path::staged}, {Schedule::pairwise, Path::direct}},
      even ? std::vector<std::size_t>{0, 1, 2} : std::vector<std::size_t>{2, 1, 0}, {2, 0, 1});
}

TYPED_TEST(GatherScatterOf, TheGpuBranchOfTheKernelsGivesTheSameBitsAsTheHosts) {
  using T = TypeParam;
  const Comm comm;
  const auto host = device::open("host"), fibers = device::open("fiber");
  for (unsigned seed = 0; seed < 2; ++seed) {
    // More points of one id than threads in a block, more groups than a chunk holds, and multiplicities from 1 to about
    // 8.
    std::mt19937_64 random(seed * 10 + static_cast<unsigned>(comm.rank()));
    Ids ids(3000 + 500 * seed);
    for (auto& id : ids) id = random() % 8 == 0 ? 1 : static_cast<std::int64_t>(random() % 2500);
    const int fields = seed % 2 == 0 ? 1 : 3;
    const auto width = static_cast<std::size_t>(fields);
    const Choice choice =
        seed == 0 ? Choice{Schedule::crystal, Path::direct} : Choice{Schedule::pairwise, Path::staged};
    GatherScatter<T> on_host(ids, comm, host, Choice{}, fields);
    GatherScatter<T> on_fibers(ids, comm, fibers, choice, fields);
    GatherScatter<T> apart(ids, comm, fibers, choice, fields, Layout::fields_major);
    for (const Op op : ops) {
      const auto values = random_values<T>(ids.size() * width, op, seed, comm);
      const auto expected = run_gather_scatter(on_host, host, op, values);
      EXPECT_EQ(expected, run_gather_scatter(on_fibers, fibers, op, values));
      EXPECT_EQ(transposed(expected, width), run_gather_scatter(apart, fibers, op, transposed(values, width)));
    }
    const auto size = static_cast<std::size_t>(on_host.assembly().local + 1) * width;
    std::vector<std::vector<T>> gathered, scattered;
    for (auto* gs : {&on_host, &on_fibers}) {
      const auto where = gs == &on_host ? host : fibers;
      device::Stream stream(where);
      const auto values = random_values<T>(ids.size() * width, Op::add, seed, comm);
      device::Array<T> points(where, std::span<const T>(values)), dofs(where, size);
      gs->gather(points.data(), dofs.data(), Op::add, stream);
      gathered.push_back(dofs.download());
      gs->scatter(dofs.data(), points.data(), stream);
      stream.synchronize();
      scattered.push_back(points.download());
    }
    EXPECT_EQ(gathered[0], gathered[1]);
    EXPECT_EQ(scattered[0], scattered[1]);
  }
}

TEST(GatherScatter, TwoPatternsStartedOneInTheOther) {
  const Comm comm;
  const auto host = device::open("host");
  device::Stream stream(host);
  const Ids one{1, 2, 3, 3}, two{5, 5, 0, 1};
  GatherScatter<double> first(one, comm, host, Choice{}), second(two, comm, host, Choice{});
  std::vector<double> a{1, 1, 1, 1}, b{1, 1, 7, 1};
  first.start(a.data(), Op::add, stream);
  second.start(b.data(), Op::add, stream);
  first.finish(stream);
  second.finish(stream);
  const double p = comm.size();
  EXPECT_EQ(a, (std::vector<double>{p, p, 2 * p, 2 * p}));
  EXPECT_EQ(b, (std::vector<double>{2 * p, 2 * p, 7, p}));
}

TEST(GatherScatter, AnotherIsSetUpTimedAndUsedWhileOneIsUnderWay) {
  const Comm comm;
  const auto host = device::open("host");
  device::Stream stream(host);
  const Ids one{1, 2, 3, 3}, two{5, 5, 0, 1};
  const double p = comm.size();
  for (const Choice& choice : all_choices()) {
    if (choice.path == Path::staged || choice.small_bytes > 0) continue;  // same messages as others
    SCOPED_TRACE(name(choice));
    GatherScatter<double> first(one, comm, host, choice);
    std::vector<double> a{1, 1, 1, 1};
    first.start(a.data(), Op::add, stream);
    auto second = std::make_unique<GatherScatter<std::int32_t>>(two, comm, host);
    std::vector<std::int32_t> b{1, 1, 7, 1};
    second->start(b.data(), Op::add, stream);
    first.finish(stream);
    second->finish(stream);
    EXPECT_EQ(a, (std::vector<double>{p, p, 2 * p, 2 * p}));
    EXPECT_EQ(b, (std::vector<std::int32_t>{2 * comm.size(), 2 * comm.size(), 7, comm.size()}));
    first.start(a.data(), Op::max, stream);
    second.reset();
    first.finish(stream);
    EXPECT_EQ(a, (std::vector<double>{p, p, 2 * p, 2 * p}));
  }
}

TEST(GatherScatter, OneThatIsTakenDownUnderWayHarmsNoMemoryAndNoOther) {
  const Comm comm;
  const auto host = device::open("host");
  device::Stream stream(host);
  for (const std::size_t count : {10U, 20000U}) {  // MPI accesses the long ones after the start
    Ids ids(count);
    std::iota(ids.begin(), ids.end(), 1);  // all shared by all
    const auto connectivity = std::make_shared<const Connectivity>(ids, comm);
    for (const Choice& choice : all_choices()) {
      SCOPED_TRACE(name(choice));
      std::vector<double> x(count, 1.0);
      GatherScatter<double>(connectivity, host, choice).start(x.data(), Op::add, stream);
      // Memory that was returned is handed out again here.
      std::vector<std::vector<double>> memory;
      for (int i = 0; i < 4; ++i) {
        for (const int ranks : {1, comm.size() - 1, comm.size()})
          memory.emplace_back(count * static_cast<std::size_t>(ranks), 7.0);
      }
      GatherScatter<double> next(connectivity, host, choice);
      for (int round = 0; round < 3; ++round) {
        x.assign(count, 1.0);
        next.gather_scatter(x.data(), Op::add, stream);
        EXPECT_EQ(x, std::vector<double>(count, comm.size()));
      }
      comm.barrier();
      for (const auto& values : memory) EXPECT_EQ(values, std::vector<double>(values.size(), 7.0));
    }
  }
}

TEST(Exchange, StartsAndFinishesThatDoNotPairAreErrors) {
  const Comm comm;
  const auto host = device::open("host");
  device::Stream stream(host);
  const Ids ids{1, 2, 3};
  GatherScatter<double> gs(ids, comm, host, Choice{});
  std::vector<double> x{1, 1, 1};
  EXPECT_THROW(gs.finish(stream), std::logic_error);
  gs.start(x.data(), Op::add, stream);
  EXPECT_THROW(gs.start(x.data(), Op::add, stream), std::logic_error);
  gs.finish(stream);

  const Assembly a(ids, 3, comm);
  if (comm.size() == 1) return;
  Exchange<double> exchange(a.pattern, host, comm, {});
  std::vector<double> y(static_cast<std::size_t>(a.local + 1));
  EXPECT_THROW(exchange.finish_halo(y.data(), stream), std::logic_error);
  exchange.start_gather(y.data(), stream);
  EXPECT_THROW(exchange.start_gather(y.data(), stream), std::logic_error);
  exchange.finish_gather(y.data(), Op::add, stream);
}

TEST(GatherScatter, ARankThatFailsInSetupDoesNotLeaveTheOthersWaiting) {
  const Comm comm;
  const auto host = device::open("host");
  const Ids ids{1, 2, 3};
  const int bad = comm.size() - 1;
  EXPECT_THROW(GatherScatter<double>(ids, comm, host, Choice{}, comm.rank() == bad ? 0 : 2),
               weft::mpi::CollectiveError);
  GatherScatter<double> works(ids, comm, host, Choice{});  // and the ranks still agree on tags
  std::vector<double> x{1, 1, 1};
  device::Stream stream(host);
  works.gather_scatter(x.data(), Op::add, stream);
  EXPECT_EQ(x[0], comm.size());
}

TEST(Choice, OnAGpuSmallMessagesOfTheDirectPathGetAWayOfTheirOwnWhereSomeAreSmallAndSomeAreNot) {
  const Comm comm;
  const auto host = device::open("host"), gpu = device::open("fiber");
  const auto names = [&](device::Device& device, std::vector<std::int64_t> bytes) {
    std::string all;
    for (const Choice& choice : candidates("auto:direct", device, comm, bytes)) all += name(choice) + " ";
    return all;
  };
  const bool last = comm.rank() == comm.size() - 1;  // the messages of all ranks count
  const std::string whole = "pairwise:direct alltoallv:direct neighbor:direct crystal:direct ";
  EXPECT_EQ(names(*gpu, {last ? 8 : 100000, 100000}),
            "pairwise:direct pairwise:direct:65536 alltoallv:direct alltoallv:direct:65536 neighbor:direct "
            "neighbor:direct:65536 crystal:direct crystal:direct:65536 ");
  EXPECT_EQ(names(*gpu, {8, 65536}), whole);
  EXPECT_EQ(names(*gpu, {65537, 100000, 0}), whole);
  EXPECT_EQ(names(*host, {8, 100000}), whole);
}

TEST(Choice, NamesAreUnderstoodAndWrongOnesNameWhatIsAllowed) {
  const Comm comm;
  const auto host = device::open("host");
  EXPECT_EQ(name(choose("auto", *host, comm)), "pairwise:direct");
  EXPECT_EQ(name(choose("pairwise", *host, comm)), "pairwise:direct");
  EXPECT_EQ(name(choose("pairwise:staged", *host, comm)), "pairwise:staged");
  EXPECT_EQ(name(choose("auto:staged", *host, comm)), "pairwise:staged");
  for (const std::string text : {"crystals", "pairwise:teleport", "", "pairwise:"}) {
    try {
      choose(text, *host, comm);
      FAIL() << text;
    } catch (const weft::mpi::CollectiveError& error) {
      EXPECT_NE(std::string(error.what()).find("known: auto"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(parse_op("sum"), std::invalid_argument);
  EXPECT_EQ(parse_op("max"), Op::max);
}
