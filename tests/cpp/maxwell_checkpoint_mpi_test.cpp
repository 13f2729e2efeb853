// Checkpoints of Maxwell's equations: a run that continues from one is bit-identical to a run that was not stopped,
// with waves, a dipole and a matched layer; any number of ranks can read it; anything else is an error that says so.
#include "weft/maxwell/checkpoint.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "error_of.hpp"
#include "folder.hpp"
#include "maxwell_checks.hpp"

using namespace weft;
using namespace weft::maxwell;
namespace fs = std::filesystem;

namespace {

constexpr double dt = 5e-3;

mesh::Mesh box(const mpi::Comm& comm, std::array<std::int64_t, 3> counts = {3, 2, 2}) {
  return mesh::make_box(
      {.counts = counts, .upper = {1, 0.8, 0.6}, .periodic = {true, false, false}, .deformation = "smooth"}, comm);
}

Options options_of(const mesh::Mesh& mesh, bool driven, Kernels kernels = Kernels::portable, int order = 3) {
  Options options = test::maxwell_options(mesh, order, "host", driven);
  options.kernels = kernels;
  if (kernels == Kernels::simd) {  // which do not support waves
    options.waves.clear();
    options.total_field.clear();
  }
  return options;
}

template <class T>
struct Begun {
  Begun(const mesh::Mesh& mesh, const Options& options) : op(mesh, options), solver(op) {
    solver.fields().upload(test::smooth_fields<T>(mesh, options.order));
    solver.fields_changed();
  }
  std::vector<T> values() {
    std::vector<T> all = solver.fields().download();
    const std::vector<T> layer = op.layer_memory();
    all.insert(all.end(), layer.begin(), layer.end());
    return all;
  }

  Operator<T> op;
  Solver<T> solver;
};

template <class T>
void expect_goes_on(const Options& options, const mesh::Mesh& mesh) {
  const Folder folder(mesh.comm);
  Begun<T> whole(mesh, options);
  whole.solver.step(12, dt);
  Begun<T> first(mesh, options);
  first.solver.step(5, dt);
  const std::string path = save(first.solver, {folder.path, 2, "words"});
  EXPECT_EQ(path, folder.path + "/checkpoint-00000005");
  Begun<T> second(mesh, options);
  second.solver.step(3, dt);  // its previous state does not matter
  const mesh::ElementFile file = restore(second.solver, folder.path);
  EXPECT_EQ(file.header().text, "words");
  EXPECT_EQ(second.solver.steps(), 5);
  EXPECT_EQ(second.solver.time(), first.solver.time());
  EXPECT_EQ(second.values(), first.values());
  for (Begun<T>* run : {&first, &second}) {
    run->solver.step(4, dt);
    run->solver.step(3, dt);
    EXPECT_EQ(run->values(), whole.values());
    EXPECT_EQ(run->solver.steps(), 12);
  }
}

}  // namespace

TEST(MaxwellCheckpoint, ARunThatGoesOnIsTheRunThatWasNotStopped) {
  const mesh::Mesh mesh = box(mpi::Comm());
  for (const bool driven : {false, true}) {
    expect_goes_on<double>(options_of(mesh, driven), mesh);
    expect_goes_on<float>(options_of(mesh, driven, Kernels::simd), mesh);
    expect_goes_on<double>(options_of(mesh, driven, Kernels::simd), mesh);
  }
  Options exponential = options_of(mesh, false);
  exponential.integrator = Integrator::exponential;
  expect_goes_on<double>(exponential, mesh);
}

