// The cuda and hip backends on a driver made for tests (fake_gpu.hpp), which ctest puts where the loader finds it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "find_fake_gpu.hpp"
#include "vector_checks.hpp"
#include "weft/device/backends.hpp"
#include "weft/device/compiler.hpp"
#include "weft/device/gpu_api.hpp"
#include "weft/device/gpu_names.hpp"
#include "weft/device/graph.hpp"
#include "weft/trace/recorder.hpp"

using namespace weft;
using namespace weft::device;

namespace {

class GpuBackend : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fake = find_fake_gpu(GetParam());
    if (fake == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
    fake->fail.clear();
  }
  FakeGpu* fake = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Both, GpuBackend, testing::Values("cuda", "hip"),
                         [](const auto& parameter) { return std::string(parameter.param); });

Kernel<long, double, double*> scale_kernel(Device& device) { return vector_kernel<double>(device, "scale"); }

}  // namespace

TEST_P(GpuBackend, VectorKernelsFollowTheirFormulas) {
  check_vector_kernels<double>(device::open(GetParam()), 5000);
  check_vector_kernels<float>(device::open(GetParam()), 5000);
}

namespace {

// The kernels that measure a GPU's limits, with fewer steps than in real use.
template <class T>
void check_limits_kernels(const std::shared_ptr<Device>& device) {
  constexpr Shape shape{256};
  constexpr long n = 500;  // two blocks, the second incomplete
  constexpr int threads = 512, lines = 16, stride = 32, steps = 3;
  Stream stream(device);
  const std::vector<T> x = random_values<T>(8 * n, 1);
  const Array<T> from(device, x);
  Array<T> sums(device, n), chains(device, threads);
  const Kernel<long, const T*, T*> read = device->kernel<T>("limits", "stream");
  read(stream, 2, shape, n, from.data(), sums.data());
  std::vector<int> next(lines * stride);
  for (int line = 0; line < lines; ++line) next[line * stride] = (line + 5) % lines;
  const Array<int> memory(device, next);
  Array<int> last(device, threads);
  const Kernel<int, int, int, const int*, int*> chase = device->kernel<T>("limits", "chase");
  chase(stream, 2, shape, lines, stride, steps, memory.data(), last.data());
  const Kernel<int, T, T, T*> multiply_add = device->kernel<T>("limits", "multiply_add");
  multiply_add(stream, 2, shape, steps, 0.5, 0.25, chains.data());
  stream.synchronize();
  const std::vector<T> found = sums.download(), added = chains.download();
  const std::vector<int> places = last.download();
  for (long i = 0; i < n; ++i) {
    double expected = 0;
    for (int k = 0; k < 8; ++k) expected += x[k * n + i];
    ASSERT_NEAR(found[i], expected, 20 * std::numeric_limits<T>::epsilon()) << i;
  }
  for (long t = 0; t < threads; ++t) {
    EXPECT_EQ(places[t], (t * 2654435761L + 5 * steps) % lines);
    double expected = 0;
    for (int k = 0; k < 8; ++k) {
      double c = k + static_cast<double>(t % 256) / 256;
      for (int step = 0; step < steps; ++step) c = 0.5 * c + 0.25;
      expected += c;
    }
    ASSERT_NEAR(added[t], expected, 50 * std::numeric_limits<T>::epsilon()) << t;
  }
}

}  // namespace

TEST_P(GpuBackend, LimitsKernelsFollowTheirFormulas) {
  check_limits_kernels<double>(device::open(GetParam()));
  check_limits_kernels<float>(device::open(GetParam()));
}

TEST_P(GpuBackend, EverythingIsReleased) {
  const int before = fake->live;
  {
    const auto device = device::open(GetParam());
    Array<double> x(device, std::vector<double>(100, 1.0));
    void* pinned = device->allocate_pinned(64);
    Stream stream(device);
    trace::enable(true);
    scale_kernel (*device)(stream, 1, vector_shape, 100L, 2.0, x.data());
    Graph graph(stream, [&] { scale_kernel (*device)(stream, 1, vector_shape, 100L, 2.0, x.data()); });
    stream.synchronize();
    trace::enable(false);
    device->release_pinned(pinned);
    EXPECT_GT(fake->live, before);
  }
  EXPECT_EQ(fake->live, before);
}

