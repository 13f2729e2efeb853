// cuFFT and hipFFT made for tests, for the driver made for tests (fake_gpu.hpp): libcufft.so.12, libhipfft.so.
//
// Transforms are computed from their definition, on the stream, when somebody waits for it. The library is stricter
// than the real ones: handles must be alive, a plan that needs a work area must have one, which is overwritten, both
// sides must be aligned for a complex number, c2r overwrites its input, and in several dimensions it takes only
// coefficients of a real field.
#include <algorithm>
#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <vector>

extern "C" int fake_gpu_enqueue(void* stream, void (*function)(void* data), void* data);

namespace {

enum Code { success = 0, invalid_plan = 1, invalid_type = 3, invalid_value = 4, invalid_size = 8, no_workspace = 13 };
enum Type { r2c = 0x2a, c2r = 0x2c, c2c = 0x29, d2z = 0x6a, z2d = 0x6c, z2z = 0x69 };

// One side of a plan: the number of elements in each direction, and where they are.
struct Side {
  std::vector<long long> count, embed;
  long long stride = 0, distance = 0;

  long long at(long long transform, const std::vector<long long>& index) const {
    long long element = 0;
    for (std::size_t d = 0; d < index.size(); ++d) element = element * embed[d] + index[d];
    return transform * distance + element * stride;
  }
  bool holds(const std::vector<long long>& index) const { return index.back() < count.back(); }
};

struct Plan {
  bool automatic = true, made = false;
  std::vector<long long> n;  // the slowest direction first
  Side in, out;
  long long batch = 0;
  int type = 0;
  std::size_t work_bytes = 0;
  void *work_area = nullptr, *stream = nullptr;

