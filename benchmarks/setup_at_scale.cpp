// Counts the messages, bytes and memory of finding out who shares which id, on very many simulated ranks in one
// process:
//   ninja -C build setup_at_scale && build/benchmarks/setup_at_scale 50 50 40 > results.json
// Arguments: the grid of ranks, elements per rank along an edge (2), order (3), and K such that one in K ranks holds
// the common id of the adversarial case (1: all). There are two cases: boxes of spectral elements, and the same with an
// id that all those ranks hold and a rank that holds every id. The answers to sampled ranks are checked.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "simulated_setup.hpp"

namespace {

void print(const char* name, const simulated::Result& result, std::int64_t simulated::Counts::* member, bool last) {
  std::vector<std::int64_t> values;
  double sum = 0;
  for (const auto& rank : result.ranks) {
    values.push_back(rank.*member);
    sum += static_cast<double>(values.back());
  }
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return static_cast<long long>(values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))]);
  };
  std::printf("   \"%s\": {\"mean\": %.1f, \"p50\": %lld, \"p99\": %lld, \"p99_9\": %lld, \"max\": %lld}%s\n", name,
              sum / static_cast<double>(values.size()), at(0.5), at(0.99), at(0.999), at(1.0), last ? "" : ",");
}

void run(const char* name, const simulated::Decomposition& d, const std::vector<std::int32_t>& samples, bool last) {
  const auto begin = std::chrono::steady_clock::now();
  const simulated::Result result =
      simulated::Setup::run(d, samples, [&](std::int32_t rank, const simulated::Ids& ids, const auto& sharing) {
        simulated::check(d, rank, ids, sharing);
      });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "  {\"case\": \"%s\", \"ranks\": %d, \"sparse_exchanges\": %d, \"ranks_checked\": %zu,\n"
      "   \"simulation_seconds\": %.1f, \"simulation_peak_bytes\": %lld,\n",
      name, d.ranks, result.exchanges, samples.size(), seconds, 1024LL * usage.ru_maxrss);
  using simulated::Counts;
  print("ids", result, &Counts::ids, false);
  print("messages_sent", result, &Counts::messages_sent, false);
  print("messages_received", result, &Counts::messages_received, false);
  print("bytes_sent", result, &Counts::bytes_sent, false);
  print("bytes_received", result, &Counts::bytes_received, false);
  print("held_bytes", result, &Counts::held_bytes, true);
  std::printf("  }%s\n", last ? "" : ",");
}

}  // namespace

int main(int argc, char** argv) {
  long long numbers[] = {50, 50, 40, 2, 3, 1};
  for (int a = 1; a < argc && a <= 6; ++a) {
    numbers[a - 1] = std::atoll(argv[a]);
    if (numbers[a - 1] < 1 || argc > 7) {
      std::fprintf(stderr, "usage: setup_at_scale [X Y Z [elements order every]], integers of at least 1\n");
      return 1;
    }
  }
  const simulated::Boxes boxes{{numbers[0], numbers[1], numbers[2]}, numbers[3], numbers[4]};
  std::vector<std::int32_t> samples;
  for (std::int32_t i = 0; i < 100; ++i) {
    samples.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(i) * boxes.ranks() / 100));
  }
  std::printf("{\"grid\": [%lld, %lld, %lld], \"elements_per_rank\": %lld, \"order\": %lld, \"cases\": [\n", numbers[0],
              numbers[1], numbers[2], numbers[3] * numbers[3] * numbers[3], numbers[4]);
  run("boxes", simulated::structured(boxes), samples, false);
  run("adversarial", simulated::adversarial(boxes, static_cast<std::int32_t>(numbers[5])), {0, boxes.ranks() - 1},
      true);
  std::printf("]}\n");
  return 0;
}
