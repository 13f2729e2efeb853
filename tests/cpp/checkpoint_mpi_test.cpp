// Checkpoints: data that were written can be read back on any process grid and in either precision, and damage is
// reported.
#include "weft/turbulence/checkpoint_file.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "error_of.hpp"
#include "folder.hpp"
#include "weft/device/device.hpp"
#include "weft/fft/decomposition.hpp"
#include "weft/files/checksum.hpp"
#include "weft/turbulence/random.hpp"

using namespace weft;
using namespace weft::turbulence;
namespace fs = std::filesystem;

namespace {

constexpr std::array<double, 3> lengths{6.283185307179586, 3.0, 6.283185307179586};

// The fields of one rank on a process grid, with a solenoidal random velocity that depends only on the mode.
template <class T>
struct Fields {
  Fields(const Box& box, Dealiasing dealiasing, const fft::Grid& grid, int rank, int scalars)
      : truncation(box, dealiasing) {
    const fft::Decomposition d({box.sizes[0], box.sizes[1], box.sizes[2]}, truncation.modes_x(), grid, rank);
    const fft::Box mine = d.spectral();
    part = {box, {mine.first[0], mine.count[0]}, {mine.first[2], mine.count[2]}};
    values.assign(static_cast<std::size_t>(3 + scalars),
                  std::vector<std::complex<T>>(static_cast<std::size_t>(part.modes())));
  }

  void fill() {
    each([&](std::int64_t at, std::int64_t nx, std::int64_t ny, std::int64_t nz) {
      std::array<std::complex<double>, 3> u;
      const std::array<double, 3> k{part.box.unit(0) * nx, part.box.unit(1) * ny, part.box.unit(2) * nz};
      const double square = k[0] * k[0] + k[1] * k[1] + k[2] * k[2];
      std::complex<double> along = 0;
      for (std::uint32_t c = 0; c < 3; ++c) {
        const Counter place{static_cast<std::uint32_t>(nx), static_cast<std::uint32_t>(ny),
                            static_cast<std::uint32_t>(nz), c};
        const auto [re, im] = normal(place, 7);
        u[c] = {re, square > 0 ? im : 0};
        along += k[c] * u[c];
      }
      for (std::size_t c = 0; c < 3; ++c)
        values[c][static_cast<std::size_t>(at)] =
            static_cast<std::complex<T>>(square > 0 ? u[c] - k[c] * along / square : u[c]);
      for (std::size_t f = 3; f < values.size(); ++f)
        values[f][static_cast<std::size_t>(at)] = {T(nx + 100 * ny), square > 0 ? T(nz) : T(0)};
    });
  }

  // Calls f(place, nx, ny, nz) for every kept mode.
  template <class F>
  void each(const F& f) const {
    for (std::int64_t row = 0; row < part.rows(); ++row)
      for (std::int64_t i = 0; i < part.x.count; ++i)
        if (truncation.keeps(part.x.begin + i, part.ny(row), part.nz(row)))
          f(row * part.x.count + i, part.x.begin + i, part.ny(row), part.nz(row));
  }

  SpectralFields<T> view() {
    SpectralFields<T> fields{part, truncation, {}, device::open("host")};
    for (auto& field : values) fields.fields.push_back(field.data());
    return fields;
  }

  Truncation truncation;
  SpectralPart part;
  std::vector<std::vector<std::complex<T>>> values;
};

Box test_box() { return {{12, 9, 10}, lengths}; }

CheckpointHeader header(std::int64_t step) {
  CheckpointHeader h;
  h.step = step;
  h.time = 0.125 * static_cast<double>(step);
  h.state = {1.5, -2.5};
  h.text = "{\"grid\": 12}";
  return h;
}

template <class T>
double difference(const Fields<T>& a, const Fields<T>& b, const mpi::Comm& comm) {
  double largest = 0;
  for (std::size_t f = 0; f < a.values.size(); ++f)
    for (std::size_t i = 0; i < a.values[f].size(); ++i)
      largest =
          std::max(largest, std::abs(std::complex<double>(a.values[f][i]) - std::complex<double>(b.values[f][i])));
  return comm.max(largest);
}

}  // namespace

TEST(Checkpoint, a_run_that_goes_on_has_bit_for_bit_what_a_restart_reads) {
  const mpi::Comm comm;
  for (const int per_file : {0, 1, 2, 1000}) {
    for (const int turns : {1, 2}) {
      const Folder folder(comm);
      Fields<double> written(test_box(), Dealiasing::phase_shift, {1, comm.size()}, comm.rank(), 1), read = written;
      written.fill();
      const std::string path = write_checkpoint(header(12), written.view(), {folder.path, per_file, turns, 2}, comm);
      EXPECT_EQ(fs::path(path).filename(), "checkpoint-00000012");
      const Checkpoint checkpoint(folder.path, comm);
      EXPECT_EQ(checkpoint.header().step, 12);
      EXPECT_EQ(checkpoint.header().time, 1.5);
      EXPECT_EQ(checkpoint.header().state, (std::vector<double>{1.5, -2.5}));
      EXPECT_EQ(checkpoint.header().text, "{\"grid\": 12}");
      checkpoint.read(read.view());
      EXPECT_EQ(read.values, written.values);
    }
  }
}

