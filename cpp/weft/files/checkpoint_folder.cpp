#include "weft/files/checkpoint_folder.hpp"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace weft::files {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "checkpoint-";

std::string name_of(std::int64_t step) {
  const std::string digits = std::to_string(step);
  return std::string(prefix) + std::string(8 - std::min<std::size_t>(8, digits.size()), '0') + digits;
}

bool is_checkpoint(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(prefix) && name.size() > prefix.size() &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

// The complete checkpoints of a folder, newest first.
std::vector<fs::path> checkpoints_of(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  if (fs::is_directory(folder))
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (entry.is_directory() && is_checkpoint(entry.path()))
        found.emplace_back(entry.last_write_time(), entry.path());
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> paths;
  for (auto& [time, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace

std::string write_checkpoint_folder(const std::string& folder, std::int64_t step, int keep, const mpi::Comm& comm,
                                    const std::function<void(const fs::path&)>& write) {
  const fs::path path = fs::path(folder) / name_of(step);
  const fs::path unfinished = path.string() + ".tmp";
  comm.together([&] {
    if (comm.rank() != 0) return;
    fs::remove_all(unfinished);
    fs::create_directories(unfinished);
  });
  try {
    write(unfinished);
  } catch (...) {
    std::error_code none;
    if (comm.rank() == 0) fs::remove_all(unfinished, none);  // on a full disk it makes room for the run's record
    throw;
  }
  comm.together([&] {
    if (comm.rank() != 0) return;
    // One of the same step makes room at once, and goes when the new one is in its place.
    const fs::path replaced = path.string() + ".replaced";
    fs::remove_all(replaced);
    if (fs::exists(path)) fs::rename(path, replaced);
    fs::rename(unfinished, path);
    fs::remove_all(replaced);
    fs::last_write_time(path, fs::file_time_type::clock::now());
    const std::vector<fs::path> found = checkpoints_of(folder);
    for (std::size_t i = static_cast<std::size_t>(std::max(1, keep)); i < found.size(); ++i) fs::remove_all(found[i]);
  });
  return path.string();
}

fs::path find_checkpoint(const std::string& text, const std::string& file) {
  const fs::path path(text);
  if (!fs::exists(path)) throw std::runtime_error(text + ": no such checkpoint");
  if (fs::exists(path / file)) return path;
  const std::vector<fs::path> inside = checkpoints_of(path);
  if (inside.empty())
    throw std::runtime_error(text + ": neither a checkpoint nor a folder that has some (checkpoint-<step>)");
  return inside.front();
}

}  // namespace weft::files
