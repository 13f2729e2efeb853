#include "weft/poisson/simd_geometry.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/device/disk_cache.hpp"
#include "weft/device/in_gib.hpp"
#include "weft/exchange/tuner.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/poisson/simd_sweep.hpp"
#include "weft/simd/thread_scratch.hpp"
#include "weft/simd/vector.hpp"

namespace weft::poisson {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{64} << 20;  // of factors to time with
const std::vector<std::string> names{"recomputed", "stored"};

template <class T>
std::int64_t factors_per_block(int order) {
  return std::int64_t{cube(order + 1)} * 6 * simd::lanes<T>;
}

// Times the operator with either metric on the first blocks of every thread's share. The time does not depend on the
// values, so all blocks are treated as trilinear, and all factors are 1.
template <class T>
class Trial {
 public:
  Trial(const space::Space<T>& space, const SimdElements<T>& elements)
      : plan_(space.blocks()->plan()),
        pass_(simd_passes<T>(space.order()).apply),
        scratch_(plan_.threads, scratch_vectors(space.order()) * simd::lanes<T>) {
    const std::int64_t blocks = space.numbering().split.blocks, each = factors_per_block<T>(space.order());
    const std::int64_t most = std::max<std::int64_t>(1, most_bytes / static_cast<std::int64_t>(sizeof(T)) / each);
    std::int64_t stored = 0;
    places_.resize(blocks);
    for (int t = 0; t < plan_.threads; ++t) {
      const std::int64_t begin = blocks * t / plan_.threads, end = blocks * (t + 1) / plan_.threads;
      shares_.push_back({begin, std::min(end, begin + std::max<std::int64_t>(1, most / plan_.threads))});
      for (std::int64_t b = begin; b < shares_.back().end; ++b) places_[b] = static_cast<std::int32_t>(stored++);
      read_.emplace_back(zeros(plan_.zero + 1));
      added_.emplace_back(zeros(plan_.zero + 1));
    }
    factors_ = {space.device(), static_cast<std::size_t>(stored * each)};
    for (const mesh::Shape shape : {mesh::Shape::trilinear, mesh::Shape::curved}) {
      std::vector<mesh::Shape>& all = shapes_[shape == mesh::Shape::curved];
      all.assign(blocks, shape);
      SimdElements<T>& candidate = candidates_[shape == mesh::Shape::curved];
      candidate = elements;
      candidate.shapes = all.data();
      candidate.stored = places_.data();
      candidate.factors = factors_.data();
    }
    by_threads([&](const Range& share, int t) {
      if (share.begin < share.end)
        std::fill_n(factors_.data() + places_[share.begin] * each, (share.end - share.begin) * each, T(1));
      run(candidates_[0], added_[t].get(), read_[t].get(), t);  // makes the pages that are read real memory
    });
  }