TEST(Checkpoint, what_a_mode_leaves_out_comes_back_to_rounding_also_where_k2_is_zero) {
  const mpi::Comm comm;
  const Folder folder(comm);
  Fields<double> original(test_box(), Dealiasing::two_thirds, {1, comm.size()}, comm.rank(), 0), written = original,
                                                                                                 read = original;
  original.fill();
  written.fill();
  write_checkpoint(header(1), written.view(), {folder.path}, comm);
  EXPECT_LT(difference(original, written, comm), 1e-14);
  Checkpoint(folder.path, comm).read(read.view());
  EXPECT_LT(difference(original, read, comm), 1e-14);
}

TEST(Checkpoint, any_process_grid_reads_what_any_other_wrote) {
  const mpi::Comm comm;
  for (const fft::Grid& writer : fft::grids_of(comm.size())) {
    const Folder folder(comm);
    Fields<double> written(test_box(), Dealiasing::phase_shift, writer, comm.rank(), 2);
    written.fill();
    write_checkpoint(header(3), written.view(), {folder.path, 1}, comm);
    for (const fft::Grid& reader : fft::grids_of(comm.size())) {
      Fields<double> read(test_box(), Dealiasing::phase_shift, reader, comm.rank(), 2), expected = read;
      expected.fill();
      Checkpoint(folder.path, comm).read(read.view());
      EXPECT_LT(difference(read, expected, comm), 1e-14) << fft::name(writer) << " to " << fft::name(reader);
    }
    // A single rank can also read what all have written.
    if (comm.rank() == 0) {
      const mpi::Comm self = mpi::Comm::self();
      Fields<double> read(test_box(), Dealiasing::phase_shift, {1, 1}, 0, 2), expected = read;
      expected.fill();
      Checkpoint(folder.path, self).read(read.view());
      EXPECT_LT(difference(read, expected, self), 1e-14);
    }
  }
}

TEST(Checkpoint, single_and_double_precision_read_each_other) {
  const mpi::Comm comm;
  const Folder folder(comm);
  Fields<double> fine(test_box(), Dealiasing::phase_shift, {1, comm.size()}, comm.rank(), 0), read = fine;
  Fields<float> coarse(test_box(), Dealiasing::phase_shift, {comm.size(), 1}, comm.rank(), 0), expected = coarse;
  fine.fill();
  expected.fill();
  write_checkpoint(header(1), fine.view(), {folder.path}, comm);
  Checkpoint(folder.path, comm).read(coarse.view());
  EXPECT_LT(difference(coarse, expected, comm), 1e-6);
  write_checkpoint(header(2), coarse.view(), {folder.path}, comm);
  const Checkpoint single(folder.path + "/checkpoint-00000002", comm);
  EXPECT_EQ(single.header().value_bytes, 4);
  single.read(read.view());
  EXPECT_LT(difference(read, fine, comm), 1e-6);
}

TEST(Checkpoint, a_mean_velocity_is_kept) {
  const mpi::Comm comm;
  const Folder folder(comm);
  Fields<double> written(test_box(), Dealiasing::phase_shift, {1, comm.size()}, comm.rank(), 0), read = written;
  written.fill();
  if (written.part.place(0, 0, 0) >= 0)
    for (std::size_t c = 0; c < 3; ++c) written.values[c][0] = static_cast<double>(c) + 0.5;
  write_checkpoint(header(1), written.view(), {folder.path}, comm);
  const Checkpoint checkpoint(folder.path, comm);
  EXPECT_EQ(checkpoint.header().mean, (std::vector<double>{0.5, 1.5, 2.5}));
  checkpoint.read(read.view());
  EXPECT_EQ(read.values, written.values);
}

TEST(Checkpoint, only_the_last_two_are_kept_and_what_is_unfinished_does_not_count) {
  const mpi::Comm comm;
  const Folder folder(comm);
  Fields<float> fields(test_box(), Dealiasing::phase_shift, {1, comm.size()}, comm.rank(), 0);
  fields.fill();
  if (comm.rank() == 0) fs::create_directories(folder.path + "/checkpoint-00000099.tmp");
  for (const std::int64_t step : {500, 600, 100}) write_checkpoint(header(step), fields.view(), {folder.path}, comm);
  comm.barrier();
  EXPECT_FALSE(fs::exists(folder.path + "/checkpoint-00000500"));
  EXPECT_TRUE(fs::exists(folder.path + "/checkpoint-00000600"));
  EXPECT_EQ(Checkpoint(folder.path, comm).header().step, 100) << "the newest is the one written last";
}