// A kernel that goes beyond an array by less than an element (64 KB) must not find another array there.
TEST_P(GpuBackend, AllocationsOfTheDriverMadeForTestsAreApart) {
  const auto device = device::open(GetParam());
  std::vector<Array<double>> arrays;
  for (const std::size_t size : {512, 4096, 32, 512}) arrays.emplace_back(device, size);
  arrays[1] = Array<double>();
  for (const std::size_t size : {2000, 1500}) arrays.emplace_back(device, size);  // where the second was
  for (const auto& a : arrays)
    for (const auto& b : arrays)
      if (a.size() > 0 && b.size() > 0 && a.data() < b.data())
        EXPECT_GE(reinterpret_cast<const char*>(b.data()) - reinterpret_cast<const char*>(a.data() + a.size()), 65536);
}

TEST_P(GpuBackend, TheDeviceTellsWhatTheDriverSays) {
  const auto device = device::open(GetParam(), 1);
  EXPECT_EQ(device->info().name, "Fake GPU 1");
  EXPECT_FALSE(device->is_host());
  const bool hip = std::string(GetParam()) == "hip";
  EXPECT_EQ(device->info().architecture, hip ? "gfx90a:sramecc+:xnack-" : "sm_90");
  EXPECT_EQ(device->info().multiprocessors, hip ? 110 : 132);
  EXPECT_EQ(device->info().warp_size, hip ? 64 : 32);
  EXPECT_EQ(device->info().memory_bytes, std::int64_t{1} << 34);
}

TEST_P(GpuBackend, ADeviceIsOneObjectHoweverItIsNamed) {
  const auto device = device::open(GetParam());
  EXPECT_EQ(device->info().ordinal, 0);
  EXPECT_EQ(device::open(GetParam(), 0), device);
  EXPECT_NE(device::open(GetParam(), 1), device);
}

TEST_P(GpuBackend, RanksOfANodeTakeDifferentDevices) {
  setenv("MPI_LOCALRANKID", "3", 1);
  EXPECT_EQ(device::open(GetParam())->info().name, "Fake GPU 1");  // 3 modulo 2
  unsetenv("MPI_LOCALRANKID");
  try {
    device::open(GetParam(), 2);
    ADD_FAILURE() << "opened a device that is not there";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("2 found"), std::string::npos) << error.what();
  }
}

TEST_P(GpuBackend, AGraphRunsWhenReplayedAndNotWhenCaptured) {
  const auto device = device::open(GetParam());
  Array<double> x(device, std::vector<double>(10, 1.0));
  const auto scale = scale_kernel(*device);
  Stream stream(device);
  ASSERT_TRUE(Graph::supported(*device));
  const Graph graph(stream, [&] {
    scale(stream, 1, vector_shape, 10, 2.0, x.data());
    scale(stream, 1, vector_shape, 10, 3.0, x.data());
  });
  stream.synchronize();
  EXPECT_EQ(x.download()[9], 1.0);
  for (int i = 0; i < 3; ++i) graph.replay(stream);
  stream.synchronize();
  EXPECT_EQ(x.download()[9], 216.0);
}

TEST_P(GpuBackend, WhatCannotBeCapturedIsAnErrorAndTheStreamWorksOn) {
  const auto device = device::open(GetParam());
  Array<double> x(device, std::vector<double>(10, 1.0));
  Stream stream(device);
  EXPECT_THROW(Graph(stream, [&] { stream.synchronize(); }), std::runtime_error);
  scale_kernel (*device)(stream, 1, vector_shape, 10, 2.0, x.data());
  stream.synchronize();
  EXPECT_EQ(x.download()[0], 2.0);
}

