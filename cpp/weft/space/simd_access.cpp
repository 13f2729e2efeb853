#include "weft/space/simd_access.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>

#include "weft/device/device.hpp"
#include "weft/device/disk_cache.hpp"
#include "weft/exchange/tuner.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/simd/vector.hpp"
#include "weft/space/columns.hpp"

namespace weft::space {
namespace {

struct Choice {
  Access access;
  std::string reason;
};

template <class T>
std::string key_of(int order, const std::vector<Access>& candidates) {
  const auto host = device::open("host");
  std::string text = "access to surface points\nprocessor " + host->info().name + " " + host->info().architecture +
                     "\ntype " + device::type_name<T>() + "\norder " + std::to_string(order) + "\n";
  for (const Access& access : candidates) text += "candidate " + name(access) + "\n";
  return text;
}

// An entry of the cache is the name and, on the next line, the reason.
std::optional<Choice> parsed(const std::string& text, const std::vector<Access>& candidates) {
  const std::size_t end = text.find('\n');
  for (const Access& access : candidates)
    if (end != text.npos && name(access) == text.substr(0, end)) return Choice{access, text.substr(end + 1)};
  return std::nullopt;
}

template <class T>
Choice timed(const Blocks& blocks, const Numbering& numbering, const std::vector<Access>& candidates) {
  const int n = numbering.order + 1, surface = cube(n) - cube(std::max(0, n - 2));
  constexpr int vectors = 4096;  // read and added to per pass: takes some ten microseconds
  const std::int64_t count = std::min<std::int64_t>(numbering.split.blocks, (vectors + surface - 1) / surface);
  // Only the pages that the blocks touch become real memory.
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  const std::unique_ptr<T[], Free> values(static_cast<T*>(std::calloc(blocks.plan().zero + 1, sizeof(T))));
  if (values == nullptr) throw std::bad_alloc();
  const exchange::RunCandidate run = [&](std::size_t candidate, int passes) -> exchange::Repetition {
    const BlockIndex index = blocks.index(candidates[candidate]);
    const auto begin = std::chrono::steady_clock::now();
    for (int pass = 0; pass < passes; ++pass) {
      for (std::int64_t b = 0; b < count; ++b) {
        const BlockSurface<T> points(index, b, surface);
        simd::Vec<T> sum{};
        for (int p = 0; p < surface; ++p) sum += points.read(values.get(), p);
        for (int p = 0; p < surface; ++p) points.add(values.get(), p, sum);
      }
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return {seconds, seconds};
  };
  exchange::TuningLimits limits;
  limits.seconds_in_all = 0.01;
  const exchange::Ranking ranking = exchange::race(candidates.size(), run, [](std::span<double>) {}, limits);
  std::vector<std::string> names;
  for (const Access& access : candidates) names.push_back(name(access));
  return {candidates[ranking.winner], ranking.reason(names)};
}

}  // namespace

template <class T>
std::vector<Access> access_candidates() {
  std::vector<Access> all;
  for (const bool runs : {false, true})
    for (const bool by_loads : {false, true})
      if (by_loads || simd::has_gather) all.push_back({runs, by_loads});
  return all;
}

template <class T>
void choose_access(Blocks& blocks, const Numbering& numbering, bool cache) {
  static const device::DiskCache kept("tuning", 1);
  const std::vector<Access> candidates = access_candidates<T>();
  Choice choice{candidates.front(), "rank 0 has no elements"};
  numbering.mesh.comm.together([&] {
    if (numbering.mesh.comm.rank() != 0 || numbering.split.blocks == 0) return;
    const std::string key = key_of<T>(numbering.order, candidates);
    std::optional<Choice> found;
    if (cache)
      if (const auto entry = kept.read(key); entry.value) found = parsed(*entry.value, candidates);
    if (found) {
      choice = {found->access, found->reason + ", kept from an earlier run"};
    } else {
      choice = timed<T>(blocks, numbering, candidates);
      if (cache) kept.write(key, name(choice.access) + "\n" + choice.reason);
    }
  });
  std::uint8_t chosen[2] = {choice.access.runs, choice.access.by_loads};
  mpi::check(MPI_Bcast(chosen, 2, MPI_UINT8_T, 0, numbering.mesh.comm.get()), "MPI_Bcast");
  blocks.use({chosen[0] != 0, chosen[1] != 0}, choice.reason);
}

template std::vector<Access> access_candidates<double>();
template std::vector<Access> access_candidates<float>();
template void choose_access<double>(Blocks&, const Numbering&, bool);
template void choose_access<float>(Blocks&, const Numbering&, bool);

}  // namespace weft::space
