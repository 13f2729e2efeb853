#include "weft/device/limits.hpp"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <vector>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "weft/device/caches.hpp"

namespace weft::device {
namespace {

constexpr int repetitions = 10;

// The best of ten runs, or of fewer once three of them agree with the best to within 2 %: a quiet machine needs only a
// few.
double best_seconds(const auto& run) {
  std::vector<double> all;
  for (int i = 0; i < repetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    all.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    const double best = *std::ranges::min_element(all);
    if (std::ranges::count_if(all, [&](double seconds) { return seconds <= 1.02 * best; }) == 3) break;
  }
  return *std::ranges::min_element(all);
}

// The widest vector the host code is compiled for, and how many of them fit in the registers besides the constants.
#if defined(__AVX512F__)
constexpr int vector_bytes = 64, chains = 24;
#elif defined(__AVX__)
constexpr int vector_bytes = 32, chains = 12;
#else
constexpr int vector_bytes = 16, chains = 12;
#endif
template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(vector_bytes)));
};
using Words = VectorOf<double>::type;
constexpr std::int64_t words = vector_bytes / sizeof(double);

// A non-temporal store, so that memory is not read before it is overwritten.
inline void store_past_caches(double* to, Words value) {
#if defined(__AVX512F__)
  _mm512_stream_pd(to, reinterpret_cast<__m512d>(value));
#elif defined(__AVX__)
  _mm256_stream_pd(to, reinterpret_cast<__m256d>(value));
#elif defined(__SSE2__)
  _mm_stream_pd(to, reinterpret_cast<__m128d>(value));
#else
  *reinterpret_cast<Words*>(to) = value;
#endif
}

double host_bandwidth(const std::shared_ptr<Device>& device, std::size_t bytes) {
  if (bytes == 0) {
    bytes = std::clamp(4 * last_level_cache_bytes(), std::size_t{256} << 20, std::size_t{1} << 30);
  }
  const std::int64_t vectors = static_cast<std::int64_t>(bytes) / (9 * vector_bytes);  // written
  if (vectors == 0) return host_bandwidth(device, 9 * vector_bytes);
  Array<double> x(device, 8 * words * vectors), y(device, words * vectors);
  const auto share = [&](std::int64_t thread) { return vectors * thread / omp_get_num_threads(); };
  // The threads' own copies of pointers stay in registers. On Zen 4, reading them from memory again after every
  // non-temporal store halves the rate.
  double *const all_read = x.data(), *const all_written = y.data();
#pragma omp parallel
  {
    double *const from = all_read, *const to = all_written;
    const std::int64_t end = share(omp_get_thread_num() + 1);
    for (std::int64_t i = share(omp_get_thread_num()); i < end; ++i) {  // first touch
      for (int k = 0; k < 8; ++k) store_past_caches(from + words * (8 * i + k), Words{} + 1.0);
      store_past_caches(to + words * i, Words{});
    }
  }
  const double seconds = best_seconds([&] {
#pragma omp parallel
    {
      const double* const from = all_read;
      double* const to = all_written;
      const std::int64_t end = share(omp_get_thread_num() + 1);
      for (std::int64_t i = share(omp_get_thread_num()); i < end; ++i) {
        const Words* v = reinterpret_cast<const Words*>(from + 8 * words * i);
        store_past_caches(to + words * i, ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])));
      }
#if defined(__SSE2__)
      _mm_sfence();
#endif
    }
  });
  return 9.0 * vector_bytes * static_cast<double>(vectors) / seconds;
}

template <class T>
double host_peak() {
  using Vector = typename VectorOf<T>::type;
  constexpr int steps = 1 << 19;  // about four milliseconds
  int threads = 1;
  T total = 0;
  const double seconds = best_seconds([&] {
#pragma omp parallel reduction(+ : total)
    {
#pragma omp single
      threads = omp_get_num_threads();
      Vector sums[chains];
      for (int k = 0; k < chains; ++k) sums[k] = Vector{} + T(k);
      Vector a = Vector{} + T(0.999), b = Vector{} + T(0.001);
      asm volatile("" : "+m"(a), "+m"(b));  // hides the constants from the compiler
      for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 24
        for (int k = 0; k < chains; ++k) sums[k] = a * sums[k] + b;
      }
      for (int k = 0; k < chains; ++k) total += sums[k][0];
    }
  });
  asm volatile("" : : "m"(total));  // keeps the compiler from removing an unused sum
  return 2.0 * steps * chains * (vector_bytes / sizeof(T)) * threads / seconds;
}

double best_event_seconds(const std::shared_ptr<Device>& device, const auto& launch) {
  Stream stream(device);
  Event begin(device), end(device);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repetitions; ++i) {
    begin.record(stream);
    launch(stream);
    end.record(stream);
    stream.synchronize();
    best = std::min(best, end.seconds_since(begin));
  }
  return best;
}

constexpr Shape limits_shape{256};

