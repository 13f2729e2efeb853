#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "error_of.hpp"
#include "vector_checks.hpp"
#include "weft/device/backends.hpp"
#include "weft/device/device.hpp"
#include "weft/device/host_memory.hpp"
#include "weft/device/shared.hpp"
#include "weft/trace/recorder.hpp"

using namespace weft;
using namespace weft::device;

namespace {

using Scale = Kernel<long, double, double*>;  // x = a x

// The partial sums of a kernel that writes vector_blocks(n) of them.
std::vector<double> dot_partials(const std::shared_ptr<Device>& device, const std::vector<double>& x, int threads) {
  const std::int64_t n = static_cast<std::int64_t>(x.size());
  Array<double> values(device, x), partials(device, vector_blocks(n));
  Stream stream(device);
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  const Kernel<long, const double*, const double*, double*> dot = vector_kernel<double>(*device, "dot");
  dot(stream, vector_blocks(n), vector_shape, n, values.data(), values.data(), partials.data());
  omp_set_num_threads(before);
  stream.synchronize();
  return partials.download();
}

}  // namespace

TEST(HostDevice, VectorKernelsFollowTheirFormulas) {
  for (long n : {1L, 255L, 4096L, 4097L, 50000L}) {
    check_vector_kernels<double>(open("host"), n);
    check_vector_kernels<float>(open("host"), n);
  }
}

TEST(HostDevice, DotIsTheSameBitsOnAnyNumberOfThreads) {
  const auto x = random_values<double>(100001, 4);
  const auto one = dot_partials(open("host"), x, 1);
  for (int threads : {2, 3, 7}) EXPECT_EQ(dot_partials(open("host"), x, threads), one) << threads << " threads";
}

TEST(HostDevice, EveryBlockRunsOnceOnMoreThreadsThanBlocks) {
  const auto device = open("host");
  Array<double> x(device, std::vector<double>(3 * vector_chunk, 1.0));
  Stream stream(device);
  const int before = omp_get_max_threads();
  omp_set_num_threads(8);
  Scale(vector_kernel<double>(*device, "scale"))(stream, 3, vector_shape, x.size(), 2.0, x.data());
  omp_set_num_threads(before);
  for (double value : x.download()) ASSERT_EQ(value, 2.0);
}

TEST(HostDevice, AKernelHeldWithOtherParametersThanItsOwnIsAnError) {
  const LoadedKernel scale = vector_kernel<double>(*open("host"), "scale");
  EXPECT_EQ(error_of<std::invalid_argument>([&] { Kernel<long, double>{scale}; }),
            "kernel scale takes 3 arguments, not 2");
  EXPECT_EQ(error_of<std::invalid_argument>([&] { Kernel<long, float, double*>{scale}; }),
            "kernel scale: argument 2 has 4 bytes, its parameter 8");
  EXPECT_EQ(error_of<std::invalid_argument>([&] { Kernel<int, double, double*>{scale}; }),
            "kernel scale: argument 1 has 4 bytes, its parameter 8");
  EXPECT_EQ(error_of<std::invalid_argument>([&] { Scale{scale}; }), "");
}

TEST(HostDevice, ALaunchWithMoreBlocksThanAnIntCountsIsAnError) {
  const auto device = open("host");
  Stream stream(device);
  const Scale scale = vector_kernel<double>(*device, "scale");
  const auto launch = [&](std::int64_t blocks) {
    return error_of<std::invalid_argument>([&] { scale(stream, blocks, vector_shape, 0, 1, nullptr); });
  };
  EXPECT_EQ(launch(0), "");  // and no launch
  EXPECT_EQ(launch(largest_launch + 1),
            "kernel scale: a launch has at most 2147483647 blocks, not 2147483648; use more ranks, so that each has "
            "less work");
  EXPECT_NE(launch((std::int64_t{1} << 32) + 1), "");  // 1 in 32 bits
  EXPECT_NE(launch(-1), "");
}

// Launches in weft rely on this: pointers to writable data convert to pointers to read-only data, but other types or
// numbers of arguments do not compile.
static_assert(std::is_invocable_v<Scale, Stream&, unsigned, Shape, int, float, double*>);
static_assert(!std::is_invocable_v<Scale, Stream&, unsigned, Shape, int, float, const double*>);
static_assert(!std::is_invocable_v<Scale, Stream&, unsigned, Shape, int, float, float*>);
static_assert(!std::is_invocable_v<Scale, Stream&, unsigned, Shape, int, float>);
static_assert(std::is_invocable_v<Kernel<const double*>, Stream&, unsigned, Shape, double*>);

TEST(HostDevice, AKernelThatWasNotInstantiatedIsNamedInTheError) {
  try {
    open("host")->kernel({"vector", "axpy", {{"WEFT_REAL", "short"}}});
    FAIL() << "found";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("axpy with real=short"), std::string::npos) << error.what();
  }
  EXPECT_THROW(open("host")->kernel({"vector", "axpy", {{"WEFT_REAL", "double"}, {"OTHER", "1"}}}),
               std::invalid_argument);
  EXPECT_NO_THROW(open("host")->kernel({"vector", "axpy", {{"WEFT_TILE_X", "8"}, {"WEFT_REAL", "double"}}}));
}

