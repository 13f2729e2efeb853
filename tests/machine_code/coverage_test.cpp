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
#include "weft/maxwell/local_operator.hpp"
#include "weft/poisson/transfer.hpp"

using namespace weft::device;

namespace {

// File, kernel, type; and the order, or 0 for kernels that are the same at all orders and where orders do not matter.
using Instance = std::tuple<std::string, std::string, std::string, int>;

// Kernels that weft launches in other types only.
const std::set<Instance> never_launched{{"smoother", "to_double", "double", 0},
                                        {"smoother", "from_double", "double", 0}};

// Kernels that weft does not launch at an order, because there is nothing to do or another kernel does it.
bool not_at_this_order(const Instance& instance) {
  const auto& [file, name, type, order] = instance;
  const int bytes = type == "double" ? 8 : 4;
  if (file == "transfer") return order == 1 || !weft::poisson::transfer_fits(order, bytes);
  if (file == "schwarz" || file == "flow_filter") return order == 1;
  if (file == "poisson" && name.ends_with("_3d")) return order > 9;  // more threads than a block has
  using weft::maxwell::Threads, weft::maxwell::threads_for;
  if (name == "maxwell_curl_points") return threads_for(order) != Threads::points;
  if (name == "maxwell_curl_columns") return threads_for(order) != Threads::columns;
  return false;
}

int order_of(const std::string& constants) {
  const std::size_t at = constants.find("N=");
  return at == constants.npos ? 0 : std::stoi(constants.substr(at + 2));
}

// Every kernel, in every type that its file has on the host, and at every order if `by_order`.
std::set<Instance> kernels(bool by_order) {
  std::set<Instance> all;
  for (const HostUnit& unit : host_units()) {
    const std::string constants = unit.constants;
    for (const KernelText& text : kernel_texts())
      if (text.file == unit.file)
        for (const std::string& name : kernel_names(text))
          all.emplace(unit.file, name, constants.substr(constants.find("real=") + 5),
                      by_order ? order_of(constants) : 0);
  }
  return all;
}

// Lines of reports begin with {"kernel": "FILE.KERNEL N=7,real=TYPE,…".
std::set<Instance> launched(const std::filesystem::path& folder, bool by_order) {
  std::set<Instance> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream report(entry.path());
    for (std::string line; std::getline(report, line);) {
      const std::size_t begin = line.find(": \"") + 3, dot = line.find('.', begin), space = line.find(' ', dot);
      const std::size_t type = line.find("real=", space) + 5;
      all.emplace(line.substr(begin, dot - begin), line.substr(dot + 1, space - dot - 1),
                  line.substr(type, line.find_first_of(",\"", type) - type),
                  by_order ? order_of(line.substr(space, type - space)) : 0);
    }
  }
  return all;
}

}  // namespace

// At every order, too, if the other tests have run at all orders.
TEST(Coverage, EveryKernelRunsOnMachineCodeInEveryType) {
  const char* folder = std::getenv("WEFT_MACHINE_CODE_REPORTS");
  if (folder == nullptr) GTEST_SKIP() << "reads what other tests wrote: run it by ctest";
  for (const bool by_order : {false, true}) {
    if (by_order && std::getenv("WEFT_ALL_ORDERS") == nullptr) continue;
    const std::set<Instance> ran = launched(folder, by_order);
    for (const Instance& each : kernels(by_order)) {
      const auto& [file, name, type, order] = each;
      const std::string what =
          file + "." + name + " in " + type + (order > 0 ? " at N = " + std::to_string(order) : "");
      if (never_launched.contains({file, name, type, 0})) {
        EXPECT_FALSE(ran.contains(each)) << what << " is launched after all";
      } else if (!by_order || !not_at_this_order(each)) {
        EXPECT_TRUE(ran.contains(each)) << "no test in tests/machine_code launches " << what;
      }
    }
  }
}