double gpu_bandwidth(const std::shared_ptr<Device>& device, std::size_t bytes) {
  if (bytes == 0) bytes = std::size_t{2} << 30;
  bytes = std::min(bytes, static_cast<std::size_t>(device->info().memory_bytes) / 4);
  const auto blocks = static_cast<long>(std::max<std::size_t>(1, bytes / (9 * sizeof(double) * limits_shape.x)));
  const long n = blocks * limits_shape.x;
  Array<double> x(device, 8 * n), y(device, n);
  x.zero();
  const Kernel<long, const double*, double*> kernel = device->kernel<double>("limits", "stream");
  const double seconds =
      best_event_seconds(device, [&](Stream& stream) { kernel(stream, blocks, limits_shape, n, x.data(), y.data()); });
  return 9.0 * sizeof(double) * static_cast<double>(n) / seconds;
}

template <class T>
double gpu_peak(const std::shared_ptr<Device>& device) {
  constexpr int steps = 8192;
  const Kernel<int, T, T, T*> kernel = device->kernel<T>("limits", "multiply_add");
  // Four full waves of blocks.
  const unsigned blocks =
      4u * std::max(1, device->info().multiprocessors) * std::max(1, kernel.resources().max_blocks_per_multiprocessor);
  Array<T> y(device, static_cast<std::size_t>(blocks) * limits_shape.x);
  const double seconds = best_event_seconds(
      device, [&](Stream& stream) { kernel(stream, blocks, limits_shape, steps, 0.999, 0.001, y.data()); });
  return 16.0 * steps * static_cast<double>(y.size()) / seconds;
}

// A pseudo-random order of `lines` (a power of two) as one cycle: a linear congruential generator of full period
// (Knuth, The Art of Computer Programming, volume 2, section 3.2.1.2), which no prefetcher can follow.
std::vector<int> one_cycle(int lines, int stride) {
  std::vector<int> next(static_cast<std::size_t>(lines) * stride, 0);
  for (std::int64_t i = 0; i < lines; ++i) {
    next[static_cast<std::size_t>(i) * stride] = static_cast<int>((i * 1664525 + 1013904223) & (lines - 1));
  }
  return next;
}

constexpr int chase_stride = irregular_bytes / sizeof(int);

double host_irregular_read(const std::vector<int>& next, int lines) {
  constexpr int together = 8, steps = 1 << 15;
  int threads = 1;
  long total = 0;
  const double seconds = best_seconds([&] {
#pragma omp parallel reduction(+ : total)
    {
#pragma omp single
      threads = omp_get_num_threads();
      int at[together];
      for (int k = 0; k < together; ++k) {
        at[k] = static_cast<int>(((omp_get_thread_num() * together + k) * 2654435761L) & (lines - 1));
      }
      for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 8
        for (int k = 0; k < together; ++k) at[k] = next[static_cast<std::size_t>(at[k]) * chase_stride];
      }
      for (int k = 0; k < together; ++k) total += at[k];
    }
  });
  asm volatile("" : : "m"(total));  // keeps the compiler from removing an unused sum
  return seconds / (static_cast<double>(steps) * together * threads);
}

double gpu_irregular_read(const std::shared_ptr<Device>& device, const std::vector<int>& next, int lines) {
  constexpr int steps = 64;
  const Kernel<int, int, int, const int*, int*> kernel = device->kernel<double>("limits", "chase");
  const unsigned blocks = static_cast<unsigned>(std::max(1, device->info().multiprocessors) *
                                                std::max(1, kernel.resources().max_blocks_per_multiprocessor));
  Array<int> memory(device, next), last(device, static_cast<std::size_t>(blocks) * limits_shape.x);
  const double seconds = best_event_seconds(device, [&](Stream& stream) {
    kernel(stream, blocks, limits_shape, lines, chase_stride, steps, memory.data(), last.data());
  });
  return seconds / (static_cast<double>(steps) * static_cast<double>(last.size()));
}

}  // namespace

double measure_irregular_read(const std::shared_ptr<Device>& device, std::size_t bytes) {
  if (bytes == 0) bytes = std::size_t{256} << 20;
  const int lines = static_cast<int>(std::bit_floor(std::clamp<std::size_t>(bytes / irregular_bytes, 1, 1 << 30)));
  const std::vector<int> next = one_cycle(lines, chase_stride);
  return device->is_host() ? host_irregular_read(next, lines) : gpu_irregular_read(device, next, lines);
}

CopyRates measure_copies(const std::shared_ptr<Device>& device, std::size_t bytes) {
  if (bytes == 0) bytes = std::size_t{64} << 20;
  std::vector<char> host(bytes, 1);
  Array<char> array(device, bytes);
  Stream stream(device);
  const auto rate = [&](void* to, const void* from, CopyKind kind) {
    const double seconds = best_seconds([&] {
      device->copy(to, from, bytes, kind, stream);
      stream.synchronize();
    });
    return static_cast<double>(bytes) / seconds;
  };
  const double there = rate(array.data(), host.data(), CopyKind::host_to_device);
  return {there, rate(host.data(), array.data(), CopyKind::device_to_host)};
}

double measure_bandwidth(const std::shared_ptr<Device>& device, std::size_t bytes) {
  return device->is_host() ? host_bandwidth(device, bytes) : gpu_bandwidth(device, bytes);
}

template <class T>
double measure_peak_flops(const std::shared_ptr<Device>& device) {
  return device->is_host() ? host_peak<T>() : gpu_peak<T>(device);
}
template double measure_peak_flops<double>(const std::shared_ptr<Device>&);
template double measure_peak_flops<float>(const std::shared_ptr<Device>&);

}  // namespace weft::device
