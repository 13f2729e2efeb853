// FFTW's wisdom: the results of measured planning, kept on disk (device/disk_cache.hpp), so that runs are
// bit-identical.
#pragma once

#include <functional>
#include <string>

namespace weft::fft {

// The functions for one precision of an open FFTW (FFTW 3 manual, section 4.7).
struct WisdomFunctions {
  char* (*export_to_string)();
  int (*import_from_string)(const char*);
  void (*forget)();
  void (*destroy_plan)(void* plan);
  explicit operator bool() const { return export_to_string && import_from_string && forget && destroy_plan; }
};

// A plan by measurement, or that of an earlier run or another process if there is one. `plan` is called with FFTW's
// flags; null means that FFTW has no such plan. No measurements are left in FFTW's memory, where they would change
// plans by estimate. `key` names the library, its version and the precision. Must not be called by two threads at once.
void* measured_plan(const WisdomFunctions& fftw, const std::string& key,
                    const std::function<void*(unsigned flags)>& plan);

}  // namespace weft::fft
