// The number of threads that a call uses.
#pragma once

#include <omp.h>

#include <cstdlib>

namespace weft::gs {

// One, as gslib does, for as long as it lives, unless OMP_NUM_THREADS is set: OpenMP would otherwise start as many as
// there are cores on each of a program's ranks, which may know nothing of threads.
class Threads {
 public:
  Threads() : before_(omp_get_max_threads()) {
    static const bool set = std::getenv("OMP_NUM_THREADS") != nullptr;
    if (!set) omp_set_num_threads(1);
  }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace weft::gs