  bool real_in() const { return type == r2c || type == d2z; }
  bool real_out() const { return type == c2r || type == z2d; }
  bool single() const { return type == r2c || type == c2r || type == c2c; }
  long long points() const { return std::accumulate(n.begin(), n.end(), 1LL, std::multiplies<>()); }
};
std::map<std::intptr_t, Plan> plans;
std::intptr_t made_so_far = 0;
int refused_rank = 0;

// cuFFT's handles are ints, so the upper half is undefined.
Plan* find(void* handle) {
  const auto found = plans.find(reinterpret_cast<std::intptr_t>(handle));
  return found == plans.end() ? nullptr : &found->second;
}

template <class Function>
void for_each_point(const std::vector<long long>& n, const Function& function) {
  std::vector<long long> index(n.size());
  for (long long i = 0;; ++i) {
    function(i, index);
    std::size_t d = n.size();
    while (d > 0 && ++index[d - 1] == n[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

// Transforms all lines of one direction, whose elements are `stride` apart.
void transform_lines(std::vector<std::complex<double>>& values, long long n, long long stride, int sign) {
  std::vector<std::complex<double>> factors(n), line(n);
  for (long long j = 0; j < n; ++j)
    factors[j] = std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(n));
  for (long long first = 0; first < static_cast<long long>(values.size()); ++first) {
    if (first / stride % n != 0) continue;
    for (long long j = 0; j < n; ++j) line[j] = values[first + j * stride];
    for (long long k = 0; k < n; ++k) {
      std::complex<double> sum = 0;
      for (long long j = 0; j < n; ++j) sum += line[j] * factors[j * k % n];
      values[first + k * stride] = sum;
    }
  }
}

// The coefficients of a real field from those with k <= n / 2 in the fastest direction. In several dimensions, if the
// given ones are not those of a real field, the result is not a number.
void complete(const Plan& plan, std::vector<std::complex<double>>& values) {
  const bool several = plan.n.size() > 1;
  double largest = 0;
  for (const auto& value : values) largest = std::max(largest, std::abs(value));
  const double tolerance = largest * (plan.single() ? 1e-5 : 1e-13);
  bool real = true;
  for_each_point(plan.n, [&](long long i, const std::vector<long long>& index) {
    std::vector<long long> other(index.size());
    long long partner = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      other[d] = (plan.n[d] - index[d]) % plan.n[d];
      partner = partner * plan.n[d] + other[d];
    }
    if (!plan.in.holds(index))
      values[i] = std::conj(values[partner]);
    else if (several && plan.in.holds(other))
      real = real && std::abs(values[i] - std::conj(values[partner])) <= tolerance;
    else if (partner == i)
      values[i].imag(0);
  });
  if (!real) std::ranges::fill(values, std::numeric_limits<double>::quiet_NaN());
}

template <class T>
void transform(const Plan& plan, void* in, void* out, int sign) {
  using Complex = std::complex<T>;
  // All input is read first, because neighbouring transforms overlap in place.
  std::vector<std::vector<std::complex<double>>> all(plan.batch, std::vector<std::complex<double>>(plan.points()));
  for (long long b = 0; b < plan.batch; ++b) {
    for_each_point(plan.n, [&](long long i, const std::vector<long long>& index) {
      if (!plan.in.holds(index)) return;
      const long long at = plan.in.at(b, index);
      all[b][i] =
          plan.real_in() ? static_cast<const T*>(in)[at] : std::complex<double>(static_cast<const Complex*>(in)[at]);
    });
    if (plan.real_out()) complete(plan, all[b]);
  }
  for (long long b = 0; b < plan.batch && plan.real_out(); ++b) {  // its input is destroyed
    for_each_point(plan.n, [&](long long, const std::vector<long long>& index) {
      if (plan.in.holds(index)) static_cast<Complex*>(in)[plan.in.at(b, index)] = Complex(-7, -7);
    });
  }
  for (long long b = 0; b < plan.batch; ++b) {
    long long stride = 1;
    for (std::size_t d = plan.n.size(); d-- > 0; stride *= plan.n[d]) transform_lines(all[b], plan.n[d], stride, sign);
    for_each_point(plan.n, [&](long long i, const std::vector<long long>& index) {
      if (!plan.out.holds(index)) return;
      const long long at = plan.out.at(b, index);
      if (plan.real_out())
        static_cast<T*>(out)[at] = static_cast<T>(all[b][i].real());
      else
        static_cast<Complex*>(out)[at] = Complex(all[b][i]);
    });
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
    if (reinterpret_cast<std::uintptr_t>(side) % (plan->single() ? 8 : 16) != 0) return invalid_value;
  if (plan->work_bytes > 0 && plan->work_area == nullptr) return no_workspace;
  const auto run = [](void* data) {
    const auto* work = static_cast<Work*>(data);
    std::fill_n(static_cast<char*>(work->plan.work_area), work->plan.work_bytes, char(0x5a));
    if (work->plan.single())
      transform<float>(work->plan, work->in, work->out, work->sign);
    else
      transform<double>(work->plan, work->in, work->out, work->sign);
  };
  static std::deque<Work> all;  // any of them may be replayed by a graph
  return fake_gpu_enqueue(plan->stream, run, &all.emplace_back(*plan, in, out, sign));
}

template <class Int>
int make(void* handle, int rank, const Int* n, const Int* embed_in, Int stride_in, Int distance_in,
         const Int* embed_out, Int stride_out, Int distance_out, int type, Int batch, std::size_t* work_bytes) {
  Plan* plan = find(handle);
  if (plan == nullptr || plan->made) return invalid_plan;
  if (rank < 1 || rank > 3 || rank == refused_rank || batch < 1 ||
      std::any_of(n, n + rank, [](Int size) { return size < 1; }))
    return invalid_size;
  if (type != r2c && type != c2r && type != c2c && type != d2z && type != z2d && type != z2z) return invalid_type;
  if (embed_in == nullptr || embed_out == nullptr) return invalid_value;  // strides would be ignored
  if (plan->automatic) return invalid_value;                              // the plans in tests must not allocate
  Plan made = *plan;
  made.type = type;
  made.n.assign(n, n + rank);
  made.batch = batch;
  made.in = {made.n, {embed_in, embed_in + rank}, stride_in, distance_in};
  made.out = {made.n, {embed_out, embed_out + rank}, stride_out, distance_out};
  if (made.real_out()) made.in.count.back() = made.n.back() / 2 + 1;
  if (made.real_in()) made.out.count.back() = made.n.back() / 2 + 1;
  for (const Side& side : {made.in, made.out}) {
    if (side.stride < 1 || side.distance < 0 || (batch > 1 && side.distance == 0)) return invalid_value;
    for (int d = 1; d < rank; ++d)  // rows and planes must not overlap; the slowest direction is not embedded
      if (side.embed[d] < side.count[d]) return invalid_value;
  }
  // Sizes that are not powers of two need as much work memory as their data; other sizes need none.
  if (!std::has_single_bit(static_cast<unsigned long long>(made.points())))
    made.work_bytes = batch * made.points() * (made.single() ? 8 : 16);
  *work_bytes = made.work_bytes;
  made.made = true;
  *plan = made;
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
// From now on plans of this many dimensions are refused.
void fake_gpu_fft_refuse(int rank) { refused_rank = rank; }

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
  return make(pointer(handle), rank, n, embed_in, stride_in, distance_in, embed_out, stride_out, distance_out, type,
              batch, work_bytes);
}
int cufftMakePlanMany64(int handle, int rank, long long* n, long long* embed_in, long long stride_in,
                        long long distance_in, long long* embed_out, long long stride_out, long long distance_out,
                        int type, long long batch, std::size_t* work_bytes) {
  return make(pointer(handle), rank, n, embed_in, stride_in, distance_in, embed_out, stride_out, distance_out, type,
              batch, work_bytes);
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
  return make(handle, rank, n, embed_in, stride_in, distance_in, embed_out, stride_out, distance_out, type, batch,
              work_bytes);
}
int hipfftMakePlanMany64(void* handle, int rank, long long* n, long long* embed_in, long long stride_in,
                         long long distance_in, long long* embed_out, long long stride_out, long long distance_out,
                         int type, long long batch, std::size_t* work_bytes) {
  return make(handle, rank, n, embed_in, stride_in, distance_in, embed_out, stride_out, distance_out, type, batch,
              work_bytes);
}
int hipfftExecR2C(void* handle, void* in, void* out) { return execute(handle, in, out, -1, r2c); }
int hipfftExecC2R(void* handle, void* in, void* out) { return execute(handle, in, out, 1, c2r); }
int hipfftExecC2C(void* handle, void* in, void* out, int sign) { return execute(handle, in, out, sign, c2c); }
int hipfftExecD2Z(void* handle, void* in, void* out) { return execute(handle, in, out, -1, d2z); }
int hipfftExecZ2D(void* handle, void* in, void* out) { return execute(handle, in, out, 1, z2d); }
int hipfftExecZ2Z(void* handle, void* in, void* out, int sign) { return execute(handle, in, out, sign, z2z); }
}
