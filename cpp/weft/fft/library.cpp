#include "weft/fft/library.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>

#include "weft/device/disk_cache.hpp"
#include "weft/device/dynamic_library.hpp"
#include "weft/fft/simd_lines.hpp"
#include "weft/fft/wisdom.hpp"

namespace weft::fft {
namespace {

// FFTW3's interface (fftw3.h), as exported by both libraries. The guru interface has 64-bit strides.
struct Dimension {  // fftw_iodim64
  std::ptrdiff_t n, stride_in, stride_out;
};
constexpr int sign_forward = -1, sign_backward = 1;
constexpr std::ptrdiff_t measured_points = 2048;  // per line
constexpr unsigned destroy_input = 1U << 0, unaligned = 1U << 1, preserve_input = 1U << 4, estimate = 1U << 6;

struct Functions {
  void* (*plan_dft)(int rank, const Dimension*, int batch_rank, const Dimension*, void* in, void* out, int sign,
                    unsigned flags);
  void* (*plan_r2c)(int rank, const Dimension*, int batch_rank, const Dimension*, void* in, void* out, unsigned flags);
  void* (*plan_c2r)(int rank, const Dimension*, int batch_rank, const Dimension*, void* in, void* out, unsigned flags);
  void (*execute_dft)(void* plan, void* in, void* out);
  void (*execute_r2c)(void* plan, void* in, void* out);
  void (*execute_c2r)(void* plan, void* in, void* out);
  int (*alignment_of)(void*) = nullptr;  // not in MKL
  WisdomFunctions wisdom = {};           // not in MKL
};

struct Opened : HostLibrary {
  Functions functions[2] = {};  // for double, for float
};

const char* const install =
    "install one of: pip install mkl (x86-64), pip install pyfftw, apt install libfftw3-double3 libfftw3-single3";

void find(Functions& functions, device::DynamicLibrary& library, const std::string& prefix) {
  library.find(functions.plan_dft, (prefix + "_plan_guru64_dft").c_str());
  library.find(functions.plan_r2c, (prefix + "_plan_guru64_dft_r2c").c_str());
  library.find(functions.plan_c2r, (prefix + "_plan_guru64_dft_c2r").c_str());
  library.find(functions.execute_dft, (prefix + "_execute_dft").c_str());
  library.find(functions.execute_r2c, (prefix + "_execute_dft_r2c").c_str());
  library.find(functions.execute_c2r, (prefix + "_execute_dft_c2r").c_str());
  functions.alignment_of = library.find_optional<int(void*)>((prefix + "_alignment_of").c_str());
  library.find_optional(functions.wisdom.export_to_string, (prefix + "_export_wisdom_to_string").c_str());
  library.find_optional(functions.wisdom.import_from_string, (prefix + "_import_wisdom_from_string").c_str());
  library.find_optional(functions.wisdom.forget, (prefix + "_forget_wisdom").c_str());
  library.find_optional(functions.wisdom.destroy_plan, (prefix + "_destroy_plan").c_str());
}

// The file that a symbol comes from.
template <class F>
std::string file_of(F* function) {
  Dl_info info{};
  return dladdr(reinterpret_cast<const void*>(function), &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// Opens MKL as one of `names`. If it opens but cannot be used, `problem` says why.
Opened open_mkl(const std::vector<std::string>& names) {
  Opened opened;
  device::DynamicLibrary library(names);
  int (*set_interface)(int) = nullptr;
  int (*set_threading)(int) = nullptr;
  void (*version)(char*, int) = nullptr;
  library.find(set_interface, "MKL_Set_Interface_Layer");
  library.find(set_threading, "MKL_Set_Threading_Layer");
  library.find(version, "MKL_Get_Version_String");
  find(opened.functions[0], library, "fftw");
  find(opened.functions[1], library, "fftwf");
  if (!library) {
    opened.problem = library.problem;
    return opened;
  }
  // Disables MKL's OpenMP threads; this must precede any other call of MKL. If another part of the process has called
  // MKL before, its layers stay, but plans are still made for one thread (below).
  constexpr int interface_lp64 = 0, threading_sequential = 1;
  set_interface(interface_lp64);
  set_threading(threading_sequential);
  for (const char* function : {"fftw_plan_with_nthreads", "fftwf_plan_with_nthreads"}) {
    if (auto* with_threads = library.find_optional<void(int)>(function)) with_threads(1);
  }
  char text[256] = {};
  version(text, sizeof text - 1);
  opened.name = "mkl";
  opened.version = text;  // "… Library Version 2026.2-Product Build …"
  if (const std::size_t at = opened.version.find("Version "); at != opened.version.npos) {
    opened.version.erase(0, at + std::string("Version ").size());
    opened.version.erase(std::min(opened.version.find_first_of("- "), opened.version.size()));
  }
  opened.path = file_of(opened.functions[0].plan_dft);
  return opened;
}

// FFTW has a separate library for each precision.
Opened open_fftw(const std::vector<std::string>& doubles, const std::vector<std::string>& floats) {
  Opened opened;
  device::DynamicLibrary of_double(doubles), of_float(floats);
  find(opened.functions[0], of_double, "fftw");
  find(opened.functions[1], of_float, "fftwf");
  if (!of_double || !of_float) {
    opened.problem = !of_double ? of_double.problem : of_float.problem;
    return opened;
  }
  opened.name = "fftw";
  opened.backward_3d = true;
  if (const auto* version = of_double.find_optional<const char>("fftw_version")) {
    opened.version = version;  // "fftw-3.3.10-sse2-avx"
    if (opened.version.starts_with("fftw-")) opened.version.erase(0, 5);
  }
  opened.path = file_of(opened.functions[0].plan_dft);
  return opened;
}

std::vector<std::string> folders() {
  std::vector<std::string> all;
  if (const char* value = std::getenv("WEFT_FFT_PATH")) {
    std::stringstream list(value);
    for (std::string folder; std::getline(list, folder, ':');) {
      if (!folder.empty()) all.push_back(folder);
    }
  }
  return all;
}

std::vector<std::string> mkl_names() {
  std::vector<std::string> names;
  for (const std::string& folder : folders()) {
    for (const char* version : {"3", "2", "1"}) names.push_back(folder + "/libmkl_rt.so." + version);
  }
  for (const char* version : {".3", ".2", ".1", ""}) names.push_back(std::string("libmkl_rt.so") + version);
  return names;
}

// Python wheels put a hash into the file name: libfftw3-6b983104.so.3.5.5.
std::vector<std::string> fftw_names(const std::string& stem) {
  std::vector<std::string> names;
  for (const std::string& folder : folders()) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      const std::string file = entry.path().filename();
      if (file.starts_with(stem + ".so.3") || (file.starts_with(stem + "-") && file.find(".so.3") != file.npos))
        names.push_back(entry.path());
    }
  }
  std::sort(names.begin(), names.end());
  names.push_back(stem + ".so.3");
  return names;
}

Opened open_fftw() { return open_fftw(fftw_names("libfftw3"), fftw_names("libfftw3f")); }

// A file that the user named: MKL, or FFTW in double precision with the single-precision library next to it.
Opened open_file(const std::string& file) {
  if (Opened mkl = open_mkl({file}); mkl.problem.empty()) return mkl;
  std::string floats = file;
  const std::size_t at = floats.rfind("libfftw3");
  if (at != floats.npos) floats.insert(at + std::string("libfftw3").size(), "f");
  Opened fftw = open_fftw({file}, {floats});
  if (!fftw.problem.empty())
    fftw.problem = "WEFT_FFT=" + file + " is neither MKL's libmkl_rt.so nor FFTW's libfftw3.so beside libfftw3f.so (" +
                   fftw.problem + "); it takes auto, mkl, fftw or such a file";
  return fftw;
}

// The library that the user asks for.
std::string asked_library() {
  const char* variable = std::getenv("WEFT_FFT");
  return variable == nullptr || *variable == '\0' ? "auto" : variable;
}

// All requested libraries that can be opened; if none can, one entry that says why.
std::vector<Opened> open_libraries() {
  const std::string asked = asked_library();
  if (asked != "auto" && asked != "mkl" && asked != "fftw") return {open_file(asked)};
  std::vector<Opened> all;
  std::string problems;
  const auto add = [&](const char* name, Opened library) {
    if (library.problem.empty())
      all.push_back(std::move(library));
    else
      problems += (problems.empty() ? "" : "; ") + std::string(name) + ": " + library.problem;
  };
  if (asked != "fftw") add("MKL", open_mkl(mkl_names()));
  if (asked != "mkl") add("FFTW", open_fftw());
  if (!all.empty()) return all;
  Opened none;
  none.problem = "no library for Fourier transforms on the host (" + problems + "); " +
                 (asked == "mkl" ? "pip install mkl, or set WEFT_FFT=auto" : install) +
                 ", or name its folder in WEFT_FFT_PATH";
  return {none};
}

// Adds FFTW a second time, with plans by measurement, if these can be kept on disk.
std::vector<Opened> with_measured(std::vector<Opened> all) {
  Opened last = all.back();
  if (last.name != "fftw" || !last.functions[0].wisdom || !last.functions[1].wisdom) return all;
  if (device::cache_directory().empty()) return all;
  last.measured = true;
  last.name += "-measured";
  all.push_back(std::move(last));
  return all;
}

// Adds weft's own transforms, unless the user asked for a certain library.
std::vector<Opened> with_own(std::vector<Opened> all) {
  if (asked_library() != "auto" || !all.front().problem.empty()) return all;
  Opened own = all.front();
  own.name = "weft";
  own.backward_3d = false;
  own.own = true;
  all.push_back(std::move(own));
  return all;
}

const std::vector<Opened>& opened() {
  static const std::vector<Opened> libraries = with_own(with_measured(open_libraries()));
  return libraries;
}

std::string describe(const LinesShape& shape) {
  std::ostringstream text;
  const char* const kinds[] = {"r2c", "c2r", "forward", "backward"};
  text << shape.count << " lines " << kinds[static_cast<int>(shape.kind)] << " of " << shape.n << " points, strides "
       << shape.stride_in << " and " << shape.stride_out << ", distances " << shape.distance_in << " and "
       << shape.distance_out;
  return text.str();
}

std::string describe(const FieldShape& shape) {
  return std::string(shape.kind == Kind::c2r ? "c2r" : "r2c") + " of a field of " + std::to_string(shape.nx) + " x " +
         std::to_string(shape.ny) + " x " + std::to_string(shape.nz) + " points";
}

std::int64_t extent(std::int64_t elements, std::int64_t stride, std::int64_t count, std::int64_t distance) {
  return 1 + (elements - 1) * stride + (count - 1) * distance;
}

}  // namespace

LinesShape LinesShape::contiguous(Kind kind, int n, std::int64_t count, bool in_place) {
  LinesShape shape{.kind = kind, .n = n, .count = count, .in_place = in_place};
  shape.distance_in = shape.elements_in();
  shape.distance_out = shape.elements_out();
  return shape;
}

LinesShape LinesShape::columns(Kind kind, int n, std::int64_t count, std::int64_t stride_in, std::int64_t stride_out,
                               bool in_place) {
  return {kind, n, count, stride_in, 1, stride_out, 1, in_place};
}

std::int64_t LinesShape::extent_in() const { return extent(elements_in(), stride_in, count, distance_in); }
std::int64_t LinesShape::extent_out() const { return extent(elements_out(), stride_out, count, distance_out); }

void LinesShape::check() const {
  if (n < 1 || count < 1 || stride_in < 1 || stride_out < 1 || distance_in < 0 || distance_out < 0)
    throw std::invalid_argument("Fourier transforms need sizes, counts and strides of at least 1: " + describe(*this));
  if (in_place && (kind == Kind::r2c || kind == Kind::c2r || stride_in != stride_out || distance_in != distance_out))
    throw std::invalid_argument("only complex transforms with the same steps on both sides can be in place: " +
                                describe(*this));
  if (overwrites && kind != Kind::c2r)
    throw std::invalid_argument("only c2r transforms may be asked to overwrite their input: " + describe(*this));
}

void FieldShape::check() const {
  if (kind != Kind::r2c && kind != Kind::c2r) throw std::invalid_argument("transforms of a real field are r2c or c2r");
  if (nx < 1 || ny < 1 || nz < 1)
    throw std::invalid_argument("transforms of a real field need sizes of at least 1: " + describe(*this));
}

const HostLibrary& host_library(int which) { return opened().at(static_cast<std::size_t>(which)); }
int host_libraries() { return opened().front().problem.empty() ? static_cast<int>(opened().size()) : 0; }

namespace detail {
namespace {

// The loops of a plan: the directions that it transforms, slowest first, and those over which it repeats the transform.
struct Steps {
  Kind kind;
  std::vector<Dimension> transformed, repeated;
  bool in_place, overwrites;
  std::int64_t values;  // number of complex values, on the side that has them
};

Steps steps_of(const LinesShape& shape) {
  return {shape.kind,
          {{shape.n, shape.stride_in, shape.stride_out}},
          {{shape.count, shape.distance_in, shape.distance_out}},
          shape.in_place,
          shape.overwrites,
          shape.count * (shape.kind == Kind::r2c ? shape.elements_out() : shape.elements_in())};
}
Steps steps_of(const FieldShape& shape) {
  const bool forward = shape.kind == Kind::r2c;
  const std::ptrdiff_t row = shape.nx, half = shape.nx / 2 + 1, in = forward ? row : half, out = forward ? half : row;
  return {shape.kind, {{shape.nz, shape.ny * in, shape.ny * out}, {shape.ny, in, out}, {shape.nx, 1, 1}},
          {},         false,
          !forward,   shape.modes()};
}

// A plan for weft's own transforms; without a function if there is none for this shape.
template <class T>
HostPlan own_plan(const LinesShape& shape) {
  struct Rows {
    LinesShape shape;
    SimdRows<T> lines;
  };
  struct Columns {
    LinesShape shape;
    SimdColumns<T> lines;
  };
  using Complex = std::complex<T>;
  if (shape.kind == Kind::forward || shape.kind == Kind::backward) {
    if (shape.distance_in != 1 || shape.distance_out != 1 || !SimdColumns<T>::can(shape.n)) return {};
    auto* const plan = new Columns{shape, SimdColumns<T>(shape.n, shape.kind == Kind::backward)};
    return {plan, plan, [](void* made, void* in, void* out) {
              const auto& [s, lines] = *static_cast<const Columns*>(made);
              lines(static_cast<const Complex*>(in), s.stride_in, static_cast<Complex*>(out), s.stride_out, s.count);
            }};
  }
  if (shape.stride_in != 1 || shape.stride_out != 1 || !SimdRows<T>::can(shape.n)) return {};
  auto* const plan = new Rows{shape, SimdRows<T>(shape.n)};
  return {
      plan, plan, [](void* made, void* in, void* out) {
        const auto& [s, lines] = *static_cast<const Rows*>(made);
        if (s.kind == Kind::r2c)
          lines.forward(static_cast<const T*>(in), s.distance_in, static_cast<Complex*>(out), s.distance_out, s.count);
        else
          lines.backward(static_cast<const Complex*>(in), s.distance_in, static_cast<T*>(out), s.distance_out, s.count);
      }};
}

template <class Shape>
HostPlan make_plan(const Shape& shape, bool single, int which) {
  const Opened& library = opened().at(static_cast<std::size_t>(which));
  if (!library.problem.empty()) throw std::runtime_error(library.problem);
  if constexpr (std::is_same_v<Shape, LinesShape>) {
    const HostPlan own = !library.own ? HostPlan{} : single ? own_plan<float>(shape) : own_plan<double>(shape);
    if (own.execute != nullptr) return own;
  }
  const Functions& functions = library.functions[single ? 1 : 0];
  const Steps steps = steps_of(shape);
  const auto rank = static_cast<int>(steps.transformed.size()), repeats = static_cast<int>(steps.repeated.size());
  const Dimension *lines = steps.transformed.data(), *batch = steps.repeated.data();
  // Planning by estimate accesses no data. The addresses only tell the alignment, and whether input and output are the
  // same.
  alignas(64) char few[2][64];
  char *in = few[0], *to = steps.in_place ? in : few[1];
  const auto plan = [&](unsigned flags) {
    if (steps.kind == Kind::r2c) return functions.plan_r2c(rank, lines, repeats, batch, in, to, flags);
    if (steps.kind == Kind::c2r)
      return functions.plan_c2r(rank, lines, repeats, batch, in, to,
                                flags | (steps.overwrites ? destroy_input : preserve_input));
    const int sign = steps.kind == Kind::forward ? sign_forward : sign_backward;
    return functions.plan_dft(rank, lines, repeats, batch, in, to, sign, flags);
  };
  HostPlan made{};
  made.execute = steps.kind == Kind::r2c   ? functions.execute_r2c
                 : steps.kind == Kind::c2r ? functions.execute_c2r
                                           : functions.execute_dft;
  made.anywhere = plan(estimate | unaligned);
  const bool by_alignment = functions.alignment_of != nullptr && functions.alignment_of(in + simd_alignment / 2) != 0 &&
                            functions.alignment_of(in + simd_alignment) == 0;
  const std::int64_t real = single ? sizeof(float) : sizeof(double);
  const auto bytes = [&](std::int64_t elements, bool of_reals) { return elements * (of_reals ? real : 2 * real); };
  const std::int64_t bytes_in = bytes(shape.extent_in(), steps.kind == Kind::r2c),
                     bytes_out = bytes(shape.extent_out(), steps.kind == Kind::c2r);
  const bool short_lines = std::ranges::all_of(steps.transformed, [](auto& d) { return d.n <= measured_points; });
  if (library.measured && short_lines && bytes(steps.values, false) <= measured_bytes) {
    struct Free {
      void operator()(char* memory) const { std::free(memory); }
    };
    const auto allocated = [](std::int64_t bytes) {
      const auto whole = static_cast<std::size_t>((bytes + 63) / 64 * 64);
      return std::unique_ptr<char, Free>(static_cast<char*>(std::aligned_alloc(64, whole)));
    };
    const auto from = allocated(bytes_in), into = allocated(steps.in_place ? 1 : bytes_out);
    if (!from || !into) throw std::bad_alloc();
    in = from.get();
    to = steps.in_place ? in : into.get();
    made.aligned =
        measured_plan(functions.wisdom, library.path + " " + library.version + (single ? " float" : " double"), plan);
  } else {
    made.aligned = by_alignment ? plan(estimate) : made.anywhere;
  }
  if (made.anywhere == nullptr || made.aligned == nullptr)
    throw std::runtime_error(library.name + " " + library.version + " does not plan " + describe(shape));
  return made;
}

std::mutex planning;  // FFTW's planner is not thread-safe
std::atomic<double> planned_seconds = 0;

template <class Shape>
const HostPlan& known_plan(const Shape& shape, bool single, int library) {
  shape.check();
  // Never destroyed, because the library's own clean-up at exit might come first.
  static auto& plans = *new std::map<std::tuple<Shape, bool, int>, HostPlan>;
  const std::lock_guard lock(planning);
  const std::tuple key(shape, single, library);
  auto found = plans.find(key);
  if (found == plans.end()) {
    const auto begin = std::chrono::steady_clock::now();
    found = plans.emplace(key, make_plan(shape, single, library)).first;
    planned_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return found->second;
}

}  // namespace

const HostPlan& host_plan(const LinesShape& shape, bool single, int library) {
  return known_plan(shape, single, library);
}
const HostPlan& host_plan(const FieldShape& shape, bool single, int library) {
  return known_plan(shape, single, library);
}

}  // namespace detail

double planning_seconds() { return detail::planned_seconds; }

}  // namespace weft::fft
