// cuFFT and hipFFT behind one interface, with the libraries made for tests (fake_gpu_fft.cpp), against the host's
// library.
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "find_fake_gpu.hpp"
#include "weft/fft/gpu_library.hpp"
#include "weft/trace/recorder.hpp"

using namespace weft;
using namespace weft::fft;
using device::Array;
using device::Stream;

namespace {

class GpuFft : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fake = device::find_fake_gpu(GetParam());
    if (fake == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
    fake->fail.clear();
    gpu = device::open(GetParam());
    ASSERT_EQ(gpu_library(gpu->backend()).problem, "");
  }

  template <class T>
  std::vector<T> random(std::int64_t size) {
    std::vector<T> values(size);
    std::uniform_real_distribution<T> value(-1, 1);
    for (T& v : values) v = value(engine);
    return values;
  }

  // Both sides as real numbers, because the values between the lines must not change either.
  template <class T>
  void check(const LinesShape& shape) {
    const std::int64_t reals_in = shape.extent_in() * (shape.kind == Kind::r2c ? 1 : 2);
    const std::int64_t reals_out = shape.extent_out() * (shape.kind == Kind::c2r ? 1 : 2);
    auto in = random<T>(reals_in);
    if (shape.kind == Kind::c2r) {
      for (std::int64_t i = 0; i < shape.count; ++i) {
        in[2 * i * shape.distance_in + 1] = 0;
        if (shape.n % 2 == 0) in[2 * (i * shape.distance_in + shape.n / 2 * shape.stride_in) + 1] = 0;
      }
    }
    auto expected = shape.in_place ? in : random<T>(reals_out);
    Array<T> from(gpu, in), to(gpu, expected);
    HostLines<T> host(shape);
    host(shape.in_place ? expected.data() : in.data(), expected.data());
    Stream stream(gpu);
    GpuLines<T> lines(gpu, shape);
    Array<char> work(gpu, lines.work_bytes());
    if (!work.empty()) lines.set_work_area(work.data());
    lines("fft", stream, shape.in_place ? to.data() : from.data(), to.data());
    stream.synchronize();
    const auto found = to.download();
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 40 * shape.n * std::numeric_limits<T>::epsilon()) << i;
  }

  FakeGpu* fake = nullptr;
  std::shared_ptr<device::Device> gpu;
  std::mt19937 engine{1};
};
INSTANTIATE_TEST_SUITE_P(Both, GpuFft, testing::Values("cuda", "hip"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace

TEST_P(GpuFft, EveryKindOfLinesIsTransformedAsOnTheHost) {
  for (const int n : {1, 2, 8, 15, 20}) {
    for (const Kind kind : {Kind::r2c, Kind::c2r, Kind::forward, Kind::backward}) {
      check<double>(LinesShape::contiguous(kind, n, 3));
      check<float>(LinesShape::contiguous(kind, n, 3));
      check<double>(LinesShape::columns(kind, n, 3, 4, 5));
      check<float>(LinesShape::columns(kind, n, 3, 4, 5));
    }
    check<double>(LinesShape::columns(Kind::forward, n, 3, 5, 5, true));
    check<float>(LinesShape::contiguous(Kind::backward, n, 3, true));
  }
}

TEST_P(GpuFft, WholeFieldsOfEverySizeAreTransformedAsOnTheHost) {
  const auto check_field = [&]<class T>(std::int64_t nx, std::int64_t ny, std::int64_t nz, T) {
    SCOPED_TRACE(std::to_string(nx) + " " + std::to_string(ny) + " " + std::to_string(nz));
    const FieldShape forward{nx, ny, nz, Kind::r2c}, backward{nx, ny, nz, Kind::c2r};
    const auto values = random<T>(forward.points());
    std::vector<T> expected(2 * forward.modes());
    HostField<T> host(forward);
    host(values.data(), expected.data());
    Array<T> points(gpu, values), modes(gpu, 2 * forward.modes());
    Stream stream(gpu);
    const auto transform = [&](const FieldShape& shape, const void* in, void* out) {
      GpuField<T> plan(gpu, shape);
      Array<char> work(gpu, plan.work_bytes());
      if (!work.empty()) plan.set_work_area(work.data());
      plan("fft", stream, in, out);
      stream.synchronize();
    };
    const T tolerance = 40 * static_cast<T>(forward.points()) * std::numeric_limits<T>::epsilon();
    transform(forward, points.data(), modes.data());
    const auto found = modes.download();
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << i;
    points.zero();
    transform(backward, modes.data(), points.data());
    const auto back = points.download();
    for (std::size_t i = 0; i < back.size(); ++i)
      ASSERT_NEAR(back[i] / static_cast<T>(forward.points()), values[i], tolerance) << i;
  };
  for (const auto& [nx, ny, nz] :
       {std::array{8, 4, 2}, {7, 5, 3}, {6, 9, 4}, {1, 4, 6}, {10, 1, 3}, {5, 6, 1}, {9, 1, 1}}) {
    check_field(nx, ny, nz, double());
    check_field(nx, ny, nz, float());
  }
}

TEST_P(GpuFft, AFieldThatTheLibraryRefusesIsNamed) {
  void* library = dlopen(gpu->backend() == device::Backend::hip ? "libhipfft.so" : "libcufft.so.12", RTLD_NOW);
  auto* refuse = reinterpret_cast<void (*)(int)>(dlsym(library, "fake_gpu_fft_refuse"));
  auto* plans = reinterpret_cast<int (*)()>(dlsym(library, "fake_gpu_fft_plans"));
  const int before = plans();
  std::string text;
  refuse(3);
  try {
    GpuField<double> field(gpu, FieldShape{6, 5, 4, Kind::c2r});
  } catch (const std::runtime_error& error) {
    text = error.what();
  }
  refuse(0);
  EXPECT_NE(text.find("FFT: planning the transform of a field of 6 x 5 x 4 points failed: invalid size (8)"), text.npos)
      << text;
  EXPECT_EQ(plans(), before);
  EXPECT_THROW(GpuField<double>(gpu, FieldShape{6, 0, 4, Kind::c2r}), std::invalid_argument);
}

TEST_P(GpuFft, ADistanceBeyondAnIntIsGivenInFull) {
  // The second line begins 2³¹ elements after the first. The library made for tests would read there, so this only
  // plans.
  const std::int64_t far = std::int64_t{1} << 31;
  GpuLines<double> lines(gpu, {.kind = Kind::forward, .n = 8, .count = 2, .distance_in = far, .distance_out = far});
  EXPECT_EQ(lines.work_bytes(), 0U);
}

TEST_P(GpuFft, APlanWithoutItsWorkAreaIsRefused) {
  GpuLines<double> lines(gpu, LinesShape::contiguous(Kind::forward, 15, 1));
  ASSERT_GT(lines.work_bytes(), 0U);
  Array<double> x(gpu, 30);
  Stream stream(gpu);
  EXPECT_THROW(lines("fft", stream, x.data(), x.data()), std::logic_error);
}

TEST_P(GpuFft, PlansAndTheirDeviceMemoryAreReleased) {
  void* library = dlopen(gpu->backend() == device::Backend::hip ? "libhipfft.so" : "libcufft.so.12", RTLD_NOW);
  ASSERT_NE(library, nullptr);
  auto* plans = reinterpret_cast<int (*)()>(dlsym(library, "fake_gpu_fft_plans"));
  const int before = plans(), live = fake->live;
  {
    GpuLines<double> lines(gpu, LinesShape::contiguous(Kind::forward, 8, 1));
    GpuLines<double> moved(std::move(lines));
    EXPECT_EQ(plans(), before + 1);
  }
  EXPECT_EQ(plans(), before);
  EXPECT_EQ(fake->live, live);
}

TEST_P(GpuFft, ATransformIsSeenOnTheDevicesTimeLine) {
  GpuLines<double> lines(gpu, LinesShape::contiguous(Kind::forward, 8, 1));
  Array<double> x(gpu, std::vector<double>(16, 1.0));
  Stream stream(gpu);
  trace::enable(true);
  lines("fft z", stream, x.data(), x.data());
  stream.synchronize();
  trace::enable(false);
  bool seen = false;
  for (const trace::Interval& interval : trace::intervals())
    seen |= interval.device && interval.category == trace::Category::gpu && std::string(interval.name) == "fft z";
  EXPECT_TRUE(seen);
}
