// The emulator compared with the same computation on the host, one group of instructions after the other, and every
// fault that it must find. NVRTC compiles the kernels below; results are bit-equal unless stated otherwise.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "machine_code/disassembly.hpp"
#include "machine_code/machine.hpp"
#include "weft/device/compiler.hpp"

using namespace weft;
using namespace weft::machine_code;

namespace {

// The image of a source, compiled as weft compiles its kernels.
std::shared_ptr<Module> compiled(const std::string& source) {
  const device::KernelSpec spec{"probe", "probe", {}};
  return std::make_shared<Module>(
      Image(device::compile(device::Backend::cuda, spec, "sm_90", 0, source.c_str()).image));
}

// The arguments of a launch: vectors are global memory with checked bounds.
class Launch {
 public:
  explicit Launch(std::shared_ptr<Module> module, std::string name = "probe")
      : module_(std::move(module)), name_(std::move(name)) {}
  explicit Launch(const std::string& source) : Launch(compiled(source)) {}
  template <class T>
  Launch& operator()(std::vector<T>& values) {
    const auto begin = reinterpret_cast<std::uintptr_t>(values.data());
    ranges_.emplace_back(begin, begin + values.size() * sizeof(T));
    return (*this)(values.data());
  }
  template <class T>
  Launch& operator()(T value) {
    arguments_.emplace_back(sizeof value);
    std::memcpy(arguments_.back().data(), &value, sizeof value);
    return *this;
  }
  Counters run(Dimensions blocks, Dimensions threads, unsigned launch_shared = 0) {
    std::vector<void*> pointers;
    for (auto& argument : arguments_) pointers.push_back(argument.data());
    return launch(*module_, name_, blocks, threads, launch_shared,
                  pack_parameters(module_->kernel(name_), pointers.data()),
                  [this](std::uintptr_t address) -> std::pair<std::uintptr_t, std::uintptr_t> {
                    for (const auto& range : ranges_)
                      if (address >= range.first && address < range.second) return range;
                    return {0, 0};
                  });
  }

 private:
  std::shared_ptr<Module> module_;
  std::string name_;
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges_;
  std::vector<std::vector<char>> arguments_;
};

std::string kernel(const std::string& parameters, const std::string& body, const std::string& name = "probe") {
  return "extern \"C\" __global__ void __launch_bounds__(256) " + name + "(" + parameters +
         ") { const int t = threadIdx.x + 256 * blockIdx.x; " + body + " }\n";
}

constexpr int count = 1024;  // four blocks

// Random bits, preceded by values that often cause errors.
template <class T>
std::vector<T> awkward(unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (T& value : values) {
    const std::uint64_t bits = random() >> (random() % 3 == 0 ? random() % 60 : 0);
    std::memcpy(&value, &bits, sizeof value);
  }
  using L = std::numeric_limits<T>;
  std::vector<T> known{T(0), T(1), T(-1), T(2), T(3), T(7), L::max(), L::lowest()};
  if constexpr (std::is_floating_point_v<T>)
    for (const T value : {-T(0), L::min(), L::denorm_min(), -L::denorm_min(), L::infinity(), -L::infinity(),
                          L::quiet_NaN(), T(1) + L::epsilon(), T(1) / 3, L::min() * 3, L::max() / 3})
      known.push_back(value);
  for (std::size_t k = 0; k < known.size() * known.size() && k < values.size(); ++k)
    values[k] = known[seed % 2 == 0 ? k % known.size() : k / known.size()];
  return values;
}

template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(a) && std::isnan(b)) return true;
  return std::memcmp(&a, &b, sizeof a) == 0;
}

using s64 = long long;
using u64 = unsigned long long;

// An environment variable, until the end of its scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* now = std::getenv(name)) before_ = now;
    setenv(name, value, 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class MachineCode : public testing::Test {
 protected:
  void SetUp() override {
    const device::Availability compiler = device::compiler_availability(device::Backend::cuda, 0);
    if (!compiler.available) GTEST_SKIP() << compiler.reason;
    if (const std::string problem = disassembler_problem(); !problem.empty()) GTEST_SKIP() << problem;
  }
};

// Tests whose kernels are compiled together at their end, since compiler and disassembler take longer to start than for
// one kernel.
class MachineCodeOfMany : public MachineCode {
 protected:
  // `run` gets the kernel of this body.
  void later(const std::string& parameters, const std::string& body, std::function<void(Launch)> run) {
    const std::string name = "probe" + std::to_string(runs_.size());
    source_ += kernel(parameters, body, name);
    runs_.emplace_back(name, std::move(run));
  }
  void TearDown() override {
    if (IsSkipped()) return;
    const std::shared_ptr<Module> module = compiled(source_);
    for (const auto& [name, run] : runs_) run(Launch(module, name));
  }

  // y = expression(a, b), in CUDA and on the host.
  template <class A, class Y = A, class Host>
  void check(const std::string& a_type, const std::string& y_type, const std::string& expression, Host host) {
    later("const " + a_type + "* p, const " + a_type + "* q, " + y_type + "* r",
          "const " + a_type + " a = p[t], b = q[t]; r[t] = " + expression + ";", [=](Launch launch) {
            std::vector<A> a = awkward<A>(0), b = awkward<A>(1);
            std::vector<Y> y(count);
            launch(a)(b)(y).run({4}, {256});
            for (int k = 0; k < count; ++k) {
              const auto i = static_cast<std::size_t>(k);
              const Y expected = host(a[i], b[i]);
              ASSERT_TRUE(same(y[i], expected))
                  << expression << " of " << a[i] << ", " << b[i] << ": " << y[i] << " instead of " << expected;
            }
          });
  }

  void expect_fault(const std::string& words, const std::string& body, unsigned threads = 64) {
    later("int* y", body, [=](Launch launch) {
      std::vector<int> y(256);
      try {
        launch(y).run({1}, {threads});
        ADD_FAILURE() << "no fault: " << body;
      } catch (const Fault& fault) {
        EXPECT_NE(std::string(fault.what()).find(words), std::string::npos) << fault.what();
      }
    });
  }

 private:
  std::string source_;
  std::vector<std::pair<std::string, std::function<void(Launch)>>> runs_;
};

}  // namespace

