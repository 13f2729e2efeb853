// cuFFT and hipFFT made for tests, for the driver made for tests (fake_gpu.hpp): libcufft.so.12, libhipfft.so.
//
// Transforms are computed from their definition, on the stream, when somebody waits for it. The library is stricter
// than the real ones: handles must be alive, a plan that needs a work area must have one, which is overwritten, both
// sides must be aligned for a complex number, and c2r overwrites its input.
#include <algorithm>
#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <numbers>
#include <vector>

extern "C" int fake_gpu_enqueue(void* stream, void (*function)(void* data), void* data);

namespace {

enum Code { success = 0, invalid_plan = 1, invalid_type = 3, invalid_value = 4, invalid_size = 8, no_workspace = 13 };
enum Type { r2c = 0x2a, c2r = 0x2c, c2c = 0x29, d2z = 0x6a, z2d = 0x6c, z2z = 0x69 };

struct Plan {
  bool automatic = true, made = false;
  long long n = 0, stride_in = 0, distance_in = 0, stride_out = 0, distance_out = 0, batch = 0;
  int type = 0;
  std::size_t work_bytes = 0;
  void *work_area = nullptr, *stream = nullptr;

  bool real_in() const { return type == r2c || type == d2z; }
  bool real_out() const { return type == c2r || type == z2d; }
  long long elements_in() const { return real_out() ? n / 2 + 1 : n; }
  long long elements_out() const { return real_in() ? n / 2 + 1 : n; }
};
std::map<std::intptr_t, Plan> plans;
std::intptr_t made_so_far = 0;

// cuFFT's handles are ints, so the upper half is undefined.
Plan* find(void* handle) {
  const auto found = plans.find(reinterpret_cast<std::intptr_t>(handle));
  return found == plans.end() ? nullptr : &found->second;
}

template <class T>
void transform(const Plan& plan, const void* in, void* out, int sign) {
  using Complex = std::complex<T>;
  std::vector<std::complex<double>> line(plan.n), factors(plan.n);
  for (long long j = 0; j < plan.n; ++j)
    factors[j] = std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(plan.n));
  // All input is read first, because neighbouring lines overlap in place.
  std::vector<std::complex<double>> lines(plan.batch * plan.n);
  for (long long b = 0; b < plan.batch; ++b) {
    for (long long j = 0; j < plan.elements_in(); ++j) {
      const long long at = b * plan.distance_in + j * plan.stride_in;
      lines[b * plan.n + j] =
          plan.real_in() ? static_cast<const T*>(in)[at] : std::complex<double>(static_cast<const Complex*>(in)[at]);
    }
    if (plan.real_out()) {
      for (long long j = plan.elements_in(); j < plan.n; ++j)
        lines[b * plan.n + j] = std::conj(lines[b * plan.n + plan.n - j]);
      lines[b * plan.n].imag(0);
      if (plan.n % 2 == 0) lines[b * plan.n + plan.n / 2].imag(0);
    }
  }
  if (plan.real_out()) {  // its input is destroyed
    for (long long b = 0; b < plan.batch; ++b) {
      for (long long j = 0; j < plan.elements_in(); ++j)
        static_cast<Complex*>(const_cast<void*>(in))[b * plan.distance_in + j * plan.stride_in] = Complex(-7, -7);
    }
  }
  for (long long b = 0; b < plan.batch; ++b) {
    for (long long k = 0; k < plan.elements_out(); ++k) {
      std::complex<double> sum = 0;
      for (long long j = 0; j < plan.n; ++j) sum += lines[b * plan.n + j] * factors[j * k % plan.n];
      const long long at = b * plan.distance_out + k * plan.stride_out;
      if (plan.real_out())
        static_cast<T*>(out)[at] = static_cast<T>(sum.real());
      else
        static_cast<Complex*>(out)[at] = Complex(sum);
    }
  }
}

struct Work {
  Plan plan;
  void *in, *out;
  int sign;
};

int execute(void* handle, void* in, void* out, int sign, int type) {
  const Plan* plan = find(handle);
  if (plan == nullptr || !plan->made) return invalid_plan;
  if (plan->type != type) return invalid_type;
  if (in == nullptr || out == nullptr || (sign != -1 && sign != 1)) return invalid_value;
  for (const void* side : {in, out})
    if (reinterpret_cast<std::uintptr_t>(side) % (type == r2c || type == c2r || type == c2c ? 8 : 16) != 0)
      return invalid_value;
  if (plan->work_bytes > 0 && plan->work_area == nullptr) return no_workspace;
  const auto run = [](void* data) {
    const auto* work = static_cast<Work*>(data);
    std::fill_n(static_cast<char*>(work->plan.work_area), work->plan.work_bytes, char(0x5a));
    if (work->plan.type == d2z || work->plan.type == z2d || work->plan.type == z2z)
      transform<double>(work->plan, work->in, work->out, work->sign);
    else
      transform<float>(work->plan, work->in, work->out, work->sign);
  };
  static std::deque<Work> all;  // any of them may be replayed by a graph
  return fake_gpu_enqueue(plan->stream, run, &all.emplace_back(*plan, in, out, sign));
}

int make(void* handle, int rank, long long n, bool embedded, long long stride_in, long long distance_in,
         long long stride_out, long long distance_out, int type, long long batch, std::size_t* work_bytes) {
  Plan* plan = find(handle);
  if (plan == nullptr || plan->made) return invalid_plan;
  if (rank != 1 || n < 1 || batch < 1) return invalid_size;
  if (type != r2c && type != c2r && type != c2c && type != d2z && type != z2d && type != z2z) return invalid_type;
  if (!embedded || stride_in < 1 || stride_out < 1) return invalid_value;  // strides would be ignored
  // Sizes that are not powers of two need as much work memory as their data; other sizes need none.
  const std::size_t value = type == c2c || type == r2c || type == c2r ? 8 : 16;
  *work_bytes = plan->work_bytes = std::has_single_bit(static_cast<unsigned long long>(n)) ? 0 : batch * n * value;
  if (plan->automatic) return invalid_value;  // the plans in tests must not allocate
  plan->made = true;
  plan->n = n;
  plan->stride_in = stride_in;
  plan->distance_in = distance_in;
  plan->stride_out = stride_out;
  plan->distance_out = distance_out;
  plan->type = type;
  plan->batch = batch;
  return success;
}

