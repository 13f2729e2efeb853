// Checkpoints of a flow: data that were written can be read back on any number of ranks, in either precision and at
// another order, and damage is reported; averages continue.
#include "weft/flow/checkpoint.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "error_of.hpp"
#include "folder.hpp"
#include "vector_checks.hpp"
#include "weft/files/checksum.hpp"
#include "weft/mesh/points.hpp"

using namespace weft;
using namespace weft::flow;
namespace fs = std::filesystem;

namespace {

// The first `ranks` of a communicator; null on the others.
std::unique_ptr<mpi::Comm> first(const mpi::Comm& comm, int ranks) {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(comm.get(), comm.rank() < ranks ? 0 : MPI_UNDEFINED, comm.rank(), &part);
  return part == MPI_COMM_NULL ? nullptr : std::make_unique<mpi::Comm>(part);
}

mesh::Mesh box(const mpi::Comm& comm, std::array<std::int64_t, 3> counts = {3, 2, 2}, bool periodic = true,
               double side = 1) {
  return mesh::make_box(
      {.counts = counts, .upper = {side, 1, 1}, .periodic = {periodic, false, false}, .deformation = "smooth"}, comm);
}

space::Options options_of(int order, const char* device) {
  space::Options options;
  options.order = order;
  options.device = device::open(device);
  options.exchange = {exchange::Schedule::pairwise, exchange::Path::direct};
  return options;
}

// A flow whose values depend only on the field and the point, on any ranks.
template <class T>
struct Flow {
  Flow(const mesh::Mesh& mesh, int order, int scalars = 1, int time_order = 3, const char* device = "host")
      : space(mesh, options_of(order, device)),
        state(space.device(), space.entries(), scalars, time_order),
        averages(space.device(), space.entries(), scalars) {}

  std::vector<std::pair<T*, int>> vectors() {
    std::vector<std::pair<T*, int>> all{{state.pressure(), 1}, {averages.data(), averages.components()}};
    for (int level = 0; level < state.known; ++level) all.emplace_back(state.fields(level), state.components());
    for (int level = 1; level < state.known; ++level) all.emplace_back(state.explicit_terms(level), state.components());
    return all;
  }
  // Arbitrary values at the points, or a polynomial of degree 2 in x.
  void fill(bool polynomial = false) {
    state.known = state.order;
    state.step = 12;
    state.time = 1.5;
    state.dt = {0.125, 0.25, 0.5};
    averages.set(0.5, 1.5, 8);
    const auto ids = mesh::point_ids(space.mesh(), space.order());
    const auto x = mesh::point_coordinates(space.mesh(), space.order());
    int seed = 0;
    for (const auto& [data, components] : vectors()) {
      std::vector<T> points;
      for (int c = 0; c < components; ++c, ++seed)
        for (std::size_t p = 0; p < ids.size(); ++p)
          points.push_back(static_cast<T>(polynomial ? seed + x[3 * p] * (1 - x[3 * p + 1]) + x[3 * p + 2]
                                                     : std::sin(static_cast<double>(ids[p] * (seed + 1)))));
      space.to_vectors(points, components, data);
    }
  }
  std::vector<T> values() {
    std::vector<T> all;
    for (const auto& [data, components] : vectors()) {
      const auto points = space.to_points(data, components);
      all.insert(all.end(), points.begin(), points.end());
    }
    return all;
  }
  std::string write(const std::string& folder, int keep = 2) {
    return write_checkpoint(space, state, &averages, {folder, keep, "words"});
  }
  Restored read(const std::string& folder) {
    return restore(mesh::ElementFile(folder, checkpoint_kind, space.comm()), space, state, &averages);
  }

