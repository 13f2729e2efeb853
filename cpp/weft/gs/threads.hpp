// The number of threads that a call uses.
#pragma once

#include <omp.h>

#include <cstdlib>

namespace weft::gs {

// Sets the number of threads to one, as in gslib, during its lifetime, unless OMP_NUM_THREADS is set. Otherwise OpenMP
// would start as many threads as there are cores on each rank of a program that may not expect any.
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