template <class Handle>
int create(Handle* handle) {
  plans[++made_so_far];
  *handle = (Handle)made_so_far;
  return success;
}
int destroy(void* handle) { return plans.erase(reinterpret_cast<std::intptr_t>(handle)) == 1 ? success : invalid_plan; }
int set_auto(void* handle, int automatic) {
  Plan* plan = find(handle);
  if (plan == nullptr || plan->made) return invalid_plan;
  plan->automatic = automatic != 0;
  return success;
}
int set_work_area(void* handle, void* memory) {
  Plan* plan = find(handle);
  if (plan == nullptr || !plan->made) return invalid_plan;
  plan->work_area = memory;
  return success;
}
int set_stream(void* handle, void* stream) {
  Plan* plan = find(handle);
  if (plan == nullptr) return invalid_plan;
  plan->stream = stream;
  return success;
}
void* pointer(int handle) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(handle)); }

}  // namespace

extern "C" {
int fake_gpu_fft_plans() { return static_cast<int>(plans.size()); }

// As cufft.h declares them.
int cufftGetVersion(int* version) {
  *version = 12103;
  return success;
}
int cufftCreate(int* handle) { return create(handle); }
int cufftDestroy(int handle) { return destroy(pointer(handle)); }
int cufftSetAutoAllocation(int handle, int automatic) { return set_auto(pointer(handle), automatic); }
int cufftSetWorkArea(int handle, void* memory) { return set_work_area(pointer(handle), memory); }
int cufftSetStream(int handle, void* stream) { return set_stream(pointer(handle), stream); }
int cufftMakePlanMany(int handle, int rank, int* n, int* embed_in, int stride_in, int distance_in, int* embed_out,
                      int stride_out, int distance_out, int type, int batch, std::size_t* work_bytes) {
  return make(pointer(handle), rank, *n, embed_in != nullptr && embed_out != nullptr, stride_in, distance_in,
              stride_out, distance_out, type, batch, work_bytes);
}
int cufftMakePlanMany64(int handle, int rank, long long* n, long long* embed_in, long long stride_in,
                        long long distance_in, long long* embed_out, long long stride_out, long long distance_out,
                        int type, long long batch, std::size_t* work_bytes) {
  return make(pointer(handle), rank, *n, embed_in != nullptr && embed_out != nullptr, stride_in, distance_in,
              stride_out, distance_out, type, batch, work_bytes);
}
int cufftExecR2C(int handle, void* in, void* out) { return execute(pointer(handle), in, out, -1, r2c); }
int cufftExecC2R(int handle, void* in, void* out) { return execute(pointer(handle), in, out, 1, c2r); }
int cufftExecC2C(int handle, void* in, void* out, int sign) { return execute(pointer(handle), in, out, sign, c2c); }
int cufftExecD2Z(int handle, void* in, void* out) { return execute(pointer(handle), in, out, -1, d2z); }
int cufftExecZ2D(int handle, void* in, void* out) { return execute(pointer(handle), in, out, 1, z2d); }
int cufftExecZ2Z(int handle, void* in, void* out, int sign) { return execute(pointer(handle), in, out, sign, z2z); }

// As hipfft.h declares them.
int hipfftGetVersion(int* version) {
  *version = 10018;
  return success;
}
int hipfftCreate(void** handle) { return create(handle); }
int hipfftDestroy(void* handle) { return destroy(handle); }
int hipfftSetAutoAllocation(void* handle, int automatic) { return set_auto(handle, automatic); }
int hipfftSetWorkArea(void* handle, void* memory) { return set_work_area(handle, memory); }
int hipfftSetStream(void* handle, void* stream) { return set_stream(handle, stream); }
int hipfftMakePlanMany(void* handle, int rank, int* n, int* embed_in, int stride_in, int distance_in, int* embed_out,
                       int stride_out, int distance_out, int type, int batch, std::size_t* work_bytes) {
  return make(handle, rank, *n, embed_in != nullptr && embed_out != nullptr, stride_in, distance_in, stride_out,
              distance_out, type, batch, work_bytes);
}
int hipfftMakePlanMany64(void* handle, int rank, long long* n, long long* embed_in, long long stride_in,
                         long long distance_in, long long* embed_out, long long stride_out, long long distance_out,
                         int type, long long batch, std::size_t* work_bytes) {
  return make(handle, rank, *n, embed_in != nullptr && embed_out != nullptr, stride_in, distance_in, stride_out,
              distance_out, type, batch, work_bytes);
}
int hipfftExecR2C(void* handle, void* in, void* out) { return execute(handle, in, out, -1, r2c); }
int hipfftExecC2R(void* handle, void* in, void* out) { return execute(handle, in, out, 1, c2r); }
int hipfftExecC2C(void* handle, void* in, void* out, int sign) { return execute(handle, in, out, sign, c2c); }
int hipfftExecD2Z(void* handle, void* in, void* out) { return execute(handle, in, out, -1, d2z); }
int hipfftExecZ2D(void* handle, void* in, void* out) { return execute(handle, in, out, 1, z2d); }
int hipfftExecZ2Z(void* handle, void* in, void* out, int sign) { return execute(handle, in, out, sign, z2z); }
}
