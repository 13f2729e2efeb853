// Optional libraries, opened at run time and kept open until the process ends.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace weft::device {

// The names to try to open: the environment variable may name a library, or folders (separated by colons) that contain
// one; after these comes the loader's own search. `versions` are in order of preference.
inline std::vector<std::string> library_names(const char* variable, const std::vector<std::string>& versions) {
  std::vector<std::string> folders, names;
  if (const char* value = std::getenv(variable)) {
    std::stringstream list(value);
    for (std::string entry; std::getline(list, entry, ':');) {
      if (std::filesystem::is_directory(entry))
        folders.push_back(entry + "/");
      else if (!entry.empty())
        names.push_back(entry);
    }
  }
  folders.emplace_back();
  for (const std::string& version : versions) {
    for (const std::string& folder : folders) names.push_back(folder + version);
  }
  return names;
}

class DynamicLibrary {
 public:
  // Opens the first of `names` that can be opened. If none can, `problem` keeps the loader's message about the first.
  explicit DynamicLibrary(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) {
        problem.clear();
        return;
      }
      const char* text = dlerror();
      if (problem.empty()) problem = text != nullptr ? text : name + " does not open";
    }
  }
  explicit operator bool() const { return handle_ != nullptr && problem.empty(); }

  // Sets `function` to the symbol; a missing symbol is reported in `problem`.
  template <class F>
  void find(F*& function, const char* symbol) {
    find_optional(function, symbol);
    if (function == nullptr && problem.empty()) problem = std::string("it lacks ") + symbol;
  }
  template <class F>
  void find_optional(F*& function, const char* symbol) const {
    function = find_optional<F>(symbol);
  }
  template <class F>
  F* find_optional(const char* symbol) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<F*>(dlsym(handle_, symbol));
  }

  std::string problem;

 private:
  void* handle_ = nullptr;
};

}  // namespace weft::device