  space::Space<T> space;
  State<T> state;
  Averages<T> averages;
};

mesh::ElementFile opened(const std::string& path, const mpi::Comm& comm) { return {path, checkpoint_kind, comm}; }

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

template <class T>
void expect_round_trips(const mpi::Comm& comm) {
  // For each number of ranks, one flow that writes and one that reads.
  std::vector<std::unique_ptr<mpi::Comm>> some;
  std::vector<std::unique_ptr<Flow<T>>> written, read;
  for (int ranks = 1; ranks <= comm.size(); ++ranks) {
    some.push_back(first(comm, ranks));
    for (auto* flows : {&written, &read})
      flows->push_back(some.back() ? std::make_unique<Flow<T>>(box(*some.back()), 3) : nullptr);
    if (some.back()) written.back()->fill();
  }
  std::string alone;
  for (int writers = 1; writers <= comm.size(); ++writers) {
    const Folder folder(comm);
    if (some[writers - 1]) {
      const fs::path path = written[writers - 1]->write(folder.path);
      EXPECT_EQ(path.filename(), "checkpoint-00000012");
      if (comm.rank() == 0) {
        const std::string bytes = content(path / checkpoint_kind.file);
        if (writers == 1) alone = bytes;
        EXPECT_TRUE(bytes == alone) << "the file depends on the ranks that wrote it: " << writers;
      }
    }
    comm.barrier();
    for (int readers = 1; readers <= comm.size(); ++readers) {
      if (!some[readers - 1]) continue;
      Flow<T>&expected = *written[readers - 1], &found = *read[readers - 1];
      for (const auto& [data, components] : found.vectors())
        std::fill_n(data, components * found.space.entries(), T(9));
      const mesh::ElementFile file = opened(folder.path, *some[readers - 1]);
      EXPECT_EQ(file.header().text, "words");
      EXPECT_EQ(file.bytes(), static_cast<std::int64_t>(fs::file_size(fs::path(file.path()) / checkpoint_kind.file)));
      const Restored restored = restore(file, found.space, found.state, &found.averages);
      EXPECT_TRUE(restored.same_order && restored.averages);
      EXPECT_EQ(found.state.step, 12);
      EXPECT_EQ(found.state.time, 1.5);
      EXPECT_EQ(found.state.known, 3);
      EXPECT_EQ(found.state.dt, expected.state.dt);
      EXPECT_EQ(found.averages.since(), 0.5);
      EXPECT_EQ(found.averages.until(), 1.5);
      EXPECT_EQ(found.averages.samples(), 8);
      EXPECT_EQ(found.values(), expected.values()) << writers << " to " << readers;
    }
  }
}

}  // namespace

TEST(FlowCheckpoint, comes_back_bit_for_bit_on_any_number_of_ranks_and_the_file_is_the_same) {
  const mpi::Comm comm;
  expect_round_trips<double>(comm);
  expect_round_trips<float>(comm);
}

TEST(FlowCheckpoint, from_memory_that_the_host_cannot_read_is_the_same) {
  const mpi::Comm comm;
  const Folder folder(comm);
  Flow<double> written(box(comm), 3, 1, 2, "fiber"), read(box(comm), 3, 1, 2, "fiber"), host(box(comm), 3, 1, 2);
  written.fill();
  host.fill();
  written.write(folder.path);
  read.read(folder.path);
  EXPECT_EQ(read.values(), host.values());
}

TEST(FlowCheckpoint, single_and_double_precision_read_each_other) {
  const mpi::Comm comm;
  const Folder folder(comm);
  Flow<double> fine(box(comm), 4), fine_read(box(comm), 4);
  Flow<float> coarse(box(comm), 4), coarse_read(box(comm), 4);
  fine.fill();
  coarse.fill();
  fine.write(folder.path);
  coarse_read.read(folder.path);
  EXPECT_EQ(coarse_read.values(), coarse.values());
  coarse.write(folder.path);
  fine_read.read(folder.path);
  const std::vector<float> given = coarse.values();
  EXPECT_EQ(fine_read.values(), std::vector<double>(given.begin(), given.end()));
}

TEST(FlowCheckpoint, of_another_order_is_interpolated_and_time_stepping_begins_anew) {
  const mpi::Comm comm;
  const Folder folder(comm);
  const mesh::Mesh mesh = mesh::make_box({.counts = {3, 2, 2}}, comm);
  Flow<double> written(mesh, 4);
  written.fill(true);
  written.write(folder.path);
  for (const int order : {2, 7}) {
    Flow<double> read(mesh, order), expected(mesh, order);
    expected.fill(true);
    const Restored restored = read.read(folder.path);
    EXPECT_FALSE(restored.same_order);
    EXPECT_EQ(read.state.known, 1);
    expected.state.known = 1;
    const auto found = read.values(), wanted = expected.values();
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-12) << order;
  }
}

TEST(FlowCheckpoint, a_run_of_another_time_order_takes_the_levels_there_are) {
  const mpi::Comm comm;
  const Folder folder(comm);
  Flow<double> written(box(comm), 2, 0, 2);
  written.fill();
  written.write(folder.path);
  for (const int order : {1, 3}) {
    Flow<double> read(box(comm), 2, 0, order);
    read.read(folder.path);
    EXPECT_EQ(read.state.known, std::min(order, 2));
    EXPECT_EQ(read.space.to_points(read.state.fields(), 3), written.space.to_points(written.state.fields(), 3));
  }
}

