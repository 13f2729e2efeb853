// FFTW's wisdom: plans that it has measured, kept on disk (device/disk_cache.hpp), so that runs repeat bit for bit.
#pragma once

#include <functional>
#include <string>

namespace weft::fft {

// Of one precision of an open FFTW (FFTW 3 manual, section 4.7).
struct WisdomFunctions {
  char* (*export_to_string)();
  int (*import_from_string)(const char*);
  void (*forget)();
  void (*destroy_plan)(void* plan);
  explicit operator bool() const { return export_to_string && import_from_string && forget && destroy_plan; }
};

// A plan by measurement, that of an earlier run or another process if there is one: `plan` is called with FFTW's flags,
// and null means that it has none. Nothing that was measured is left in FFTW's memory, where it would change plans by
// estimate. `key` names the library, its version and precision. One call at a time.
void* measured_plan(const WisdomFunctions& fftw, const std::string& key,
                    const std::function<void*(unsigned flags)>& plan);

}  // namespace weft::fft
