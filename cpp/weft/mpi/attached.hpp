// Objects attached to a communicator.
#pragma once

#include "weft/mpi/comm.hpp"

namespace weft::mpi {

// The object of type T attached to weft's communicator, one per type, created on first use. It is an MPI attribute and
// so lives as long as the communicator, independent of garbage collection, which happens at different times on
// different ranks. Local.
template <class T>
T& attached(const Comm& comm) {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    const auto forget = [](MPI_Comm, int, void* value, void*) {
      delete static_cast<T*>(value);
      return MPI_SUCCESS;
    };
    check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &made, nullptr), "MPI_Comm_create_keyval");
    return made;
  }();
  void* value = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(comm.get(), key, static_cast<void*>(&value), &found), "MPI_Comm_get_attr");
  if (found == 0) {
    value = new T;
    check(MPI_Comm_set_attr(comm.get(), key, value), "MPI_Comm_set_attr");
  }
  return *static_cast<T*>(value);
}

}  // namespace weft::mpi