TEST(FlowCheckpoint, another_mesh_or_number_of_scalars_is_an_error_that_says_so) {
  const mpi::Comm comm;
  const Folder folder(comm);
  Flow<double> written(box(comm), 2);
  written.fill();
  written.write(folder.path);
  const auto refused = [&](const mesh::Mesh& mesh, int scalars = 1) {
    Flow<double> other(mesh, 2, scalars);
    return error_of([&] { other.read(folder.path); });
  };
  EXPECT_EQ(refused(box(comm)), "");
  EXPECT_NE(refused(box(comm, {2, 2, 3})).find("of another mesh (its elements have other positions"),
            std::string::npos);
  EXPECT_NE(refused(box(comm, {3, 2, 2}, false)).find("of another mesh (its"), std::string::npos) << "not periodic";
  EXPECT_NE(refused(box(comm, {3, 2, 2}, true, 1.001)).find("of another mesh (its"), std::string::npos) << "longer";
  EXPECT_NE(refused(box(comm, {4, 2, 2})).find("of another mesh, of 12 elements, but the run has 16"),
            std::string::npos);
  EXPECT_NE(refused(box(comm), 2).find("has 4 components of fields 0, the run 5"), std::string::npos);
  EXPECT_NE(error_of([&] { opened(folder.path + "/nowhere", comm); }).find("no such checkpoint"), std::string::npos);
}

TEST(FlowCheckpoint, only_the_last_are_kept_and_what_cannot_be_written_leaves_them) {
  const mpi::Comm comm;
  const Folder folder(comm);
  Flow<float> flow(box(comm), 1);
  flow.fill();
  if (comm.rank() == 0) fs::create_directories(folder.path + "/checkpoint-00000099.tmp");
  for (const std::int64_t step : {500, 600, 100}) {
    flow.state.step = step;
    flow.write(folder.path);
  }
  comm.barrier();
  EXPECT_FALSE(fs::exists(folder.path + "/checkpoint-00000500"));
  EXPECT_TRUE(fs::exists(folder.path + "/checkpoint-00000600"));
  EXPECT_EQ(opened(folder.path, comm).header().step, 100) << "the newest is the one written last";
  comm.barrier();
  flow.write(folder.path, 1);  // the same step again
  comm.barrier();
  EXPECT_EQ(opened(folder.path, comm).header().step, 100);
  EXPECT_FALSE(fs::exists(folder.path + "/checkpoint-00000100.replaced"));
  comm.barrier();
  // A file where the next checkpoint's folder should be.
  if (comm.rank() == 0) fs::create_directories(folder.path + "/blocked");
  if (comm.rank() == 0) std::ofstream(folder.path + "/blocked/file") << "x";
  comm.barrier();
  EXPECT_NE(error_of([&] { flow.write(folder.path + "/blocked/file"); }), "");
  EXPECT_EQ(opened(folder.path, comm).header().step, 100);
}

// The effect of cp on a tree: the copy of the newest checkpoint may have the oldest times, or all times may be equal.
TEST(FlowCheckpoint, the_newest_is_told_by_what_files_say_and_not_by_their_times) {
  const mpi::Comm comm;
  const Folder folder(comm);
  Flow<float> flow(box(comm), 1);
  flow.fill();
  for (const std::int64_t step : {500, 600, 100}) {
    flow.state.step = step;
    flow.write(folder.path, 3);
  }
  const fs::path root(folder.path), last = root / "checkpoint-00000100", before = root / "checkpoint-00000600";
  const auto now = fs::file_time_type::clock::now();
  for (const fs::path& future : {before, root / "checkpoint-00000500"}) {
    comm.barrier();
    if (comm.rank() == 0) fs::last_write_time(future, now + std::chrono::hours(1));
    comm.barrier();
    EXPECT_EQ(opened(folder.path, comm).header().step, 100);
  }
  comm.barrier();
  if (comm.rank() == 0) fs::remove_all(last);
  comm.barrier();
  EXPECT_EQ(opened(folder.path, comm).header().step, 600);
  comm.barrier();
  // A checkpoint of another workload in the same folder does not matter.
  if (comm.rank() == 0) fs::create_directories(root / "checkpoint-00000900");
  if (comm.rank() == 0) std::ofstream(root / "checkpoint-00000900" / "part-00000.bin") << "x";
  comm.barrier();
  EXPECT_EQ(opened(folder.path, comm).header().step, 600);
  comm.barrier();
  // A checkpoint that has lost its file may be the newest: another must never be used silently.
  if (comm.rank() == 0) fs::create_directories(root / "checkpoint-00000950");
  comm.barrier();
  const std::string lost = error_of([&] { opened(folder.path, comm); });
  EXPECT_NE(lost.find("checkpoint-00000950/flow.bin: no such file"), std::string::npos) << lost;
  comm.barrier();
  if (comm.rank() == 0) fs::remove_all(root / "checkpoint-00000950");
  comm.barrier();
  // So may a file so short that it is unknown whether it is.
  if (comm.rank() == 0) fs::resize_file(root / "checkpoint-00000500" / checkpoint_kind.file, 10);
  comm.barrier();
  const std::string error = error_of([&] { opened(folder.path, comm); });
  EXPECT_NE(error.find("checkpoint-00000500/flow.bin: the header is damaged"), std::string::npos) << error;
  EXPECT_NE(error.find("remove it, or choose another"), std::string::npos) << error;
  EXPECT_EQ(opened(before.string(), comm).header().step, 600);
  comm.barrier();
  // The damaged checkpoint is the first to be removed.
  flow.state.step = 700;
  flow.write(folder.path, 2);
  comm.barrier();
  EXPECT_FALSE(fs::exists(root / "checkpoint-00000500"));
  EXPECT_TRUE(fs::exists(before));
  EXPECT_EQ(opened(folder.path, comm).header().step, 700);
}

