// ctest runs this after the tests that run on machine code: it reads the reports that they wrote.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <tuple>

#include "weft/device/host_compiler.hpp"
#include "weft/device/kernel_texts.hpp"

using namespace weft::device;

namespace {

using Instance = std::tuple<std::string, std::string, std::string>;  // file, kernel, type

// Kernels that weft launches in other types only.
const std::set<Instance> never_launched{{"smoother", "to_double", "double"}, {"smoother", "from_double", "double"}};

// Every kernel, in every type that its file has on the host.
std::set<Instance> kernels() {
  std::set<Instance> all;
  for (const HostUnit& unit : host_units()) {
    const std::string constants = unit.constants;
    for (const KernelText& text : kernel_texts())
      if (text.file == unit.file)
        for (const std::string& name : kernel_names(text))
          all.emplace(unit.file, name, constants.substr(constants.find("real=") + 5));
  }
  return all;
}

// Lines of reports begin with {"kernel": "FILE.KERNEL N=7,real=TYPE,…".
std::set<Instance> launched(const std::filesystem::path& folder) {
  std::set<Instance> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream report(entry.path());
    for (std::string line; std::getline(report, line);) {
      const std::size_t begin = line.find(": \"") + 3, dot = line.find('.', begin), space = line.find(' ', dot);
      const std::size_t type = line.find("real=", space) + 5;
      all.emplace(line.substr(begin, dot - begin), line.substr(dot + 1, space - dot - 1),
                  line.substr(type, line.find_first_of(",\"", type) - type));
    }
  }
  return all;
}

}  // namespace

TEST(Coverage, EveryKernelRunsOnMachineCodeInEveryType) {
  const char* folder = std::getenv("WEFT_MACHINE_CODE_REPORTS");
  if (folder == nullptr) GTEST_SKIP() << "reads what other tests wrote: run it by ctest";
  const std::set<Instance> ran = launched(folder);
  for (const Instance& each : kernels()) {
    const auto& [file, name, type] = each;
    if (never_launched.contains(each))
      EXPECT_FALSE(ran.contains(each)) << file << "." << name << " in " << type << " is launched after all";
    else
      EXPECT_TRUE(ran.contains(each)) << "no test in tests/machine_code launches " << file << "." << name << " in "
                                      << type;
  }
}