TEST(HostDevice, MemoryIsAlignedAndCopies) {
  const auto device = open("host");
  for (std::size_t bytes : {1, 64, 1000, 9 << 20}) {
    void* pointer = device->allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 64, 0u);
    device->release(pointer);
  }
  const std::vector<int> values{1, 2, 3};
  Array<std::int32_t> array(device, values);
  EXPECT_EQ(array.download(), values);
  Array<std::int32_t> moved = std::move(array);
  EXPECT_EQ(moved.download(), values);
  moved.zero();
  EXPECT_EQ(moved.download(), (std::vector<int>{0, 0, 0}));
  EXPECT_THROW(moved.upload(std::vector<int>{1}), std::invalid_argument);
  EXPECT_TRUE(Array<double>(device, 0).download().empty());
}

TEST(HostDevice, EventsTellTheTimeBetweenThem) {
  const auto device = open("host");
  Stream stream(device);
  Event begin(device), end(device);
  const double before = omp_get_wtime();
  begin.record(stream);
  const double start = omp_get_wtime();
  while (omp_get_wtime() - start < 2e-3) {
  }
  end.record(stream);
  end.synchronize();
  EXPECT_GE(end.seconds_since(begin), 2e-3);
  EXPECT_LE(end.seconds_since(begin), omp_get_wtime() - before + 1e-3);  // the two clocks differ slightly
}

TEST(HostDevice, LaunchesAndCopiesAreTraced) {
  const auto device = open("host");
  trace::enable(true);
  {
    Array<double> x(device, std::vector<double>(10, 1.0));
    Stream stream(device);
    Scale(vector_kernel<double>(*device, "scale"))(stream, 1, vector_shape, 10, 2.0, x.data());
  }
  trace::enable(false);
  bool kernel = false, copy = false;
  for (const trace::Interval& interval : trace::intervals()) {
    kernel |= std::strcmp(interval.name, "scale") == 0 && interval.category == trace::Category::cpu;
    copy |= interval.category == trace::Category::copy && interval.bytes == 80;
  }
  EXPECT_TRUE(kernel);
  EXPECT_TRUE(copy);
}

TEST(CheckingMode, FreshMemoryIsNaNAndAnOverrunEndsTheProgram) {
  setenv("WEFT_CHECK", "1", 1);
  const auto device = open_host(0);
  unsetenv("WEFT_CHECK");
  Array<double> x(device, 5);
  for (double value : x.download()) EXPECT_TRUE(std::isnan(value));
  EXPECT_DEATH(
      {
        Array<double> y(device, 3);
        y.data()[3] = 1.0;
      },
      "past the end of an array of 24 bytes");
}

TEST(Open, AnUnknownOrAbsentDeviceIsNamed) {
  EXPECT_THROW(open("abacus"), std::invalid_argument);
  EXPECT_EQ(open("host"), open("host"));
  for (const Availability& backend : available()) {
    EXPECT_FALSE(backend.reason.empty());
    if (backend.available) continue;
    try {
      open(name(backend.backend));
      ADD_FAILURE() << name(backend.backend) << " opened though unavailable";
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(backend.reason), std::string::npos) << error.what();
    }
  }
  EXPECT_NO_THROW(open("auto"));
}

namespace {

// The mappings of this process for which large pages are advised: first and last address of each (proc(5), VmFlags hg).
std::vector<std::pair<std::uintptr_t, std::uintptr_t>> advised_mappings() {
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> found;
  std::ifstream in("/proc/self/smaps");
  std::uintptr_t begin = 0, end = 0;
  for (std::string line; std::getline(in, line);) {
    std::uintptr_t first = 0, last = 0;
    char dash = 0;
    if (std::istringstream words(line); words >> std::hex >> first >> dash >> last && dash == '-')
      std::tie(begin, end) = std::tie(first, last);
    else if (line.starts_with("VmFlags:") && (line + " ").find(" hg ") != std::string::npos)
      found.emplace_back(begin, end);
  }
  return found;
}

}  // namespace

TEST(LargeVector, HasItsValues) {
  for (const std::size_t size : {0, 1, 1000, 3'000'001}) {
    EXPECT_EQ(large_vector(size, 7), std::vector<int>(size, 7));
    EXPECT_EQ(large_vector<double>(size), std::vector<double>(size));
  }
}

TEST(LargeVector, IsInLargePagesWhereItIsLarge) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage/enabled")) GTEST_SKIP() << "no large pages here";
  const auto before = advised_mappings();  // memory that was freed by other tests, and may be used again
  const auto small = large_vector<double>(1000);
  EXPECT_EQ(advised_mappings(), before);
  const auto large = large_vector<double>(3'000'001);
  const auto middle = reinterpret_cast<std::uintptr_t>(&large[1'500'000]);
  EXPECT_TRUE(
      std::ranges::any_of(advised_mappings(), [&](const auto& m) { return m.first <= middle && middle < m.second; }));
}

TEST(SharedMemory, OfAnySizeIsTheSameBytesWhereverItIsMapped) {
  constexpr std::size_t large_page = std::size_t{2} << 20;
  const auto host = open("host");
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, 2 * large_page - 1, 2 * large_page + 5000}) {
    const SharedMemory own = SharedMemory::allocate(host, bytes), other = SharedMemory::open(host, own.handle());
    own.stop_sharing();
    for (const SharedMemory* memory : {&own, &other}) {
      std::memset(memory->data(), memory == &own ? 1 : 2, bytes);
      const std::byte last = own.data()[bytes - 1];
      EXPECT_EQ(other.data()[0], own.data()[0]);
      EXPECT_EQ(other.data()[bytes - 1], last);
      EXPECT_EQ(last, std::byte{static_cast<unsigned char>(memory == &own ? 1 : 2)});
      // Large pages require this.
      EXPECT_TRUE(bytes < 2 * large_page || reinterpret_cast<std::uintptr_t>(memory->data()) % large_page == 0);
    }
  }
}
