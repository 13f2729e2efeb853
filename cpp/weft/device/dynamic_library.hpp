// Libraries that may or may not be on this machine, opened at run time and kept open until the process ends.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace weft::device {

class DynamicLibrary {
 public:
  // The first of `names` that opens; if none does, `problem` keeps the loader's words on the first.
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

  // Points `function` at the symbol; one that is missing becomes the library's problem.
  template <class F>
  void find(F*& function, const char* symbol) {
    function = find_optional<F>(symbol);
    if (function == nullptr && problem.empty()) problem = std::string("it lacks ") + symbol;
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
