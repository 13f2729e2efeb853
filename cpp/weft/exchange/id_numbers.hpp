// 32-bit numbers for the distinct global ids of a rank.
//
// Nothing is sorted: a bitmap records which ids exist, divided into pages, of which only those with ids are stored.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::exchange {

// The number of an id is the number of smaller distinct ids on this rank. Memory: a quarter of a byte per id for ids in
// contiguous runs, 1 KiB per id in the worst case, plus a thousandth of `end` bytes.
class IdNumbers {
 public:
  IdNumbers() = default;
  // ids: in [0, end), in any order, repetitions allowed. The work is shared among the threads. std::length_error if
  // there are more distinct ids than 32-bit numbers.
  IdNumbers(std::span<const std::int64_t> ids, std::int64_t end);

  std::int32_t size() const { return size_; }
  // The number of an id; it must be one of those given to the constructor.
  std::int32_t operator[](std::int64_t id) const {
    const Word& word = words_[word_of(id)];
    return word.before + std::popcount(word.bits & (bit_of(id) - 1));
  }

 private:
  static constexpr int page_bits = 12, word_bits = 6;
  static constexpr std::int64_t words_per_page = std::int64_t{1} << (page_bits - word_bits);
  struct Word {
    std::uint64_t bits = 0;
    std::int32_t before = 0;  // number of ids in the words before this one
  };
  static std::uint64_t bit_of(std::int64_t id) { return std::uint64_t{1} << (id & 63); }
  std::int64_t word_of(std::int64_t id) const {
    return pages_[id >> page_bits] * words_per_page + (id >> word_bits & (words_per_page - 1));
  }

  std::vector<std::int32_t> pages_;  // by id / page size: position among the stored pages, or -1
  std::vector<Word> words_;          // [stored pages][words_per_page]
  std::int32_t size_ = 0;
};

}  // namespace weft::exchange