TEST_F(MachineCode, OneStartOfTheDisassemblerServesAllAnnouncedCubins) {
  const auto cubin = [](const std::string& body) { return compiled(kernel("double* y", body))->image().bytes(); };
  const std::string sum = cubin("for (int k = 0; k < t; ++k) y[k] += 1.5;"), product = cubin("y[t] *= 1.5;");
  const auto names = [](const std::string& of) {
    std::set<std::string> found;
    const std::map<std::string, Listing> listings = disassemble(of);
    for (const Line& line : listings.at("probe").lines) found.insert(line.name);
    return found;
  };
  const Variable no_cache("WEFT_CACHE", "off");
  announce(product);
  EXPECT_EQ(names(sum).count("DADD"), 1u);
  const Variable no_disassembler("WEFT_NVDISASM", "/absent");  // from here on it cannot be started
  EXPECT_NE(disassembler_problem(), "");
  EXPECT_EQ(names(product).count("DMUL"), 1u);
  EXPECT_EQ(names(product).count("DADD"), 0u);
}

TEST_F(MachineCodeOfMany, IntegersOf32Bits) {
  const auto wrap = [](s64 x) { return static_cast<int>(static_cast<unsigned>(x)); };
  check<int>("int", "int", "a * b + 12345 - (a << 3)", [=](s64 a, s64 b) {
    return wrap(static_cast<s64>(static_cast<u64>(a) * static_cast<u64>(b) + 12345 - static_cast<u64>(a) * 8));
  });
  check<int>("int", "int", "b == 0 || b == -1 ? 5 : a / b", [](int a, int b) { return b == 0 || b == -1 ? 5 : a / b; });
  check<int>("int", "int", "b == 0 || b == -1 ? 5 : a % b", [](int a, int b) { return b == 0 || b == -1 ? 5 : a % b; });
  check<unsigned>("unsigned", "unsigned", "b == 0 ? 5 : a / b + a % b * 3",
                  [](unsigned a, unsigned b) { return b == 0 ? 5 : a / b + a % b * 3; });
  check<int>("int", "int", "a / 7 + b % 10", [=](int a, int b) { return wrap(s64{a} / 7 + b % 10); });
  check<int>("int", "int", "__mulhi(a, b)", [](s64 a, s64 b) { return static_cast<int>((a * b) >> 32); });
  check<unsigned>("unsigned", "unsigned", "__umulhi(a, b)",
                  [](u64 a, u64 b) { return static_cast<unsigned>((a * b) >> 32); });
  check<int>("int", "int", "min(a, b) ^ max(a + 5, b)",
             [=](int a, int b) { return std::min(a, b) ^ std::max(wrap(s64{a} + 5), b); });
  check<unsigned>("unsigned", "unsigned", "(a & ~b) | (a ^ b) >> 3 | (a > b)",
                  [](unsigned a, unsigned b) { return (a & ~b) | (a ^ b) >> 3 | (a > b ? 1u : 0u); });
  check<unsigned>("unsigned", "unsigned", "__popc(a) + 64 * __clz(b) + 4096 * __ffs(a) + __brev(b)",
                  [](unsigned a, unsigned b) {
                    unsigned reversed = 0;
                    for (int k = 0; k < 32; ++k) reversed |= (b >> k & 1) << (31 - k);
                    return static_cast<unsigned>(std::popcount(a) + 64 * std::countl_zero(b) +
                                                 4096 * (a == 0 ? 0 : 1 + std::countr_zero(a))) +
                           reversed;
                  });
  check<unsigned>("unsigned", "unsigned", "__funnelshift_l(a, b, b) + __byte_perm(a, b, 0x3645)",
                  [](unsigned a, unsigned b) {
                    const u64 both = a | static_cast<u64>(b) << 32;
                    unsigned bytes = 0;
                    for (int k = 0; k < 4; ++k)
                      bytes |= static_cast<unsigned>(both >> (8 * (0x3645 >> (4 * k) & 7)) & 0xff) << (8 * k);
                    return static_cast<unsigned>(both << (b & 31) >> 32) + bytes;
                  });
  check<int, int>("int", "int", "(short)a + (signed char)b + (unsigned char)a", [](int a, int b) {
    return static_cast<short>(a) + static_cast<signed char>(b) + static_cast<unsigned char>(a);
  });
}

