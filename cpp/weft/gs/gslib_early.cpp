// The Fortran names that gslib's gather-scatter had before it used prefixes; some codes carry that version in a folder
// jl/ (Nekbone, NekCEM: gs.c in that folder). Ids are integer*8 and names have an underscore, as those codes build it
// (GLOBAL_LONG_LONG, UNDERSCORE). Datatypes have different numbers from today's: 1 double precision, 2 real, 3 integer,
// 4 integer*8.
#include <mpi.h>

#include <array>
#include <stdexcept>
#include <string>

#include "weft/gs/abort.hpp"

using Int = int;

extern "C" {

void fgslib_gs_setup_(Int* handle, const long long* id, const Int* n, const MPI_Fint* comm, const Int* np);
void fgslib_gs_free_(const Int* handle);
void fgslib_gs_op_(const Int* handle, void* u, const Int* dom, const Int* op, const Int* transpose);
void fgslib_gs_op_vec_(const Int* handle, void* u, const Int* k, const Int* dom, const Int* op, const Int* transpose);
void fgslib_gs_op_many_(const Int* handle, void* u1, void* u2, void* u3, void* u4, void* u5, void* u6, const Int* k,
                        const Int* dom, const Int* op, const Int* transpose);
void fgslib_gs_op_fields_(const Int* handle, void* u, const Int* stride, const Int* k, const Int* dom, const Int* op,
                          const Int* transpose);
}

namespace {

// The number that the datatype has today.
Int today(const char* call, Int dom) {
  return weft::gs::guarded(call, [&] {
    if (dom < 1 || dom > 4) {
      throw std::invalid_argument("datatype " + std::to_string(dom) +
                                  "; known: 1 double precision, 2 real, 3 integer, 4 integer*8");
    }
    return std::array<Int, 4>{1, 0, 2, 3}[static_cast<std::size_t>(dom) - 1];
  });
}

}  // namespace

extern "C" {

void gs_setup_(Int* handle, const long long* id, const Int* n, const MPI_Fint* comm, const Int* np) {
  fgslib_gs_setup_(handle, id, n, comm, np);
}
void gs_free_(const Int* handle) { fgslib_gs_free_(handle); }
void gs_op_(const Int* handle, void* u, const Int* dom, const Int* op, const Int* transpose) {
  const Int type = today("gs_op", *dom);
  fgslib_gs_op_(handle, u, &type, op, transpose);
}
void gs_op_vec_(const Int* handle, void* u, const Int* k, const Int* dom, const Int* op, const Int* transpose) {
  const Int type = today("gs_op_vec", *dom);
  fgslib_gs_op_vec_(handle, u, k, &type, op, transpose);
}
void gs_op_many_(const Int* handle, void* u1, void* u2, void* u3, void* u4, void* u5, void* u6, const Int* k,
                 const Int* dom, const Int* op, const Int* transpose) {
  const Int type = today("gs_op_many", *dom);
  fgslib_gs_op_many_(handle, u1, u2, u3, u4, u5, u6, k, &type, op, transpose);
}
void gs_op_fields_(const Int* handle, void* u, const Int* stride, const Int* k, const Int* dom, const Int* op,
                   const Int* transpose) {
  const Int type = today("gs_op_fields", *dom);
  fgslib_gs_op_fields_(handle, u, stride, k, &type, op, transpose);
}

}  // extern "C"