TEST_P(GpuBackend, AnErrorInWhatIsCapturedIsReportedAndNotWhatFollowsFromIt) {
  const auto device = device::open(GetParam());
  Stream stream(device);
  try {
    Graph(stream, [&] { Array<double> x(device, 1000); });
    ADD_FAILURE() << "captured an allocation";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("allocating 8000 bytes"), std::string::npos) << error.what();
  }
  fake->fail = "cuStreamEndCapture";  // the capture fails too
  EXPECT_THROW(Graph(stream, [] { throw std::domain_error("of the work"); }), std::domain_error);
}

TEST_P(GpuBackend, BlockingCopiesShareOneStreamOfTheDevice) {
  const auto device = device::open(GetParam());
  Array<double> x(device, std::vector<double>(10, 1.0));
  fake->fail = "cuStreamCreate";
  x.upload(std::vector<double>(10, 2.0));
  EXPECT_EQ(x.download()[9], 2.0);
  x.zero();
  EXPECT_EQ(x.download()[9], 0.0);
  EXPECT_EQ(fake->fail, "cuStreamCreate") << "a copy made a stream";
}

TEST_P(GpuBackend, LaunchesAndCopiesAppearOnBothTimeLines) {
  const auto device = device::open(GetParam());
  const auto scale = scale_kernel(*device);
  trace::enable(true);
  Array<double> x(device, std::vector<double>(10, 1.0));
  Stream stream(device);
  for (int i = 0; i < 3; ++i) scale(stream, 1, vector_shape, 10, 2.0, x.data());
  int gpu = 0, launch = 0, copies = 0;
  for (const trace::Interval& i : trace::intervals()) {  // before the fibers record their own launches
    launch += !i.device && std::strcmp(i.name, "scale") == 0 && i.category == trace::Category::launch;
  }
  stream.synchronize();
  trace::enable(false);
  std::int64_t last = 0;
  for (const trace::Interval& i : trace::intervals()) {
    const bool is_scale = std::strcmp(i.name, "scale") == 0;
    if (i.device) {
      EXPECT_GE(i.begin_ns, 0);
      EXPECT_LE(i.begin_ns, i.end_ns);
      if (is_scale) {
        EXPECT_GE(i.begin_ns, last - 1000);  // in order, within the drivers' single precision
        last = i.end_ns;
      }
    }
    gpu += i.device && is_scale && i.category == trace::Category::gpu;
    copies += i.device && i.category == trace::Category::copy && i.bytes == 80;
  }
  EXPECT_EQ(gpu, 3);
  EXPECT_EQ(launch, 3);
  EXPECT_EQ(copies, 1);
}

TEST_P(GpuBackend, EventsOrderStreamsAndTellTime) {
  const auto device = device::open(GetParam());
  Array<double> x(device, std::vector<double>(10, 1.0));
  const auto scale = scale_kernel(*device);
  Stream first(device), second(device);
  Event begin(device), end(device);
  begin.record(first);
  scale(first, 1, vector_shape, 10, 2.0, x.data());
  end.record(first);
  end.wait_on(second);
  device->fill_zero(x.data(), 40, second);
  EXPECT_THROW(end.seconds_since(begin), std::runtime_error);  // nobody has waited yet
  second.synchronize();
  EXPECT_GE(end.seconds_since(begin), 0.0);
  EXPECT_EQ(x.download(), (std::vector<double>{0, 0, 0, 0, 0, 2, 2, 2, 2, 2}));
}

TEST_P(GpuBackend, KernelsOfAFileAreCompiledOncePerTypeAndDevice) {
  const auto device = device::open(GetParam());
  const int before = fake->compilations;
  for (const char* name : {"axpy", "dot", "scale"}) vector_kernel<double>(*device, name);
  EXPECT_EQ(fake->compilations, before + 1);
  vector_kernel<float>(*device, "axpy");
  EXPECT_EQ(fake->compilations, before + 2);
  // Files with an instance per order: kernel by kernel.
  const std::vector<Define> order{{"WEFT_N", "3"}, {"WEFT_REAL", "double"}};
  device->kernel({"poisson", "poisson_stored_3d", order});
  device->kernel({"poisson", "poisson_stored_2d", order});
  EXPECT_EQ(fake->compilations, before + 4);
}

