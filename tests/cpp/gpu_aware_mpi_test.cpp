// Whether MPI accepts device memory is tested in a child process, so that nothing can happen to this one.
#include "weft/mpi/gpu_aware.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/mpi/probe.hpp"

using namespace weft::mpi;

TEST(Probe, TheTransferWorksInAChildOfEveryRankWhichIsAJobOfItsOwn) {
  // Under mpiexec the child would wait for the launcher, or join the job, if it inherited the rank's environment
  // variables.
  const ProbeResult result = run_probe({WEFT_MPI_PROBE_FILE, "host"}, 300.0);
  EXPECT_TRUE(result.succeeded) << result.reason;
}

TEST(Probe, AChildThatCrashesIsAnAnswer) {
  const ProbeResult result = run_probe({"/bin/sh", "-c", "kill -SEGV $$"}, 300.0);
  EXPECT_FALSE(result.succeeded);
  EXPECT_NE(result.reason.find("signal 11"), std::string::npos) << result.reason;
}

TEST(Probe, AChildThatHangsIsEndedWithAllItStarted) {
  const auto begin = std::chrono::steady_clock::now();
  const ProbeResult result = run_probe({"/bin/sh", "-c", "sleep 1000 & sleep 1000"}, 0.3);
  EXPECT_FALSE(result.succeeded);
  EXPECT_NE(result.reason.find("longer than"), std::string::npos) << result.reason;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(300));
}

TEST(Probe, AFailureQuotesTheChildsLastWords) {
  const ProbeResult result = run_probe({"/bin/sh", "-c", "echo noise; echo wrong bytes >&2; exit 3"}, 300.0);
  EXPECT_FALSE(result.succeeded);
  EXPECT_NE(result.reason.find("exit code 3: wrong bytes"), std::string::npos) << result.reason;
}

TEST(Probe, AProgramThatIsNotThereIsAnAnswer) {
  const ProbeResult result = run_probe({"/nowhere/weft_mpi_probe"}, 300.0);
  EXPECT_FALSE(result.succeeded);
  EXPECT_NE(result.reason.find("/nowhere/weft_mpi_probe"), std::string::npos) << result.reason;
}

TEST(Probe, TheLaunchersVariablesDoNotReachTheChildAndTheUsersDo) {
  setenv("PMI_WEFT_TEST", "1", 1);
  setenv("OMPI_MCA_weft_test", "1", 1);
  EXPECT_FALSE(run_probe({"/bin/sh", "-c", "test -n \"$PMI_WEFT_TEST\""}, 300.0).succeeded);
  EXPECT_TRUE(run_probe({"/bin/sh", "-c", "test -n \"$OMPI_MCA_weft_test\""}, 300.0).succeeded);
  unsetenv("PMI_WEFT_TEST");
  unsetenv("OMPI_MCA_weft_test");
}

TEST(GpuAware, TheHostNeedsNone) {
  const auto host = weft::device::open("host");
  EXPECT_TRUE(gpu_aware(*host).usable);
  EXPECT_EQ(gpu_aware(*host).reason, "no GPU, so not needed");
}

TEST(GpuAware, TheLibraryIsAsked) {
  const std::string answer = gpu_support_asked(weft::device::Backend::cuda);
  EXPECT_TRUE(answer == "yes" || answer == "no" || answer == "does not say") << answer;
}
