// For tests that only launch: every launch runs as machine code and is compared with the host's (launches.hpp).
#pragma once

#include <gtest/gtest.h>

#include "../cpp/find_fake_gpu.hpp"

namespace weft::machine_code {

template <class Test = testing::Test>
class OnMachineCode : public Test {
 protected:
  void SetUp() override {
    if (device::find_fake_gpu("cuda") == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  }
  void TearDown() override {
    if (testing::Test::IsSkipped()) return;
    EXPECT_FALSE(judged().empty()) << "nothing ran on machine code";
  }
};

}  // namespace weft::machine_code