TEST_F(MachineCodeOfMany, IntegersOf64Bits) {
  check<u64>("unsigned long long", "unsigned long long", "a * b + (a << 5) - b",
             [](u64 a, u64 b) { return a * b + (a << 5) - b; });
  check<s64>("long long", "long long", "(a >> (b & 63)) ^ (a < b) ^ (a == b) * 8",
             [](s64 a, s64 b) { return (a >> (b & 63)) ^ (a < b ? 1 : 0) ^ (a == b ? 8 : 0); });
  check<u64>("unsigned long long", "unsigned long long", "(a << (b & 63)) + (a >> (b & 63)) + (a >= b)",
             [](u64 a, u64 b) { return (a << (b & 63)) + (a >> (b & 63)) + (a >= b ? 1 : 0); });
  check<s64>("long long", "long long", "b == 0 || b == -1 ? 5 : a / b",
             [](s64 a, s64 b) { return b == 0 || b == -1 ? 5 : a / b; });
  check<s64>("long long", "long long", "b == 0 || b == -1 ? 5 : a % b",
             [](s64 a, s64 b) { return b == 0 || b == -1 ? 5 : a % b; });
  check<u64>("unsigned long long", "unsigned long long", "b == 0 ? 5 : a / b - a % b",
             [](u64 a, u64 b) { return b == 0 ? 5 : a / b - a % b; });
  check<u64>("unsigned long long", "unsigned long long", "__umul64hi(a, b)",
             [](u64 a, u64 b) { return static_cast<u64>(static_cast<unsigned __int128>(a) * b >> 64); });
}

TEST_F(MachineCodeOfMany, DoublePrecision) {
  check<double>("double", "double", "a + b", [](double a, double b) { return a + b; });
  check<double>("double", "double", "a * b", [](double a, double b) { return a * b; });
  check<double>("double", "double", "fma(a, b, -a)", [](double a, double b) { return std::fma(a, b, -a); });
  check<double>("double", "double", "a / b", [](double a, double b) { return a / b; });
  check<double>("double", "double", "1 / b", [](double, double b) { return 1 / b; });
  check<double>("double", "double", "sqrt(a)", [](double a, double) { return std::sqrt(a); });
  check<double>("double", "double", "fmin(a, b)", [](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
    return a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
  });
  check<double, int>("double", "int",
                     "(a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b) + 16 * !(a >= b) + 32 * isnan(a)",
                     [](double a, double b) {
                       return (a < b ? 1 : 0) + (a <= b ? 2 : 0) + (a == b ? 4 : 0) + (a != b ? 8 : 0) +
                              (!(a >= b) ? 16 : 0) + (std::isnan(a) ? 32 : 0);
                     });
  check<double>("double", "double", "trunc(a) + floor(b)",
                [](double a, double b) { return std::trunc(a) + std::floor(b); });
}

TEST_F(MachineCodeOfMany, SinglePrecision) {
  check<float>("float", "float", "a + b", [](float a, float b) { return a + b; });
  check<float>("float", "float", "fmaf(a, b, -a)", [](float a, float b) { return std::fma(a, b, -a); });
  check<float>("float", "float", "a / b", [](float a, float b) { return a / b; });
  check<float>("float", "float", "1 / b", [](float, float b) { return 1 / b; });
  check<float>("float", "float", "sqrtf(a)", [](float a, float) { return std::sqrt(a); });
  check<float>("float", "float", "fmaxf(a, b)", [](float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
    return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
  });
  check<float, int>(
      "float", "int", "(a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b) + 16 * !(a >= b)", [](float a, float b) {
        return (a < b ? 1 : 0) + (a <= b ? 2 : 0) + (a == b ? 4 : 0) + (a != b ? 8 : 0) + (!(a >= b) ? 16 : 0);
      });
}

TEST_F(MachineCodeOfMany, Conversions) {
  check<double, float>("double", "float", "(float)a", [](double a, double) { return static_cast<float>(a); });
  check<float, double>("float", "double", "(double)a", [](float a, float) { return static_cast<double>(a); });
  check<s64, double>("long long", "double", "(double)a", [](s64 a, s64) { return static_cast<double>(a); });
  check<u64, float>("unsigned long long", "float", "(float)a", [](u64 a, u64) { return static_cast<float>(a); });
  check<int, float>("int", "float", "(float)a", [](int a, int) { return static_cast<float>(a); });
  check<int, double>("int", "double", "(double)a", [](int a, int) { return static_cast<double>(a); });
  const auto saturated = [](double x) {
    if (std::isnan(x)) return 0;
    return x >= 2147483647.0 ? 2147483647 : x <= -2147483648.0 ? -2147483647 - 1 : static_cast<int>(x);
  };
  check<float, int>("float", "int", "(int)a", [=](float a, float) { return saturated(static_cast<double>(a)); });
  check<double, int>("double", "int", "isnan(a) ? 0 : (int)a", [=](double a, double) { return saturated(a); });
  check<double, s64>("double", "long long", "fabs(a) < 1e18 ? (long long)a : 0",
                     [](double a, double) { return std::abs(a) < 1e18 ? static_cast<s64>(a) : 0; });
  check<double, int>("double", "int", "fabs(a) < 1e9 ? __double2int_rn(a) : 0",
                     [](double a, double) { return std::abs(a) < 1e9 ? static_cast<int>(std::nearbyint(a)) : 0; });
}

TEST_F(MachineCode, FunctionsOfTheMathLibrary) {  // CUDA's and the host's functions round differently
  std::vector<double> x(count), y(5 * count);
  std::mt19937_64 random(3);
  for (double& value : x)
    value = std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), static_cast<int>(random() % 40));
  Launch(kernel("const double* x, double* y",
                "const double a = x[t]; y[5 * t] = sin(a); y[5 * t + 1] = cos(a); "
                "y[5 * t + 2] = exp(a / 1e9); y[5 * t + 3] = log(fabs(a)); y[5 * t + 4] = pow(fabs(a), 0.3);"))(x)(y)
      .run({4}, {256});
  for (std::size_t k = 0; k < count; ++k) {
    const double a = x[k], expected[] = {std::sin(a), std::cos(a), std::exp(a / 1e9), std::log(std::abs(a)),
                                         std::pow(std::abs(a), 0.3)};
    for (std::size_t f = 0; f < 5; ++f)
      ASSERT_NEAR(y[5 * k + f], expected[f], 1e-15 * std::max(1.0, std::abs(expected[f]))) << f << " of " << a;
  }
}

