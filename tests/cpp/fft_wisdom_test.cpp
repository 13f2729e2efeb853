#include "weft/fft/wisdom.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

using namespace weft::fft;

namespace {

// A library whose wisdom is a text, and which records what is requested from it.
std::string wisdom;
std::vector<std::string> calls;
char* export_to_string() { return strdup(wisdom.c_str()); }
int import_from_string(const char* text) {
  wisdom = text;
  return 1;
}
void forget() { wisdom.clear(); }
void destroy_plan(void* /*plan*/) { calls.emplace_back("destroy"); }
const WisdomFunctions library{export_to_string, import_from_string, forget, destroy_plan};

int measured = 1, remembered = 2;
void* plan(unsigned flags) {
  if (flags == 1U << 21) {
    calls.emplace_back("ask");
    return wisdom.find("shape") != wisdom.npos ? &remembered : nullptr;
  }
  calls.emplace_back("measure");
  wisdom += "shape";
  return &measured;
}

}  // namespace

TEST(Wisdom, IsMeasuredOnceAndEveryRunMakesThePlanOfIt) {
  const auto folder = std::filesystem::temp_directory_path() / ("weft_wisdom_" + std::to_string(getpid()));
  setenv("WEFT_CACHE", folder.c_str(), 1);
  EXPECT_EQ(measured_plan(library, "some library", plan), &remembered);
  EXPECT_EQ(calls, (std::vector<std::string>{"ask", "measure", "destroy", "ask"}));
  EXPECT_EQ(wisdom, "") << "plans by estimate would change";
  calls.clear();
  EXPECT_EQ(measured_plan(library, "some library", plan), &remembered);
  EXPECT_EQ(calls, std::vector<std::string>{"ask"});
  calls.clear();
  measured_plan(library, "another library", plan);
  EXPECT_EQ(calls.size(), 4U) << "the wisdom of another library was taken";
  EXPECT_EQ(measured_plan(library, "no plan", [](unsigned) -> void* { return nullptr; }), nullptr);
  std::filesystem::remove_all(folder);
}