TEST(MaxwellCheckpoint, TheFileIsTheSameFromAnyRanksAndAnyRanksReadIt) {
  const mpi::Comm all;
  const mesh::Mesh alone = box(mpi::Comm::self()), mesh = box(all);
  // Fields that depend only on position, and a layer that is still at rest.
  Begun<double> one(alone, options_of(alone, true)), several(mesh, options_of(mesh, true));
  const Folder folder(all), other(all);
  const auto content = [](const fs::path& path) {
    std::ifstream in(path / checkpoint_kind.file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string written = content(save(several.solver, {folder.path, 1, ""}));
  all.barrier();
  if (all.rank() == 0) {
    EXPECT_TRUE(content(save(one.solver, {other.path, 1, ""})) == written);
  }
  all.barrier();
  several.solver.step(2, dt);
  restore(several.solver, folder.path);
  Begun<double> before(mesh, options_of(mesh, true));
  EXPECT_EQ(several.values(), before.values());
}

TEST(MaxwellCheckpoint, SinglePrecisionAndAnotherOrderReadIt) {
  const mesh::Mesh mesh = box(mpi::Comm());
  const Folder folder(mesh.comm);
  Begun<double> low(mesh, options_of(mesh, false, Kernels::portable, 2));
  low.solver.step(1, dt);
  save(low.solver, {folder.path, 1, ""});
  Begun<float> rounded(mesh, options_of(mesh, false, Kernels::portable, 2));
  restore(rounded.solver, folder.path);
  const std::vector<double> exact = low.values();
  EXPECT_EQ(rounded.values(), std::vector<float>(exact.begin(), exact.end()));
  // For polynomials of order 2, the energy is the same at order 5.
  Begun<double> high(mesh, options_of(mesh, false, Kernels::portable, 5));
  restore(high.solver, folder.path);
  EXPECT_EQ(high.solver.steps(), 1);
  save(high.solver, {folder.path, 1, ""});
  restore(low.solver, folder.path);
  const std::vector<double> back = low.values();
  for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(back[i], exact[i], 1e-12);
}

TEST(MaxwellCheckpoint, WhatIsNoneOfThisRunIsAnErrorThatSaysSo) {
  const mpi::Comm comm;
  const mesh::Mesh mesh = box(comm);
  const Folder folder(comm);
  Begun<double> run(mesh, options_of(mesh, false));
  const fs::path path = save(run.solver, {folder.path, 1, ""});
  const auto error = [&](auto& reader) { return error_of([&] { restore(reader.solver, folder.path); }); };
  EXPECT_EQ(error(run), "");
  const mesh::Mesh longer = box(comm, {4, 2, 2});
  Begun<double> other(longer, options_of(longer, false));
  EXPECT_NE(error(other).find("of another mesh, of 12 elements, but the run has 16"), std::string::npos)
      << error(other);
  Begun<double> layered(mesh, options_of(mesh, true));
  EXPECT_NE(error(layered).find("has no matched layer"), std::string::npos) << error(layered);
  EXPECT_NE(error_of([&] { restore(run.solver, folder.path + "/nowhere"); }).find("no such checkpoint"),
            std::string::npos);
  const fs::path file = path / checkpoint_kind.file;
  const auto damaged = [&](const std::function<void(std::string&)>& damage) {
    if (comm.rank() == 0) {
      std::ifstream in(file, std::ios::binary);
      const std::string good(std::istreambuf_iterator<char>(in), {});
      std::string bad = good;
      damage(bad);
      std::ofstream(file, std::ios::binary) << bad;
    }
    comm.barrier();
    return error(run);
  };
  const std::string bit = damaged([](std::string& bytes) { bytes[bytes.size() - 5] ^= 1; });
  EXPECT_NE(bit.find("maxwell.bin: element 12 is damaged: use an older checkpoint"), std::string::npos) << bit;
  const std::string cut = damaged([](std::string& bytes) { bytes.resize(bytes.size() - 100); });
  EXPECT_NE(cut.find("maxwell.bin: truncated"), std::string::npos) << cut;
  const std::string foreign = damaged([](std::string& bytes) { bytes.replace(0, 8, "weftflow"); });
  EXPECT_NE(foreign.find("not a checkpoint of weft's maxwell"), std::string::npos) << foreign;
}