TEST_F(MachineCode, LanesThatPartMeetAgain) {
  std::vector<int> y(count);
  Launch(kernel("int* y", R"(
    int sum = 0;
    for (int k = 0; k < t % 7; ++k) {
      if ((t + k) % 3 == 0) { sum += 5; continue; }
      for (int m = 0; m < (t ^ k) % 5; ++m) {
        if (m * k > t % 11) break;
        sum += y[t] + m;
      }
      switch ((t + k) % 6) {
        case 0: sum *= 3; break;
        case 1: sum -= k; break;
        case 2: sum ^= 0x55; break;
        case 3: if (t % 2) sum += 100; break;
        case 5: y[t] = sum; return;
      }
    }
    y[t] = sum;)"))(y)
      .run({4}, {256});
  for (int t = 0; t < count; ++t) {
    const int expected = [t] {
      int sum = 0;
      for (int k = 0; k < t % 7; ++k) {
        if ((t + k) % 3 == 0) {
          sum += 5;
          continue;
        }
        for (int m = 0; m < (t ^ k) % 5; ++m) {
          if (m * k > t % 11) break;
          sum += m;
        }
        switch ((t + k) % 6) {
          case 0:
            sum *= 3;
            break;
          case 1:
            sum -= k;
            break;
          case 2:
            sum ^= 0x55;
            break;
          case 3:
            if (t % 2 != 0) sum += 100;
            break;
          case 5:
            return sum;
          default:
            break;
        }
      }
      return sum;
    }();
    ASSERT_EQ(y[static_cast<std::size_t>(t)], expected) << t;
  }
}

TEST_F(MachineCode, AWholeWarpJumpsByATable) {
  const std::string source = kernel("int which, int* y", R"(
    int v = t;
    asm volatile("{ table: .branchtargets ZERO, ONE, TWO; brx.idx.uni %1, table;"
                 "ZERO: add.s32 %0, %0, 10; bra.uni END; ONE: mul.lo.s32 %0, %0, %0; bra.uni END;"
                 "TWO: xor.b32 %0, %0, 85; END: }" : "+r"(v) : "r"(which));
    y[t] = v;)");
  for (int which = 0; which < 3; ++which) {
    std::vector<int> y(count);
    const Counters counters = Launch(source)(which)(y).run({4}, {256});
    EXPECT_EQ(counters.by_opcode.count("BRXU"), 1u);
    for (int t = 0; t < count; ++t)
      ASSERT_EQ(y[static_cast<std::size_t>(t)], which == 0 ? t + 10 : which == 1 ? t * t : t ^ 85);
  }
}

TEST_F(MachineCode, ShufflesAndVotes) {
  std::vector<int> y(8 * count);
  Launch(kernel("int* y", R"(
    const int l = t % 32; int* r = y + 8 * t; const unsigned all = 0xffffffff;
    r[0] = __shfl_sync(all, t * 3, l / 2); r[1] = __shfl_up_sync(all, t, 3, 8); r[2] = __shfl_down_sync(all, t, 2);
    r[3] = __shfl_xor_sync(all, t, 5); r[4] = __ballot_sync(all, t % 3 == 0); r[5] = __any_sync(all, t % 64 == 40);
    r[6] = __all_sync(all, l < 32 && t > 31);
    int sum = t; for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(all, sum, d);
    r[7] = sum;)"))(y)
      .run({4}, {256});
  for (int t = 0; t < count; ++t) {
    const int l = t % 32, w = t - l;
    const int* r = y.data() + 8 * t;
    unsigned ballot = 0;
    for (int k = 0; k < 32; ++k) ballot |= static_cast<unsigned>((w + k) % 3 == 0) << k;
    EXPECT_EQ(r[0], 3 * (w + l / 2));
    EXPECT_EQ(r[1], l % 8 >= 3 ? t - 3 : t);
    EXPECT_EQ(r[2], l < 30 ? t + 2 : t);
    EXPECT_EQ(r[3], w + (l ^ 5));
    EXPECT_EQ(static_cast<unsigned>(r[4]), ballot);
    EXPECT_EQ(r[5], w % 64 == 32 ? 1 : 0);
    EXPECT_EQ(r[6], w > 0 ? 1 : 0);
    if (l == 0) {
      EXPECT_EQ(r[7], 32 * t + 31 * 16);
    }
  }
}

TEST_F(MachineCode, LanesOfHalfAWarpShuffleAmongThemselves) {
  std::vector<int> y(count);
  Launch(kernel("int* y",
                "if (t % 32 < 16) y[t] = __shfl_xor_sync(0xffff, t, 1) + __popc(__activemask()); else y[t] = -1;"))(y)
      .run({4}, {256});
  for (int t = 0; t < count; ++t) EXPECT_EQ(y[static_cast<std::size_t>(t)], t % 32 < 16 ? (t ^ 1) + 16 : -1);
}

// Small integers, so that sums are exact in any order; one matrix per warp.
const char* const multiply =
    R"(asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
       : "+d"(c[2 * t]), "+d"(c[2 * t + 1]) : "d"(a[t]), "d"(b[t]));)";
