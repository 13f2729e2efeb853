// What all of weft's own file formats share: checksums, and headers in their common frame.
#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

#include "weft/files/bytes.hpp"
#include "weft/files/checksum.hpp"
#include "weft/files/parallel_file.hpp"

using namespace weft::files;

namespace {

constexpr Format format{{'w', 'e', 'f', 't', 't', 'e', 's', 't'}, 3, "a file of this test"};

std::vector<std::byte> header() {
  Writer w(format);
  w.put(std::int32_t{7});
  w.list(std::vector<double>{1.5, -2.5});
  w.list(std::string("words"));
  return std::move(w).sealed();
}

std::string error_of(std::span<const std::byte> bytes, const Format& as = format) {
  try {
    Reader r(bytes, as, "some.bin");
    r.get<std::int32_t>();
    r.list<double>();
    r.text();
    r.end();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(Checksum, agrees_with_the_published_check_value_and_goes_on_from_another) {
  const std::string text = "123456789";
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(checksum(bytes), 0x995DC9BBDF1939FAU);  // CRC-64/XZ
  EXPECT_EQ(checksum(bytes.subspan(4), checksum(bytes.first(4))), 0x995DC9BBDF1939FAU);
}

TEST(Header, comes_back_as_it_was_put) {
  const auto bytes = header();
  EXPECT_EQ(header_bytes(bytes, format, "some.bin"), std::ssize(bytes));
  const std::string name = "some.bin";
  Reader r(bytes, format, name);
  EXPECT_EQ(r.get<std::int32_t>(), 7);
  EXPECT_EQ(r.list<double>(), (std::vector<double>{1.5, -2.5}));
  EXPECT_EQ(r.text(), "words");
  r.end();
}

TEST(Header, has_the_number_that_was_given) {
  EXPECT_EQ(number_of(header()), 0);
  EXPECT_EQ(number_of(Writer(format, 12).sealed()), 12);
}

TEST(Header, of_another_format_version_or_byte_order_says_which) {
  Format other = format;
  other.magic[0] = 'W';
  EXPECT_EQ(error_of(header(), other), "some.bin: not a file of this test");
  other = format;
  other.version = 4;
  EXPECT_EQ(error_of(header(), other), "some.bin: format version 3, this weft reads 4");
  auto bytes = header();
  std::swap(bytes[12], bytes[15]);
  EXPECT_NE(error_of(bytes).find("other byte order"), std::string::npos);
}

TEST(Header, with_any_wrong_bit_or_end_is_refused) {
  const auto good = header();
  EXPECT_EQ(error_of(good), "");
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_EQ(error_of(bad).rfind("some.bin: ", 0), 0U) << "bit " << bit;
  }
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(error_of(std::span(good).first(size)).rfind("some.bin: ", 0), 0U) << "size " << size;
}

// Counts that exceed the header, under a valid checksum.
TEST(Header, whose_numbers_are_wild_is_refused_without_a_large_allocation) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 500; ++round) {
    auto bad = header();
    const std::size_t at = prefix_bytes + random() % (bad.size() - prefix_bytes - 15);
    const auto wild = static_cast<std::int64_t>(random() >> random() % 64);
    std::memcpy(bad.data() + at, &wild, sizeof wild);
    const std::uint64_t sum = checksum(std::span(bad).first(bad.size() - 8));
    std::memcpy(bad.data() + bad.size() - 8, &sum, sizeof sum);
    error_of(bad);  // an error or not (a number may be any)
  }
}

TEST(ParallelFile, says_what_to_do_about_a_full_disk) {
  ParallelFile file(MPI_COMM_SELF, "/dev/full", MPI_MODE_WRONLY);
  try {
    file.write(0, std::vector<std::byte>(64));
    file.finish();
    FAIL() << "a full disk is not an error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(),
                 "/dev/full: cannot be written: No space left on device; free some space, or choose another folder");
  }
}