// Every rank sees the damage, even if a single rank holds the element.
TEST(FlowCheckpoint, a_damaged_element_is_an_error_on_every_rank) {
  const mpi::Comm comm;
  const Folder folder(comm);
  Flow<double> flow(box(comm), 2), read(box(comm), 2);
  flow.fill();
  const fs::path file = fs::path(flow.write(folder.path)) / checkpoint_kind.file;
  if (comm.rank() == 0) {
    std::string bad = content(file);
    bad[bad.size() - 5] ^= 1;
    std::ofstream(file, std::ios::binary) << bad;
  }
  comm.barrier();
  EXPECT_NE(error_of([&] { read.read(folder.path); }).find("flow.bin: element 12 is damaged"), std::string::npos);
}

TEST(FlowCheckpoint, damage_is_always_an_error_that_names_the_file_and_never_wrong_data) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "of one rank; the run on one rank has it";
  const mpi::Comm comm = mpi::Comm::self();
  const Folder folder(comm);
  Flow<float> flow(mesh::make_box({.counts = {2, 1, 1}}, comm), 1, 0, 1), read(flow.space.mesh(), 1, 0, 1);
  flow.fill();
  const fs::path file = fs::path(flow.write(folder.path)) / checkpoint_kind.file;
  const std::string good = content(file);
  const auto attempt = [&](const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
    return error_of([&] { read.read(folder.path); });
  };
  EXPECT_EQ(attempt(good), "");
  std::int64_t length = 0;  // of the header
  good.copy(reinterpret_cast<char*>(&length), 8, 16);
  const auto header_error = [&](const std::string& bytes) {
    return error_of([&] { mesh::from_bytes(std::as_bytes(std::span(bytes)), checkpoint_kind.format, "flow.bin"); });
  };
  EXPECT_EQ(header_error(good.substr(0, length)), "");
  const auto flipped = [&](std::size_t at) {
    std::string bad = good;
    bad[at] ^= static_cast<char>(1U << at % 8);
    return bad;
  };
  for (std::int64_t at = 0; at < length; ++at)
    EXPECT_NE(header_error(flipped(at).substr(0, length)).find("flow.bin"), std::string::npos) << "byte " << at;
  for (std::size_t at = 0; at < good.size(); at += 13) {
    const std::string error = attempt(flipped(at));
    EXPECT_NE(error.find("flow.bin"), std::string::npos) << "byte " << at << ": " << error;
  }
  std::mt19937_64 random(11);
  for (int round = 0; round < 50; ++round) {
    const std::string error = attempt(good.substr(0, random() % good.size()));
    EXPECT_NE(error.find("flow.bin"), std::string::npos) << error;
  }
  EXPECT_NE(attempt(good + "x").find("damaged"), std::string::npos);
  // Two records that were swapped.
  const std::size_t record = 8 * 15 * sizeof(float);
  std::string swapped = good.substr(0, good.size() - 2 * record) + good.substr(good.size() - record) +
                        good.substr(good.size() - 2 * record, record);
  const std::size_t table = good.size() - 2 * record - 16;
  for (std::size_t b = 0; b < 8; ++b) std::swap(swapped[table + b], swapped[table + 8 + b]);
  EXPECT_NE(attempt(swapped).find("element 1 is damaged"), std::string::npos);
  // A header with a valid checksum but absurd numbers.
  for (int round = 0; round < 5000; ++round) {
    std::string bad = good;
    const std::size_t at = 24 + random() % (static_cast<std::size_t>(length) - 40) / 4 * 4;
    const std::int64_t wild =
        round % 3 == 0 ? static_cast<std::int64_t>(random()) : static_cast<std::int64_t>(random() % 64) - 8;
    bad.replace(at, 8, reinterpret_cast<const char*>(&wild), 8);
    const std::uint64_t sum =
        files::checksum(std::as_bytes(std::span(bad.data(), static_cast<std::size_t>(length) - 8)));
    bad.replace(static_cast<std::size_t>(length) - 8, 8, reinterpret_cast<const char*>(&sum), 8);
    // An error or not (any time is valid), but no crash and no huge allocation.
    header_error(bad.substr(0, length));
    if (round % 100 == 0) attempt(bad);
  }
}

