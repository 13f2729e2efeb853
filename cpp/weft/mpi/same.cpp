#include "weft/mpi/same.hpp"

#include <algorithm>
#include <vector>

#include "weft/mpi/agreement.hpp"

namespace weft::mpi {

void require_same(const Comm& comm, const std::string& what, const std::string& text) {
  require_same(comm, what, text, [] {});
}

void require_same(const Comm& comm, const std::string& what, const std::string& text, const std::function<void()>& work,
                  std::span<std::int64_t> least) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  const auto mine = static_cast<std::int64_t>(hash >> 1);
  std::vector<std::int64_t> words{mine, -mine};  // the minimum of the negative is the maximum
  words.resize(2 + least.size());
  const std::span own = std::span(words).subspan(2);
  together(
      comm,
      [&] {
        work();
        std::ranges::copy(least, own.begin());
      },
      words);
  std::ranges::copy(own, least.begin());
  if (words[0] == -words[1]) return;
  comm.together([&] { throw std::invalid_argument(what + " must be the same on all ranks; rank 0 has " + text); });
}

}  // namespace weft::mpi