TEST_F(MachineCode, MatricesOfAWarpAreMultiplied) {
  std::vector<double> a(count), b(count), c(2 * count);
  std::mt19937 random(3);
  const auto small = [&] { return static_cast<double>(static_cast<int>(random() % 201) - 100); };
  std::ranges::generate(a, small);
  std::ranges::generate(b, small);
  std::ranges::generate(c, small);
  std::vector<double> expected = c;
  for (std::size_t w = 0; w < count / 32; ++w)  // a [8][4], b by columns [8][4], c [8][8], all row-major
    for (std::size_t i = 0; i < 8; ++i)
      for (std::size_t j = 0; j < 8; ++j)
        for (std::size_t k = 0; k < 4; ++k)
          expected[64 * w + 8 * i + j] += a[32 * w + 4 * i + k] * b[32 * w + 4 * j + k];
  const Counters counters =
      Launch(kernel("const double* a, const double* b, double* c", multiply))(a)(b)(c).run({4}, {256});
  EXPECT_EQ(c, expected);
  EXPECT_EQ(counters.by_pipe[static_cast<std::size_t>(Pipe::tensor)], count / 32);
  EXPECT_EQ(counters.flops, 2 * 8 * 8 * 4 * (count / 32));
}

TEST_F(MachineCode, Atomics) {
  std::vector<int> n(4);
  std::vector<double> d(1);
  std::vector<u64> u(2);
  n[2] = 1000000;
  Launch(kernel("int* n, double* d, unsigned long long* u", R"(
    __shared__ int s; if (threadIdx.x == 0) s = 0; __syncthreads(); atomicAdd(&s, t); __syncthreads();
    atomicAdd(n, t % 5); atomicMax(n + 1, t * 7 % 1000); atomicMin(n + 2, 5000 - t); if (threadIdx.x == 0) atomicAdd(n + 3, s);
    atomicAdd(d, 0.5 * t); atomicAdd(u, 1ull << 33); if (t == 9) atomicCAS(u + 1, 0ull, 77ull);)"))(n)(d)(u)
      .run({4}, {256});
  int sum = 0, largest = 0;
  for (int t = 0; t < count; ++t) sum += t % 5, largest = std::max(largest, t * 7 % 1000);
  EXPECT_EQ(n, (std::vector<int>{sum, largest, 5000 - 1023, 1023 * 512}));
  EXPECT_EQ(d[0], 0.5 * 1023 * 512);
  EXPECT_EQ(u, (std::vector<u64>{u64{count} << 33, 77}));
}

TEST_F(MachineCode, LocalAndSharedAndConstantMemory) {
  std::vector<int> index(count), y(count);
  for (int t = 0; t < count; ++t) index[static_cast<std::size_t>(t)] = t * 5 % 16;
  Launch("__constant__ int table[4] = {3, 1, 4, 1};" + kernel("const int* index, int* y", R"(
    int own[16]; for (int k = 0; k < 16; ++k) own[k] = k * k + t; own[index[t]] += 1000;
    __shared__ int turned[256]; turned[255 - threadIdx.x] = own[index[(t + 1) % 1024]]; __syncthreads();
    y[t] = turned[threadIdx.x] + table[index[t] % 4];)"))(index)(y)
      .run({4}, {256});
  for (int t = 0; t < count; ++t) {
    const int from = t / 256 * 256 + 255 - t % 256;
    const auto at = [&](int k) { return index[static_cast<std::size_t>(k % count)]; };
    const int k = at(from + 1), table[] = {3, 1, 4, 1};
    EXPECT_EQ(y[static_cast<std::size_t>(t)], k * k + from + (k == at(from) ? 1000 : 0) + table[at(t) % 4]);
  }
}

TEST_F(MachineCode, SharedMemoryOfTheLaunchFollowsWhatTheKernelDeclares) {
  const auto module = compiled(
      kernel("int* y", R"(
    extern __shared__ int given[]; __shared__ int declared[256];
    given[threadIdx.x] = t; declared[threadIdx.x] = -t; __syncthreads();
    y[t] = 1000 * given[255 - threadIdx.x] + declared[255 - threadIdx.x];)") +
      kernel("int* y",
             "extern __shared__ int given[]; given[threadIdx.x] = t; __syncthreads(); y[t + 64] = given[y[0]];",
             "alone") +
      "extern \"C\" __device__ int probe_launch_shared = 1024;");
  std::vector<int> y(count);
  const Counters counters = Launch(module)(y).run({4}, {256}, 1024);
  for (int t = 0; t < count; ++t) EXPECT_EQ(y[static_cast<std::size_t>(t)], 999 * (t / 256 * 256 + 255 - t % 256));
  EXPECT_EQ(counters.shared_bytes, 2048u);
  const auto fault_of = [&](const char* name, int at, unsigned threads, unsigned bytes) -> std::string {
    y[0] = at;
    try {
      Launch(module, name)(y).run({1}, {threads}, bytes);
    } catch (const Fault& fault) {
      return fault.what();
    }
    return "";
  };
  EXPECT_EQ(fault_of("alone", 3, 64, 1024), "");
  EXPECT_NE(fault_of("alone", 64, 64, 1024).find("nothing was written to"), std::string::npos);
  EXPECT_NE(fault_of("alone", 256, 64, 1024).find("shared memory that is not the kernel's"), std::string::npos);
  EXPECT_NE(fault_of("probe", 0, 256, 1020).find("shared memory that is not the kernel's"), std::string::npos);
  int said = 0;
  ASSERT_EQ(module->image().variable("probe_launch_shared").size(), sizeof said);
  std::memcpy(&said, module->image().variable("probe_launch_shared").data(), sizeof said);
  EXPECT_EQ(said, 1024);
  EXPECT_TRUE(module->image().variable("no_such_variable").empty());
}

TEST_F(MachineCode, CopiesToSharedMemoryArriveWhenTheyAreWaitedFor) {
  const auto source = [](const char* wait) {
    return kernel("const double* x, double* y", std::string(R"(
    __shared__ double s[256];
    const unsigned to = __cvta_generic_to_shared(s + threadIdx.x);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(to), "l"(x + t) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");)") +
                                                    wait + R"(
    __syncthreads(); y[t] = s[255 - threadIdx.x];)");
  };
  std::vector<double> x(count), y(count);
  std::iota(x.begin(), x.end(), 0.0);
  Launch(source(R"(asm volatile("cp.async.wait_group 0;" ::: "memory");)"))(x)(y).run({4}, {256});
  for (int t = 0; t < count; ++t) EXPECT_EQ(y[static_cast<std::size_t>(t)], t / 256 * 256 + 255 - t % 256);
  EXPECT_THROW(Launch(source(""))(x)(y).run({4}, {256}), Fault);
}

TEST_F(MachineCodeOfMany, AMissingBarrierIsFound) {
  const std::string begin = "__shared__ int s[64]; s[t] = 1; __syncthreads(); ";
  expect_fault("writes shared memory with no barrier after the read of", begin + "s[t] = t; y[t] = s[(t + 1) % 64];");
  expect_fault("reads shared memory with no barrier after the write of",
               begin + "y[t] = s[63 - t]; s[t] = t; __syncthreads(); y[t] += s[t ^ 1];");
  expect_fault("writes shared memory with no barrier after the write of",
               begin + "s[t % 2] = t; __syncthreads(); y[t] = s[0];");
  // Within one warp whose lanes have diverged.
  expect_fault("no barrier after the", begin + "if (t % 2) { y[t] = 1; s[t] = y[t + 1]; } else { y[t] = s[t + 1]; }",
               32);
}
TEST_F(MachineCode, AWarpsOwnSynchronisationIsEnoughWithinIt) {
  std::vector<int> y(256);
  Launch(kernel("int* y", "__shared__ int s[64]; s[t] = t; __syncwarp(); y[t] = s[t ^ 31];"))(y).run({1}, {64});
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[static_cast<std::size_t>(t)], t ^ 31);
}
TEST_F(MachineCode, SomeLanesOfAWarpSynchroniseAmongThemselves) {
  std::vector<int> y(256);
  Launch(kernel("int* y", R"(
    __shared__ int s[32]; const unsigned half = t < 16 ? 0xffff : 0xffff0000;
    s[t] = t; __syncwarp(half); if (t % 16 < 8) y[t] = s[t ^ 8]; else y[t] = s[t ^ 8] + 100;)"))(y)
      .run({1}, {32});
  for (int t = 0; t < 32; ++t) EXPECT_EQ(y[static_cast<std::size_t>(t)], (t ^ 8) + (t % 16 < 8 ? 0 : 100));
}
TEST_F(MachineCodeOfMany, ASynchronisationOrdersOnlyTheLanesThatTakePart) {
  expect_fault("reads shared memory with no barrier after the write of", R"(
    __shared__ int s[32]; const unsigned half = t < 16 ? 0xffff : 0xffff0000;
    s[t] = t; __syncwarp(half); y[t] = s[t ^ 16];)",
               32);
  expect_fault("synchronises lanes of which it is none", "const int none = y[t]; __syncwarp(0xffff + none); y[t] = 1;",
               32);
}
TEST_F(MachineCode, AProductOfMatricesOrdersTheLanesOfAWarp) {
  std::vector<int> y(256);
  Launch(kernel("int* y", R"(
    __shared__ double s[32]; s[t] = t; __syncthreads(); double c[2] = {s[t ^ 16], 1};
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%0}, {%1}, {%0, %1};"
                 : "+d"(c[0]), "+d"(c[1]));
    if (t < 16) for (int k = 0; k <= y[t]; ++k) { s[t] = c[0] + k; y[t + 64] = k; }
    __syncthreads(); y[t + 128] = s[t] > 0;)"))(y)
      .run({1}, {32});
  EXPECT_EQ(y[137], 1);
}
TEST_F(MachineCodeOfMany, AtomicsOfOtherThreadsAreWritesToo) {
  const std::string begin = "__shared__ int s; if (t == 0) s = 0; __syncthreads(); atomicAdd(&s, t); ";
  expect_fault("reads shared memory with no barrier after the write of", begin + "if (t == 63) y[0] = s;");
  expect_fault("writes shared memory with no barrier after the write of", begin + "if (t == 63) s = y[0];");
  later("int* y", begin + "atomicMax(&s, 5); __syncthreads(); y[t] = s; ", [](Launch launch) {
    std::vector<int> y(256);
    launch(y).run({1}, {64});
    EXPECT_EQ(y[9], 63 * 32);
  });
}
TEST_F(MachineCodeOfMany, RacesInGlobalMemoryAreFound) {
  const auto expect = [this](const std::string& words, const std::string& body) {
    later("int* y, int* z", body, [=](Launch launch) {
      std::vector<int> y(1024), z(1024);
      try {
        launch(y)(z).run({2}, {64});  // t is 0 … 63 and 256 … 319
        EXPECT_EQ(words, "") << body;
      } catch (const Fault& fault) {
        EXPECT_NE(words, "") << fault.what();
        EXPECT_NE(std::string(fault.what()).find(words), std::string::npos) << fault.what();
      }
    });
  };
  const std::string between = "global memory that another block of the launch ";
  expect("", "y[t] = z[0]; y[t] += y[t ^ 1]; __syncthreads(); z[t + 1] = y[t ^ 32];");
  expect("", "atomicAdd(y, t); y[t + 1] = 1;");
  expect("writes " + between + "writes", "y[threadIdx.x] = t;");
  expect("writes " + between + "reads", "z[t] = y[0]; if (t == 256) y[0] = 1;");
  expect("reads " + between + "writes", "if (t == 0) y[0] = 1; if (t >= 256) z[t] = y[0];");
  expect("reads " + between + "writes", "atomicAdd(y, t); __syncthreads(); if (t == 319) z[t] = y[0];");
  expect("reads global memory with no barrier after the write of",
         "y[t] = t; if (t >= 32 && t < 64) z[t] = y[t - 32];");
  expect("writes global memory with no barrier after the read of", "if (t < 32) z[t] = y[t + 32]; else y[t] = t;");
  expect("writes global memory with no barrier after the write of", "if (t < 64) y[t % 32] = t;");
  expect("reads as constant what the launch has written",
         R"(y[t] = t; __syncthreads(); const int none = z[t]; int v;
            asm volatile("ld.global.nc.s32 %0, [%1];" : "=r"(v) : "l"(y + (t ^ 32) + none)); z[t] = v;)");
}
TEST_F(MachineCodeOfMany, AReadOfUnwrittenSharedMemoryIsFound) {
  expect_fault("nothing was written to",
               "__shared__ int s[64]; if (t < 63) s[t] = t; __syncthreads(); y[t] = s[63 - t];");
}
TEST_F(MachineCodeOfMany, AWideLoadMayCoverUnwrittenSharedMemoryThatNothingUses) {
  const std::string begin = "__shared__ alignas(16) double s[128]; s[2 * t] = t; __syncthreads(); double a, b;";
  const std::string load = R"(asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(a), "=d"(b)
                                           : "r"((unsigned)__cvta_generic_to_shared(s + 2 * t)));)";
  std::vector<int> y(256);
  Launch(kernel("int* y", begin + load + "y[t] = a; s[2 * t + 1] = 100 * a;" + load + "y[t] += b;"))(y).run({1}, {64});
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[static_cast<std::size_t>(t)], 101 * t);
  expect_fault("uses what a wide load read", begin + load + "y[t] = a; if (t == 9) y[t] += b;");
  expect_fault("nothing was written to", begin + "y[t] = s[2 * t + 1];");
}
TEST_F(MachineCodeOfMany, AccessesOutOfBoundsAreFound) {
  expect_fault("outside of every allocation", "y[t + 200] = t;");
  expect_fault("outside of every allocation", "y[t] = y[t - 1];");
  expect_fault("shared memory that is not the kernel's",
               "__shared__ int s[64]; s[t] = t; __syncthreads(); y[t] = s[t + y[128] + 1];");
  expect_fault("outside of every allocation", R"(asm volatile("prefetch.global.L2 [%0];" :: "l"(y + 256 + t));)");
}
TEST_F(MachineCodeOfMany, MisalignedAccessesAreFound) { expect_fault("misaligned", "*(double*)(y + t) = 1.0;", 32); }
TEST_F(MachineCodeOfMany, ABarrierThatSomeNeverReachIsFound) {
  expect_fault("never reaches", "if (t == 40) return; __syncthreads(); y[t] = t;");
  expect_fault("another barrier",
               "if (t < 32) { y[t] = 1; __syncthreads(); } else { y[t] = 2; __syncthreads(); y[t] += 3; }");
}
TEST_F(MachineCodeOfMany, AValueOfALaneThatTakesNoPartIsFound) {
  expect_fault("takes no part", "if (t % 32 < 16) y[t] = __shfl_sync(0xffff, t, 20);");
  expect_fault("hold no part", R"(double c[2] = {1.0 * t, 2};
    if (t % 32 < 16) asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%0}, {%1}, {%0, %1};"
                                  : "+d"(c[0]), "+d"(c[1]));
    y[t] = static_cast<int>(c[0]);)");
}
TEST_F(MachineCode, AnUnknownInstructionIsAnError) {
  std::vector<int> y(256);
  try {
    Launch(kernel("int* y", "y[t] = __dp4a(y[t], t, 7);"))(y).run({1}, {64});
    ADD_FAILURE() << "ran";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("does not know the instruction \"IDP"), std::string::npos) << error.what();
  }
}