namespace {

// Means and covariances of samples, from their definitions.
template <class T>
void expect_averages(const char* device, double tolerance) {
  const mpi::Comm comm = mpi::Comm::self();
  constexpr int entries = 5000, scalars = 2;
  const auto on = device::open(device);
  State<T> state(on, entries, scalars, 1);
  Averages<T> averages(on, entries, scalars);
  device::Stream stream(on);
  state.time = 2;
  averages.begin(2);
  std::vector<std::vector<T>> samples;
  const std::vector<double> weights{0.5, 0.25, 1, 0.125};
  for (std::size_t s = 0; s < weights.size(); ++s) {
    auto fields = device::random_values<T>((3 + scalars) * entries, static_cast<unsigned>(s) + 1);
    auto pressure = device::random_values<T>(entries, static_cast<unsigned>(s) + 50);
    device::Array<T> one(on, fields), two(on, pressure);
    on->copy(state.fields(), one.data(), one.bytes(), device::CopyKind::device_to_device, stream);
    on->copy(state.pressure(), two.data(), two.bytes(), device::CopyKind::device_to_device, stream);
    fields.insert(fields.begin() + 3 * entries, pressure.begin(), pressure.end());
    samples.push_back(fields);  // u, v, w, p, scalars
    state.time += weights[s];
    averages.add(state, stream);
    averages.add(state, stream);  // the same time again has no effect
    stream.synchronize();
  }
  EXPECT_EQ(averages.samples(), 4);
  EXPECT_EQ(averages.since(), 2);
  EXPECT_EQ(averages.until(), 3.875);
  std::vector<T> found(static_cast<std::size_t>(averages.components()) * entries);
  on->copy(found.data(), averages.data(), found.size() * sizeof(T), device::CopyKind::device_to_host, stream);
  stream.synchronize();
  const auto mean = [&](auto value) {
    double sum = 0;
    for (std::size_t s = 0; s < samples.size(); ++s) sum += weights[s] / 1.875 * value(samples[s]);
    return sum;
  };
  const std::map<std::string, int> place{{"u", 0}, {"v", 1}, {"w", 2}, {"p", 3}, {"s0", 4}, {"s1", 5}};
  const auto names = averages.names();
  ASSERT_EQ(static_cast<int>(names.size()), averages.components());
  for (std::size_t c = 0; c < names.size(); ++c) {
    for (const std::size_t i : {0, 1, 255, 4095, 4096, 4999}) {
      double expected;
      if (place.contains(names[c])) {
        expected = mean([&](const auto& x) { return x[place.at(names[c]) * entries + i]; });
      } else {
        const std::size_t cut = names[c].front() == 's' ? 2 : 1;
        const int a = place.at(names[c].substr(0, cut)), b = place.at(names[c].substr(cut));
        const double ma = mean([&](const auto& x) { return x[a * entries + i]; });
        const double mb = mean([&](const auto& x) { return x[b * entries + i]; });
        expected = mean([&](const auto& x) { return (x[a * entries + i] - ma) * (x[b * entries + i] - mb); });
      }
      ASSERT_NEAR(found[c * entries + i], expected, tolerance) << names[c] << " at " << i;
    }
  }
}

}  // namespace

TEST(FlowAverages, are_means_and_covariances_weighted_with_time) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "of one rank; the run on one rank has it";
  expect_averages<double>("host", 1e-14);
  expect_averages<float>("host", 1e-6);
  expect_averages<double>("fiber", 1e-14);
}