TEST(Checkpoint, the_newest_is_found_in_the_folder_of_a_run) {
  const mpi::Comm comm;
  const Folder folder(comm);
  Fields<float> fields(test_box(), Dealiasing::phase_shift, {1, comm.size()}, comm.rank(), 0);
  fields.fill();
  for (const std::int64_t step : {500, 600})
    write_checkpoint(header(step), fields.view(), {folder.path + "/checkpoints"}, comm);
  EXPECT_EQ(Checkpoint(folder.path, comm).header().step, 600);
}

TEST(Checkpoint, another_box_or_number_of_scalars_is_an_error_that_says_so) {
  const mpi::Comm comm;
  const Folder folder(comm);
  Fields<double> fields(test_box(), Dealiasing::phase_shift, {1, comm.size()}, comm.rank(), 0);
  write_checkpoint(header(1), fields.view(), {folder.path}, comm);
  const Checkpoint checkpoint(folder.path, comm);
  const auto refused = [&](const Box& box, int scalars) {
    Fields<double> other(box, Dealiasing::phase_shift, {1, comm.size()}, comm.rank(), scalars);
    return error_of([&] { checkpoint.read(other.view()); });
  };
  EXPECT_NE(refused({{12, 9, 12}, lengths}, 0).find("12 x 9 x 10 points, the run has 12 x 9 x 12"), std::string::npos);
  EXPECT_NE(refused({{12, 9, 10}, {1, 1, 1}}, 0).find("other side lengths"), std::string::npos);
  EXPECT_NE(refused(test_box(), 1).find("has 0 scalars, the run has 1"), std::string::npos);
  EXPECT_NE(error_of([&] { Checkpoint(folder.path + "/nowhere", comm); }).find("no such checkpoint"),
            std::string::npos);
}

TEST(Checkpoint, what_cannot_be_written_is_one_error_and_leaves_the_last_checkpoint) {
  const mpi::Comm comm;
  const Folder folder(comm);
  Fields<double> fields(test_box(), Dealiasing::phase_shift, {1, comm.size()}, comm.rank(), 0);
  const std::string blocked = folder.path + "/file";
  if (comm.rank() == 0) std::ofstream(blocked) << "x";
  comm.barrier();
  EXPECT_NE(error_of([&] { write_checkpoint(header(1), fields.view(), {blocked}, comm); }), "");
}

// Flips bits in every part of the file, truncates it at every length, and damages headers under a valid checksum.
TEST(Checkpoint, damage_is_always_an_error_that_names_the_file_and_never_wrong_data) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "of one rank; the run on one rank has it";
  const mpi::Comm comm = mpi::Comm::self();
  const Folder folder(comm);
  Fields<float> written({{8, 6, 4}, lengths}, Dealiasing::phase_shift, {1, 1}, 0, 1), read = written;
  written.fill();
  const fs::path file = fs::path(write_checkpoint(header(1), written.view(), {folder.path}, comm)) / "part-00000.bin";
  std::ifstream in(file, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto attempt = [&](const std::string& content) {
    std::ofstream(file, std::ios::binary) << content;
    return error_of([&] { Checkpoint(folder.path, comm).read(read.view()); });
  };
  EXPECT_EQ(attempt(good), "");
  std::mt19937_64 random(11);
  for (int round = 0; round < 600; ++round) {
    std::string bad = good;
    bad[random() % bad.size()] ^= static_cast<char>(1U << random() % 8);
    const std::string error = attempt(bad);
    // The unused word of the header is also covered by its checksum, so there is no byte that may be wrong.
    EXPECT_NE(error.find("part-00000.bin"), std::string::npos) << "round " << round << ": " << error;
  }
  for (int round = 0; round < 200; ++round) {
    const std::string error = attempt(good.substr(0, random() % good.size()));
    EXPECT_NE(error.find("part-00000.bin"), std::string::npos) << error;
  }
  EXPECT_NE(attempt(good + "x").find("damaged"), std::string::npos);
  // A header with a valid checksum but absurd numbers.
  std::int64_t length = 0;
  good.copy(reinterpret_cast<char*>(&length), 8, 16);
  for (int round = 0; round < 600; ++round) {
    std::string bad = good;
    const std::size_t at = 24 + random() % (static_cast<std::size_t>(length) - 40) / 8 * 8;
    const std::int64_t wild =
        round % 3 == 0 ? static_cast<std::int64_t>(random()) : static_cast<std::int64_t>(random() % 64) - 8;
    bad.replace(at, 8, reinterpret_cast<const char*>(&wild), 8);
    const std::uint64_t sum =
        files::checksum(std::as_bytes(std::span(bad.data(), static_cast<std::size_t>(length) - 8)));
    bad.replace(static_cast<std::size_t>(length) - 8, 8, reinterpret_cast<const char*>(&sum), 8);
    attempt(bad);  // an error or not (any time is valid), but no crash and no huge allocation
  }
}