TEST_F(MachineCode, WhatIsCountedIsWhatTheHardwareDoes) {
  struct alignas(32) Sector {
    double values[4];
  };
  std::vector<Sector> x(1024), y(1024);
  Counters c = Launch(kernel("const double* x, double* y", "y[t] = x[t];"))(x)(y).run({4}, {256});
  EXPECT_EQ(c.threads, 1024u);
  EXPECT_EQ(c.global_loads.requests, 32u);
  EXPECT_EQ(c.global_loads.units, 32u * 8);
  EXPECT_EQ(c.global_loads.least, 32u * 8);
  c = Launch(kernel("const double* x, double* y", "y[4 * t] = x[t / 32];"))(x)(y).run({4}, {256});
  EXPECT_EQ(c.global_loads.units, 32u);
  EXPECT_EQ(c.global_stores.units, 32u * 32);
  EXPECT_EQ(c.global_stores.least, 32u * 8);
  c = Launch(kernel(
      "const double* x, double* y",
      "__shared__ double s[256][4]; s[threadIdx.x][0] = x[t]; __syncthreads(); y[t] = s[255 - threadIdx.x][0];"))(x)(y)
          .run({4}, {256});
  EXPECT_EQ(c.shared_stores.requests, 32u);
  EXPECT_EQ(c.shared_stores.units, 4u * c.shared_stores.least);  // eight lanes per bank of a half-warp, two words each
  EXPECT_EQ(c.barriers, 4u);
}

