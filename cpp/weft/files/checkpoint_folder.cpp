#include "weft/files/checkpoint_folder.hpp"

#include <algorithm>
#include <charconv>
#include <compare>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <tuple>
#include <vector>

namespace weft::files {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "checkpoint-";

std::string name_of(std::int64_t step) {
  const std::string digits = std::to_string(step);
  return std::string(prefix) + std::string(8 - std::min<std::size_t>(8, digits.size()), '0') + digits;
}

// The step in a checkpoint's name; -1 if the name is not that of a checkpoint.
std::int64_t step_of(const fs::path& path) {
  const std::string name = path.filename().string();
  std::int64_t step = -1;
  if (!name.starts_with(prefix)) return -1;
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  return error == std::errc{} && end == name.data() + name.size() ? step : -1;
}

struct Found {
  std::int64_t number = -1;  // -1 for a file that cannot be read
  std::int64_t step = 0;
  fs::path path;
  std::string error;  // why it cannot be read

  auto operator<=>(const Found& other) const { return std::tie(number, step) <=> std::tie(other.number, other.step); }
};

// The complete checkpoints of a kind in a folder, newest first; unreadable ones last.
std::vector<Found> checkpoints_of(const fs::path& folder, const CheckpointKind& kind) {
  std::vector<Found> found;
  if (fs::is_directory(folder))
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const fs::path file = entry.path() / kind.file;
      if (step_of(entry.path()) < 0) continue;
      // Other files are those of a checkpoint of another kind; a folder that is empty has lost its own.
      const bool lost = !fs::exists(file);
      if (lost && !fs::is_empty(entry.path())) continue;
      Found& one = found.emplace_back();
      one.path = entry.path();
      one.step = step_of(entry.path());
      if (lost) {
        one.error = file.string() + ": no such file";
        continue;
      }
      try {
        one.number = number_of(read_prefix(file, kind.format));
      } catch (const std::runtime_error& error) {
        one.error = error.what();
      }
    }
  std::ranges::sort(found, std::greater{});
  return found;
}

// Takes away the name first: if this is interrupted, a folder without its file would count as a lost checkpoint.
void remove_checkpoint(const fs::path& path) {
  const fs::path removed = path.parent_path() / (std::string(prefix) + "removed");
  fs::remove_all(removed);
  fs::rename(path, removed);
  fs::remove_all(removed);
}

}  // namespace

std::string write_checkpoint_folder(const std::string& folder, const CheckpointKind& kind, std::int64_t step, int keep,
                                    const mpi::Comm& comm,
                                    const std::function<void(const fs::path&, std::int64_t)>& write) {
  const fs::path path = fs::path(folder) / name_of(step);
  const fs::path unfinished = path.string() + ".tmp";
  std::int64_t number = 1;
  comm.together([&] {
    if (comm.rank() != 0) return;
    if (const std::vector<Found> found = checkpoints_of(folder, kind); !found.empty())
      number = std::max(number, found.front().number + 1);
    fs::remove_all(unfinished);
    fs::create_directories(unfinished);
  });
  mpi::check(MPI_Bcast(&number, 1, MPI_INT64_T, 0, comm.get()), "MPI_Bcast");
  try {
    write(unfinished, number);
  } catch (...) {
    std::error_code none;
    if (comm.rank() == 0) fs::remove_all(unfinished, none);  // on a full disk, frees space for the run's record
    throw;
  }
  comm.together([&] {
    if (comm.rank() != 0) return;
    // An older checkpoint of the same step is renamed right away, and deleted once the new one is in place.
    const fs::path replaced = path.string() + ".replaced";
    fs::remove_all(replaced);
    if (fs::exists(path)) fs::rename(path, replaced);
    fs::rename(unfinished, path);
    fs::remove_all(replaced);
    const std::vector<Found> found = checkpoints_of(folder, kind);
    for (std::size_t i = static_cast<std::size_t>(std::max(1, keep)); i < found.size(); ++i)
      remove_checkpoint(found[i].path);
  });
  return path.string();
}

fs::path find_checkpoint(const std::string& text, const CheckpointKind& kind) {
  const fs::path path(text);
  if (!fs::exists(path)) throw std::runtime_error(text + ": no such checkpoint");
  if (fs::exists(path / kind.file)) return path;
  const fs::path of_run = path / "checkpoints";
  const std::vector<Found> inside = checkpoints_of(fs::is_directory(of_run) ? of_run : path, kind);
  if (inside.empty())
    throw std::runtime_error(text + ": neither " + kind.format.what +
                             " nor a folder with checkpoints (checkpoint-<step>)");
  if (const Found& last = inside.back(); !last.error.empty())
    throw std::runtime_error(last.error + " (it may be the newest of " + text + ": remove it, or choose another)");
  return inside.front().path;
}

}  // namespace weft::files
