#include "weft/mpi/same.hpp"

#include <algorithm>
#include <cstddef>

#include "weft/mpi/agreement.hpp"

namespace weft::mpi {

void require_same(const Comm& comm, const std::string& what, const std::string& text) {
  require_same(comm, {{what, text}}, [] {});
}

void require_same(const Comm& comm, const std::vector<Argument>& arguments, const std::function<void()>& work,
                  std::span<std::int64_t> least) {
  std::vector<std::int64_t> words;  // a hash of each text, and its negative: the minimum of that is the maximum
  for (const Argument& argument : arguments) {
    std::uint64_t hash = 14695981039346656037U;  // FNV-1a
    for (const char c : argument.text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    const auto number = static_cast<std::int64_t>(hash >> 1);
    words.insert(words.end(), {number, -number});
  }
  const std::size_t hashes = words.size();
  words.resize(hashes + least.size());
  const std::span own = std::span(words).subspan(hashes);
  together(
      comm,
      [&] {
        work();
        std::ranges::copy(least, own.begin());
      },
      words);
  std::ranges::copy(own, least.begin());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (words[2 * i] == -words[2 * i + 1]) continue;
    const auto& [what, text] = arguments[i];
    comm.together([&] { throw std::invalid_argument(what + " must be the same on all ranks; rank 0 has " + text); });
  }
}

}  // namespace weft::mpi
