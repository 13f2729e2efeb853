#include "weft/mpi/comm.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "weft/mpi/agreement.hpp"
#include "weft/mpi/same.hpp"

using weft::mpi::CollectiveError;
using weft::mpi::Comm;

TEST(Comm, ReductionsAndScans) {
  const Comm comm;
  const std::int64_t size = comm.size(), rank = comm.rank();
  std::int64_t ranks = rank;
  comm.sum(&ranks, 1);
  EXPECT_EQ(ranks, size * (size - 1) / 2);
  EXPECT_EQ(comm.max(rank), size - 1);
  EXPECT_EQ(comm.min(rank - 5), -5);
  EXPECT_EQ(comm.max(0.5 * static_cast<double>(rank)), 0.5 * static_cast<double>(size - 1));
  EXPECT_EQ(comm.exclusive_scan(rank + 1), rank * (rank + 1) / 2);
}

TEST(Comm, OneDuplicatePerCommunicatorApartFromTheCallers) {
  const Comm a, b;
  EXPECT_EQ(a.get(), b.get());
  EXPECT_NE(a.get(), MPI_COMM_WORLD);
  EXPECT_NE(a.get(), Comm::self().get());
  EXPECT_EQ(Comm::self().size(), 1);
}

TEST(Comm, OutlivesTheCommunicatorItWasMadeFrom) {
  MPI_Comm parent = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  const Comm comm(parent);
  MPI_Comm_free(&parent);
  EXPECT_EQ(comm.max(std::int64_t{comm.rank()}), comm.size() - 1);
}

TEST(Comm, ANullCommunicatorIsAClearError) { EXPECT_THROW(Comm(MPI_COMM_NULL), std::invalid_argument); }

TEST(Comm, AFailedCallIsAnErrorWithItsName) {
  const Comm comm;
  int value = 0;
  try {
    weft::mpi::check(MPI_Send(&value, 1, MPI_INT, comm.size() + 5, 0, comm.get()), "MPI_Send");
    FAIL() << "sending to a rank that does not exist must fail";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("MPI_Send failed"), std::string::npos);
  }
}

TEST(Together, AFailureOnOneRankIsThrownByAllWithItsText) {
  const Comm comm;
  const int last = comm.size() - 1;
  try {
    comm.together([&] {
      if (comm.rank() == last) throw std::invalid_argument("the element is bad");
    });
    FAIL() << "every rank must throw";
  } catch (const CollectiveError& error) {
    const std::string expected =
        comm.size() == 1 ? "the element is bad" : "rank " + std::to_string(last) + ": the element is bad";
    EXPECT_EQ(error.what(), expected);
  }
  comm.barrier();  // the communicator remains usable
}

TEST(Together, TheLowestRankThatFailedSpeaks) {
  const Comm comm;
  try {
    comm.together([&] { throw std::runtime_error("failed on " + std::to_string(comm.rank())); });
    FAIL();
  } catch (const CollectiveError& error) {
    EXPECT_STREQ(error.what(), "failed on 0");
  }
}

TEST(Together, NestsAndPassesWhenNobodyFails) {
  const Comm comm;
  int inner = 0;
  EXPECT_NO_THROW(comm.together([&] { comm.together([&] { ++inner; }); }));
  EXPECT_EQ(inner, 1);
  EXPECT_THROW(comm.together([&] {
    comm.together([&] {
      if (comm.rank() == 0) throw 7;
    });
  }),
               CollectiveError);
}

TEST(Comm, TagsAreFreshAndInRange) {
  const Comm comm;
  const int first = comm.fresh_tag();
  EXPECT_NE(first, comm.fresh_tag());
  for (int i = 0; i < 70000; ++i) {
    const int tag = comm.fresh_tag();
    ASSERT_GE(tag, 1);
    ASSERT_LE(tag, 32767);
  }
  EXPECT_EQ(comm.max(std::int64_t{first}), comm.min(std::int64_t{first}));
}

TEST(Library, HasAVersionOfOneLine) {
  const std::string version = weft::mpi::library_version();
  EXPECT_FALSE(version.empty());
  EXPECT_EQ(version.find('\n'), std::string::npos);
}

TEST(Together, MinimaShareTheReduction) {
  const Comm comm;
  std::int64_t least[2] = {};
  weft::mpi::together(
      comm,
      [&] {
        least[0] = comm.rank() + 3;
        least[1] = -comm.rank();
      },
      least);
  EXPECT_EQ(least[0], 3);
  EXPECT_EQ(least[1], 1 - comm.size());
}

TEST(Together, SeveralPiecesOfWorkFailEachByItself) {
  const Comm comm;
  const int last = comm.size() - 1;
  const std::vector<std::function<void()>> works{
      [] {},
      [&] {
        if (comm.rank() == last) throw std::runtime_error("one rank's");
      },
      [] { throw std::runtime_error("everybody's"); },
      [] { throw std::runtime_error(""); },
  };
  const std::vector<std::string> errors = weft::mpi::attempt(comm, works, {});
  const std::string where = comm.size() == 1 ? "" : "rank " + std::to_string(last) + ": ";
  EXPECT_EQ(errors, (std::vector<std::string>{"", where + "one rank's", "everybody's", "an exception without a text"}));
}

TEST(RequireSame, NamesTheArgumentThatDiffers) {
  const Comm comm;
  if (comm.size() == 1) GTEST_SKIP() << "for several ranks";
  try {
    weft::mpi::require_same(comm, "colour", "red", [] {});
    weft::mpi::require_same(comm, "size", std::to_string(comm.rank()), [] {});
    FAIL() << "every rank must throw";
  } catch (const CollectiveError& error) {
    EXPECT_NE(std::string(error.what()).find("size must be the same on all ranks; rank 0 has 0"), std::string::npos)
        << error.what();
  }
}