// Accesses of one warp per block to global memory, with the sectors and clocks that follow from their addresses.
TEST_F(MachineCodeOfMany, SectorsAndClocksOfTheL1FollowFromTheAddresses) {
  const auto expect = [this](const std::string& index, std::uint64_t sectors, std::uint64_t clocks) {
    later("const double* x, double* y", "y[t] = x[" + index + "];", [=](Launch launch) {
      struct alignas(128) Line {
        double values[16];
      };
      std::vector<Line> x(1024), y(64);
      const Accesses loads = launch(x)(y).run({1}, {32}).global_loads;
      EXPECT_EQ(loads.units, sectors) << index;
      EXPECT_EQ(loads.wavefronts, clocks) << index;
    });
  };
  expect("t", 8, 2);         // 256 bytes: four sectors per clock
  expect("t + 2", 9, 3);     // three of the sectors are in one bank
  expect("4 * t", 32, 8);    // one sector each, evenly distributed over the banks
  expect("16 * t", 32, 32);  // one line each: all in the same bank
  expect("0 * t", 1, 1);
}

TEST_F(MachineCode, EachSectorCountsOncePerLaunchForMemoryAndOncePerBlockForTheL2) {
  struct alignas(32) Sector {
    double values[4];
  };
  std::vector<Sector> x(256), y(256);
  Counters c = Launch(kernel("const double* x, double* y", "y[t] = x[threadIdx.x] + x[threadIdx.x ^ 64];"))(x)(y).run(
      {4}, {256});
  EXPECT_EQ(c.memory_reads, 64u);  // 2 KiB that all blocks read
  EXPECT_EQ(c.block_reads, 4u * 64);
  EXPECT_EQ(c.memory_writes, 256u);
  // What the launch itself has written does not come from memory.
  c = Launch(kernel("double* x, double* y", "x[t] = t; __syncthreads(); y[t] = x[t ^ 64];"))(x)(y).run({4}, {256});
  EXPECT_EQ(c.memory_reads, 0u);
  EXPECT_EQ(c.memory_writes, 512u);
}

