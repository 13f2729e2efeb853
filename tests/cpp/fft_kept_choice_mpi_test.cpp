// Choices between transforms that are kept on disk.
#include "weft/fft/kept_choice.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

using namespace weft;
using namespace weft::fft;

TEST(KeptChoices, TheFirstOfProgramsThatStartTogetherStaysOnAllRanks) {
  const mpi::Comm comm;
  const auto process = comm.max(std::int64_t{comm.rank() == 0 ? getpid() : 0});
  const auto folder = std::filesystem::temp_directory_path() / ("weft_kept_choice_" + std::to_string(process));
  setenv("WEFT_CACHE", folder.c_str(), 1);
  ASSERT_TRUE(choices_are_kept(comm));
  EXPECT_FALSE(kept_choice("a race", comm));
  EXPECT_EQ(keep_choice("a race", {comm.rank() == 0 ? "planes, mkl" : "panels, mkl", 1.5}, comm).name, "planes, mkl");
  EXPECT_EQ(keep_choice("a race", {"panels, mkl"}, comm).name, "planes, mkl")
      << "a later choice overwrote the one other runs have read";
  const auto kept = kept_choice("a race", comm);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->name, "planes, mkl");
  EXPECT_EQ(kept->spread, 1.5);
  EXPECT_TRUE(kept->disturbed());
  EXPECT_FALSE(kept_choice("another race", comm));
  comm.barrier();
  if (comm.rank() == 0) std::filesystem::remove_all(folder);
}