TEST_P(GpuBackend, AFailedCallIsAnErrorWithItsPurposeAndTheDriversWords) {
  const auto device = device::open(GetParam());
  fake->fail = "cuMemAlloc_v2";
  try {
    Array<double> x(device, 1000);
    ADD_FAILURE() << "allocated";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(
        error.what(),
        (std::string(GetParam()) + ": allocating 8000 bytes of device memory failed: out of memory (2)").c_str());
  }
  Stream stream(device);
  EXPECT_THROW((Kernel<int, double, double*>(vector_kernel<double>(*device, "scale"))), std::invalid_argument);
  EXPECT_THROW(device->kernel({"vector", "absent", {{"WEFT_REAL", "double"}}}), std::runtime_error);
  EXPECT_THROW(device->kernel({"vector", "axpy", {{"WEFT_REAL", "broken"}}}), std::runtime_error);
}

// Two streams with two kernels each; with `wait`, the second kernel of the second stream waits for the first kernel of
// the first stream. The delays used here are longer than those that a busy machine causes.
static std::map<std::string, trace::Interval> two_streams(device::Device& device, bool wait) {
  const auto scale = scale_kernel(device);
  const Kernel<long, double, double*> set = vector_kernel<double>(device, "set");
  const auto shared = device.shared_from_this();
  Array<double> x(shared, std::vector<double>(10, 1.0)), y(shared, std::vector<double>(10, 1.0));
  Stream one(shared), two(shared);
  Event first(shared);
  trace::enable(true);
  scale(one, 1, vector_shape, 10, 2.0, x.data());
  first.record(one);
  set(one, 1, vector_shape, 10, 3.0, x.data());
  scale(two, 1, vector_shape, 10, 2.0, y.data());
  if (wait) first.wait_on(two);
  set(two, 1, vector_shape, 10, 3.0, y.data());
  two.synchronize();
  one.synchronize();
  trace::enable(false);
  std::map<std::string, trace::Interval> found;
  for (const trace::Interval& i : trace::intervals()) {
    if (i.device) found.emplace(i.name + std::string(" ") + std::to_string(i.stream), i);
  }
  if (const char* folder = std::getenv("WEFT_TEST_TRACES")) {
    const char* delay = std::getenv("WEFT_TRACE_DELAY");
    trace::write_chrome_trace(std::string(folder) + "/" + (wait ? "wait" : "free") + (delay ? delay : "") + ".json", 0);
  }
  return found;
}

TEST_P(GpuBackend, AStreamsDelayHoldsUpWhatDependsOnItAndNothingElse) {
  const auto device = device::open(GetParam());
  for (const bool wait : {false, true}) {
    setenv("WEFT_TRACE_DELAY", "scale#0@0=500", 1);
    const auto found = two_streams(*device, wait);
    unsetenv("WEFT_TRACE_DELAY");
    EXPECT_TRUE(trace::unmet_delays().empty());
    ASSERT_EQ(found.size(), 4u);
    EXPECT_LE(found.at("scale 0").end_ns, found.at("set 0").begin_ns + 1000);
    EXPECT_LT(found.at("scale 1").end_ns, found.at("scale 0").begin_ns);
    EXPECT_EQ(found.at("set 1").begin_ns + 1000 >= found.at("scale 0").end_ns, wait);
  }
}

TEST_P(GpuBackend, TracesForEveryDelayOfTwoStreams) {  // read by test_model_order.py
  if (std::getenv("WEFT_TEST_TRACES") == nullptr) GTEST_SKIP() << "writes traces where WEFT_TEST_TRACES says";
  const auto device = device::open(GetParam());
  for (const bool wait : {false, true}) {
    two_streams(*device, wait);
    for (const char* delay : {"scale@0=500", "set@0=500", "scale@1=500", "set@1=500"}) {
      setenv("WEFT_TRACE_DELAY", delay, 1);
      two_streams(*device, wait);
      unsetenv("WEFT_TRACE_DELAY");
    }
  }
}