// Wavefronts of a warp's load, from the banks of four bytes; 8-byte accesses are served by half-warps, 16-byte accesses
// by quarter-warps.
TEST_F(MachineCodeOfMany, BankConflictsOfWideAccessesAreThoseOfHalvesAndQuartersOfAWarp) {
  const auto expect = [this](const std::string& type, const std::string& index, std::uint64_t wavefronts) {
    later(type + "* y",
          "__shared__ " + type +
              " s[256]; for (int k = 0; k < 8; ++k) s[32 * k + t] = y[t]; __syncthreads(); y[t] = s[" + index + "];",
          [=](Launch launch) {
            struct alignas(16) Wide {
              char bytes[16];
            };
            std::vector<Wide> y(32);
            EXPECT_EQ(launch(y).run({1}, {32}).shared_loads.units, wavefronts) << type << ", " << index;
          });
  };
  expect("float", "t", 1);
  expect("float", "2 * t", 2);
  expect("float", "8 * t", 8);
  expect("float", "t / 32", 1);  // one word for all
  expect("double", "t", 2);
  expect("double", "2 * t", 4);  // lanes 0 and 8 of each half use the same bank
  expect("double", "3 * t", 2);
  expect("float4", "t", 4);
  expect("float4", "2 * t", 8);  // lanes 0 and 4 of each quarter
}

TEST_F(MachineCodeOfMany, TheLongestPathOfABlockCountsTheLoadsThatFollowEachOther) {
  const auto check = [this](const std::string& body, const std::function<void(const Path&)>& expect) {
    later("const int* x, int* y", body, [=](Launch launch) {
      struct alignas(128) Line {
        int values[32];
      };
      std::vector<Line> next(2), y(16);
      for (int k = 0; k < 64; ++k) next[static_cast<std::size_t>(k / 32)].values[k % 32] = (k + 8) % 64;
      expect(launch(next)(y).run({1}, {64}).path);
    });
  };
  const auto expect_loads = [&](const std::string& body, std::uint64_t loads) {
    check(body, [=](const Path& path) { EXPECT_EQ(path.global, loads) << body; });
  };
  expect_loads("y[t] = x[t];", 1);
  expect_loads("y[t] = x[0] + x[8] + x[16];", 1);                      // in parallel
  expect_loads("y[t] = x[x[x[0]]];", 3);                               // one after the other
  expect_loads("int k = x[0]; y[t] = x[k - 7];", 1);                   // the second is in the L1 by then
  expect_loads("int k = x[0]; __syncthreads(); y[t] = k + x[8];", 1);  // k is not waited for
  expect_loads("int k = x[0]; y[t + 64] = k; __syncthreads(); y[t] = x[8];", 2);
  // One warp is late; the other waits for it at the barrier.
  expect_loads("if (t < 32) y[t + 64] = x[x[x[0]]]; __syncthreads(); y[t] = x[56];", 4);
  // A prefetched sector comes from the L2 if the prefetch is complete.
  for (const std::string prefetch :
       {R"(asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(x), "r"(256));)",
        R"(asm volatile("prefetch.global.L2 [%0];" :: "l"(x + 3));)"})  // the line of 128 bytes
    check(
        "if (t == 0) { " + prefetch + " } __syncthreads(); int k = x[0]; y[t + 64] = k; __syncthreads(); y[t] = x[8];",
        [](const Path& prefetched) {
          EXPECT_EQ(prefetched.global, 1u);
          EXPECT_EQ(prefetched.l2, 2u);
        });
  // Shared memory: here a store and a load do not wait for each other, but two dependent loads do.
  check("__shared__ int s[64]; s[t] = t ^ 1; __syncthreads(); y[t] = s[s[s[t]]];", [](const Path& shared) {
    EXPECT_EQ(shared.global, 0u);
    EXPECT_GE(shared.shared, 3u);
  });
}