  exchange::Repetition operator()(std::size_t candidate, int passes) {
    const auto begin = std::chrono::steady_clock::now();
    by_threads([&](const Range&, int t) {
      for (int pass = 0; pass < passes; ++pass) run(candidates_[candidate], read_[t].get(), added_[t].get(), t);
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return {seconds, seconds};
  }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  // Only the pages that the timed blocks touch become real memory.
  static std::unique_ptr<T[], Free> zeros(std::int64_t entries) {
    std::unique_ptr<T[], Free> values(static_cast<T*>(std::calloc(entries, sizeof(T))));
    if (values == nullptr) throw std::bad_alloc();
    return values;
  }
  template <class Work>
  void by_threads(Work&& work) {
#pragma omp parallel for num_threads(plan_.threads) schedule(static, 1) if (plan_.threads > 1)
    for (int t = 0; t < plan_.threads; ++t) work(shares_[t], t);
  }
  void run(const SimdElements<T>& elements, const T* x, T* y, int t) {
    OperatorSweep<T> sweep(x, y, T(1));
    pass_(elements, plan_, sweep, shares_[t], scratch_.of(t));
  }

  const space::Plan& plan_;
  typename SimdPasses<T>::template Pass<OperatorSweep<T>> pass_;
  simd::ThreadScratch<T> scratch_;
  std::vector<Range> shares_;                             // [threads]
  std::vector<std::int32_t> places_;                      // [blocks]
  std::vector<std::unique_ptr<T[], Free>> read_, added_;  // a thread's own
  device::Array<T> factors_;
  std::array<std::vector<mesh::Shape>, 2> shapes_;
  std::array<SimdElements<T>, 2> candidates_;
};

template <class T>
std::string key_of(const space::Space<T>& space, std::int64_t bytes) {
  const auto& info = space.device()->info();
  return "metric of straight elements\nprocessor " + info.name + " " + info.architecture + "\ntype " +
         device::type_name<T>() + "\norder " + std::to_string(space.order()) + "\nthreads " +
         std::to_string(space.blocks()->plan().threads) + "\nranks on the node " +
         std::to_string(space.comm().node().size()) + "\nfactors of 2^" +
         std::to_string(std::bit_width(static_cast<std::uint64_t>(std::min(bytes, most_bytes)))) + " bytes\n";
}

// An entry of the cache is the name and, on the next line, the reason.
std::optional<StraightMetric> parsed(const std::string& text) {
  const std::size_t end = text.find('\n');
  for (const bool stored : {false, true})
    if (end != text.npos && names[stored] == text.substr(0, end)) return StraightMetric{stored, text.substr(end + 1)};
  return std::nullopt;
}

}  // namespace

template <class T>
StraightMetric choose_straight_metric(space::Space<T>& space, const SimdElements<T>& elements, std::int64_t blocks) {
  static const device::DiskCache kept("geometry", 1);
  const mpi::Comm& comm = space.comm();
  const std::int64_t bytes =
      comm.max(blocks * factors_per_block<T>(space.order()) * static_cast<std::int64_t>(sizeof(T)));
  if (bytes == 0) return {false, ""};
  const std::int64_t of_node = bytes * comm.max(static_cast<std::int64_t>(comm.node().size()));
  const std::int64_t free = comm.min(space.device()->free_bytes());
  if (of_node > free / 2)
    return {false, "the metric of trilinear elements is recomputed, because factors would take up to " +
                       device::in_gib(of_node) + " of a node's free " + device::in_gib(free)};

  const std::string key = key_of<T>(space, bytes);
  std::optional<StraightMetric> found;
  enum : std::int64_t { recomputed, stored, not_yet };
  std::int64_t known = recomputed;
  if (comm.rank() == 0 && !device::cache_directory().empty()) {
    if (const auto entry = kept.read(key); entry.value) found = parsed(*entry.value);
    known = !found ? not_yet : found->stored ? stored : recomputed;
  }
  known = comm.max(known);
  if (known != not_yet) return {known == stored, found ? found->reason + ", kept from an earlier run" : ""};

  std::optional<Trial<T>> trial;
  comm.together([&] { trial.emplace(space, elements); });
  exchange::TuningLimits limits;
  limits.seconds_in_all = 0.05;
  const exchange::Ranking ranking = exchange::race(
      names.size(), [&](std::size_t candidate, int passes) { return (*trial)(candidate, passes); },
      [&](std::span<double> values) {
        for (double& value : values) value = comm.max(value);
      },
      limits);
  StraightMetric choice{ranking.winner == 1,
                        "the metric of trilinear elements is " + names[ranking.winner] + ", " + ranking.reason(names)};
  comm.together([&] {
    if (comm.rank() != 0) return;
    const std::string first = kept.keep(key, names[choice.stored] + "\n" + choice.reason);
    if (const auto earlier = parsed(first)) choice = *earlier;
  });
  choice.stored = comm.max(std::int64_t{comm.rank() == 0 && choice.stored}) == 1;
  return choice;
}

template StraightMetric choose_straight_metric<double>(space::Space<double>&, const SimdElements<double>&,
                                                       std::int64_t);
template StraightMetric choose_straight_metric<float>(space::Space<float>&, const SimdElements<float>&, std::int64_t);

}  // namespace weft::poisson