TEST(Cuda, ResourcesComeFromTheDriverAndSpillsFromTheLog) {
  if (std::getenv("WEFT_FAKE_GPU") == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  const auto device = device::open("cuda");
  const KernelResources resources = vector_kernel<double>(*device, "axpy").resources();
  EXPECT_EQ(resources.registers, 44);
  EXPECT_EQ(resources.stack_bytes, 43);
  EXPECT_EQ(resources.shared_bytes, 41);
  EXPECT_EQ(resources.spill_bytes, 20);
  EXPECT_EQ(resources.max_blocks_per_multiprocessor, 8);
}

TEST(Cuda, MoreThan48KbOfSharedMemoryMustBeAskedFor) {
  if (find_fake_gpu("cuda") == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  const auto device = device::open("cuda");
  Stream stream(device);
  const GpuApi& api = cuda_api();
  const Compiled compiled = compile(Backend::cuda, {"vector", "scale", {{"WEFT_REAL", "double"}}}, "sm_90");
  void *module = nullptr, *function = nullptr;
  ASSERT_EQ(api.load_module(&module, compiled.image.data()), 0);
  ASSERT_EQ(api.module_function(&function, module, "scale"), 0);
  Array<double> x(device, std::vector<double>{1, 2});
  long n = 2;
  double factor = 3, *values = x.data();
  void* arguments[] = {&n, &factor, &values};
  const auto launch = [&](unsigned bytes) {
    return api.launch(function, 1, 1, 1, 256, 1, 1, bytes, stream.handle(), arguments, nullptr);
  };
  EXPECT_EQ(launch(48 << 10), 0);
  EXPECT_NE(launch((48 << 10) + 1), 0);
  EXPECT_EQ(api.set_function_attribute(function, gpu::launch_shared_bytes, 64 << 10), 0);
  EXPECT_EQ(launch(64 << 10), 0);
  EXPECT_NE(launch((64 << 10) + 1), 0);
  EXPECT_NE(api.set_function_attribute(function, gpu::launch_shared_bytes, 228 << 10), 0);
  void* pointer = nullptr;
  std::size_t size = 0;
  EXPECT_EQ(api.module_variable(&pointer, &size, module, "scale_launch_shared"), gpu::not_found);
  stream.synchronize();
  EXPECT_EQ(x.download()[1], 2 * 3 * 3);
  EXPECT_EQ(api.unload_module(module), 0);
}

TEST(Cuda, AGpuNewerThanTheCompilerGetsPtxOfTheNewestArchitectureBelowIt) {
  FakeGpu* fake = find_fake_gpu("cuda");
  if (fake == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  for (const auto& [capability, target] : {std::pair{107, "compute_100"}, {103, "compute_100"}, {86, "compute_80"}}) {
    fake->capability = capability;
    const auto device = device::open("cuda");
    fake->capability = 90;
    EXPECT_EQ(device->info().architecture, "sm_" + std::to_string(capability));
    std::string options;
    fake->prepare = [&](const FakeLaunch& launch) {
      options = launch.options;
      return prepare_launch(launch);
    };
    check_vector_kernels<double>(device, 1000);
    fake->prepare = prepare_launch;
    EXPECT_NE(options.find(std::string("--gpu-architecture=") + target), std::string::npos) << options;
    EXPECT_EQ(scale_kernel(*device).resources().spill_bytes, unknown_resource);
  }
  EXPECT_THROW(compile_check({"vector", {"scale"}, {{"WEFT_REAL", "double"}}}, "sm_107"), std::runtime_error);
}

TEST(Hip, AnImageWithoutMetadataRunsAndItsSpillsAreUnknown) {
  if (std::getenv("WEFT_FAKE_GPU") == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  const auto device = device::open("hip");
  const KernelResources resources = vector_kernel<double>(*device, "axpy").resources();
  EXPECT_EQ(resources.registers, 44);
  EXPECT_EQ(resources.spill_bytes, unknown_resource);
}
