#include "weft/exchange/id_numbers.hpp"

#include <atomic>
#include <limits>
#include <stdexcept>
#include <string>

namespace weft::exchange {

IdNumbers::IdNumbers(std::span<const std::int64_t> ids, std::int64_t end) {
  const auto count = static_cast<std::int64_t>(ids.size());
  pages_.assign(static_cast<std::size_t>(((end - 1) >> page_bits) + 1), -1);
  // Most ids find that the page is marked already, and only read.
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; ++i) {
    const std::atomic_ref page(pages_[static_cast<std::size_t>(ids[static_cast<std::size_t>(i)] >> page_bits)]);
    if (page.load(std::memory_order_relaxed) < 0) page.store(0, std::memory_order_relaxed);
  }
  std::int32_t stored = 0;
  for (std::int32_t& page : pages_)
    if (page == 0) page = stored++;
  words_.resize(static_cast<std::size_t>(stored * words_per_page));
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t id = ids[static_cast<std::size_t>(i)];
    const std::atomic_ref bits(words_[static_cast<std::size_t>(word_of(id))].bits);
    if ((bits.load(std::memory_order_relaxed) & bit_of(id)) == 0) bits.fetch_or(bit_of(id), std::memory_order_relaxed);
  }
  std::int64_t before = 0;
  for (Word& word : words_) {
    word.before = static_cast<std::int32_t>(before);
    before += std::popcount(word.bits);
  }
  if (before > std::numeric_limits<std::int32_t>::max())
    throw std::length_error("a rank has " + std::to_string(before) +
                            " ids, more than 32 bits can number: use more ranks");
  size_ = static_cast<std::int32_t>(before);
}

}  // namespace weft::exchange
