// The entry points of gslib's gather-scatter (Nek5000/gslib, gs.h and the Fortran interface in gs.c), so that a program
// built against gslib runs on weft after relinking. Names, argument orders, enumerations and the layout of `struct
// comm` are those of gslib's usual build: prefixes gslib_ and fgslib_, 64-bit global ids, Fortran names with an
// underscore.
#include <mpi.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "weft/gs/abort.hpp"
#include "weft/gs/handle.hpp"

using weft::exchange::Op;
using weft::gs::Arrays;
using weft::gs::Call;
using weft::gs::guarded;
using weft::gs::Handle;
using weft::gs::interleaved;
using weft::gs::running;
using weft::gs::separate;
using weft::gs::strided;
using weft::gs::Type;

namespace {

using Int = int;         // gslib's sint
using Long = long long;  // gslib's slong

// gslib's struct comm.
struct Communicator {
  unsigned id, np;
  MPI_Comm c;
};

std::string exchange_for(int method) {
  if (const char* asked = std::getenv("WEFT_EXCHANGE"); asked != nullptr) return asked;
  if (method < 0 || method > 3) {
    throw std::invalid_argument("unknown method " + std::to_string(method) +
                                "; known: 0 auto, 1 pairwise, 2 crystal router, 3 all-reduce");
  }
  // weft's names for gslib's methods. weft has no counterpart of all-reduce, which sends every shared value to every
  // rank; it then chooses itself.
  static constexpr std::array<const char*, 4> names{"auto", "pairwise", "crystal", "auto"};
  const std::string name = names[static_cast<std::size_t>(method)];
  for (const auto schedule : weft::exchange::schedules()) {
    if (weft::exchange::name(schedule) == name) return name;
  }
  return "auto";
}

std::size_t count(std::int64_t n) {
  if (n < 0) throw std::invalid_argument("n is " + std::to_string(n) + "; it must be 0 or more");
  return static_cast<std::size_t>(n);
}

std::unique_ptr<Handle> set_up(const Long* ids, std::int64_t n, const weft::mpi::Comm& comm, bool unique, int method,
                               bool verbose) {
  auto handle = std::make_unique<Handle>(std::span(ids, count(n)), comm, unique, exchange_for(method));
  if (verbose) {
    const weft::mpi::Comm& c = handle->comm();
    const auto bytes = static_cast<std::int64_t>(handle->index_bytes());
    const std::int64_t most = c.max(bytes), neighbors = c.max(static_cast<std::int64_t>(handle->shared().size()));
    if (c.rank() == 0) {
      std::printf("weft: gather-scatter on %d rank(s): up to %lld neighbours and %lld bytes of index per rank\n",
                  c.size(), static_cast<long long>(neighbors), static_cast<long long>(most));
      std::fflush(stdout);
    }
  }
  return handle;
}

// gslib's gs_dom: double, float, int, long, long long.
Type domain(int dom) {
  static_assert(sizeof(long) == 8 && sizeof(long long) == 8 && sizeof(int) == 4);
  static constexpr std::array<Type, 5> types{Type::f64, Type::f32, Type::i32, Type::i64, Type::i64};
  if (dom < 0 || dom > 4) throw std::invalid_argument("unknown gs_dom " + std::to_string(dom));
  return types[static_cast<std::size_t>(dom)];
}

// gslib's gs_op: add, mul, min, max, bpr.
Op operation(int op) {
  if (op == 4) throw std::invalid_argument("weft has no gs_bpr (bitwise prefix); link gslib for this call");
  if (op < 0 || op > 4) throw std::invalid_argument("unknown gs_op " + std::to_string(op));
  return static_cast<Op>(op);
}

Handle& of(Handle* handle) {
  if (handle == nullptr) throw std::invalid_argument("the gs_data is NULL");
  return *handle;
}

void run(Handle& handle, Arrays arrays, Type type, Op op, bool transpose) {
  handle.finish(handle.start({std::move(arrays), type, op, transpose}));
}

// The operations that gs_wait can refer to: gslib numbers all calls in progress in one list.
struct Pending {
  Handle* handle;
  std::int64_t number;
};
std::vector<Pending> pending;

void begin(Handle& handle, Arrays arrays, Type type, Op op, bool transpose, int* wait) {
  pending.push_back({&handle, handle.start({std::move(arrays), type, op, transpose})});
  *wait = static_cast<int>(pending.size()) - 1;
}

void await(int number) {
  if (number < 0 || static_cast<std::size_t>(number) >= pending.size()) {
    throw std::invalid_argument("no operation in progress has the number " + std::to_string(number));
  }
  Pending& call = pending[static_cast<std::size_t>(number)];
  if (call.handle != nullptr) call.handle->finish(call.number);
  call.handle = nullptr;
  while (!pending.empty() && pending.back().handle == nullptr) pending.pop_back();
}

// Freeing a handle finishes its calls in progress.
void forget(Handle* handle) {
  if (handle == nullptr) return;
  handle->finish();
  for (Pending& call : pending) {
    if (call.handle == handle) call.handle = nullptr;
  }
  delete handle;
}

// The gather-scatters that Fortran refers to by number.
std::vector<std::unique_ptr<Handle>> numbered;

Handle& at(Int number) {
  if (number < 0 || static_cast<std::size_t>(number) >= numbered.size() ||
      numbered[static_cast<std::size_t>(number)] == nullptr) {
    throw std::invalid_argument("no gather-scatter has the handle " + std::to_string(number) +
                                ": it was never set up, or already freed");
  }
  return *numbered[static_cast<std::size_t>(number)];
}

// Fortran's datatypes: 1 double precision, 2 integer, 3 integer*8. gslib's list begins with real as number 0, but gslib
// rejects it; weft accepts it.
Type fortran_type(Int dom) {
  static constexpr std::array<Type, 4> types{Type::f32, Type::f64, Type::i32, Type::i64};
  if (dom < 0 || dom > 3) {
    throw std::invalid_argument("datatype " + std::to_string(dom) +
                                "; known: 0 real, 1 double precision, 2 integer, 3 integer*8");
  }
  return types[static_cast<std::size_t>(dom)];
}

Op fortran_operation(Int op) {
  if (op < 1 || op > 4) {
    throw std::invalid_argument("operation " + std::to_string(op) + "; known: 1 add, 2 mul, 3 min, 4 max");
  }
  return static_cast<Op>(op - 1);
}

weft::mpi::Comm checked(const MPI_Fint* fortran, Int np) {
  const weft::mpi::Comm comm = running(MPI_Comm_f2c(*fortran));
  if (comm.size() != np) {
    throw std::invalid_argument("np is " + std::to_string(np) + " but the communicator has " +
                                std::to_string(comm.size()) + " ranks");
  }
  return comm;
}

Arrays six(const std::array<void*, 6>& u, Int k) {
  if (k < 0 || k > 6) throw std::invalid_argument(std::to_string(k) + " arrays; gs_op_many takes up to 6");
  return separate(u.data(), k);
}

}  // namespace

extern "C" {

// C: gs.h of gslib. Its calls take a buffer, which weft does not need.
Handle* gslib_gs_setup(const Long* id, unsigned n, const Communicator* comm, int unique, int method, int verbose) {
  return guarded("gs_setup",
                 [&] { return set_up(id, n, running(comm->c), unique != 0, method, verbose != 0).release(); });
}
void gslib_gs_free(Handle* gs) {
  guarded("gs_free", [&] { forget(gs); });
}
void gslib_gs_unique(Long* id, unsigned n, const Communicator* comm) {
  guarded("gs_unique", [&] { weft::gs::leave_one({id, n}, running(comm->c)); });
}
void gslib_gs(void* u, int dom, int op, unsigned transpose, Handle* gs, void*) {
  guarded("gs", [&] { run(of(gs), interleaved(u, 1), domain(dom), operation(op), transpose != 0); });
}
void gslib_gs_vec(void* u, unsigned k, int dom, int op, unsigned transpose, Handle* gs, void*) {
  guarded("gs_vec",
          [&] { run(of(gs), interleaved(u, static_cast<int>(k)), domain(dom), operation(op), transpose != 0); });
}
void gslib_gs_many(void* const* u, unsigned k, int dom, int op, unsigned transpose, Handle* gs, void*) {
  guarded("gs_many",
          [&] { run(of(gs), separate(u, static_cast<int>(k)), domain(dom), operation(op), transpose != 0); });
}
void gslib_igs(void* u, int dom, int op, unsigned transpose, Handle* gs, void*, int* wait) {
  guarded("igs", [&] { begin(of(gs), interleaved(u, 1), domain(dom), operation(op), transpose != 0, wait); });
}
void gslib_igs_vec(void* u, unsigned k, int dom, int op, unsigned transpose, Handle* gs, void*, int* wait) {
  guarded("igs_vec", [&] {
    begin(of(gs), interleaved(u, static_cast<int>(k)), domain(dom), operation(op), transpose != 0, wait);
  });
}
void gslib_igs_many(void* const* u, unsigned k, int dom, int op, unsigned transpose, Handle* gs, void*, int* wait) {
  guarded("igs_many",
          [&] { begin(of(gs), separate(u, static_cast<int>(k)), domain(dom), operation(op), transpose != 0, wait); });
}
void gslib_gs_wait(int wait) {
  guarded("gs_wait", [&] { await(wait); });
}
Handle* gslib_gs_hf2c(Int number) {
  return guarded("gs_hf2c", [&] { return &at(number); });
}
void gslib_pw_data_nmsg(Handle* gs, int* n) {
  guarded("pw_data_nmsg", [&] { *n = static_cast<int>(of(gs).shared().size()); });
}
void gslib_pw_data_size(Handle* gs, int* n) {
  guarded("pw_data_size", [&] {
    for (const std::int64_t values : of(gs).shared()) *n++ = static_cast<int>(values);
  });
}

// Symbols that the inline functions of gslib's headers use (comm.h, mem.h), for programs that use nothing else of
// gslib.
unsigned gslib_comm_gbl_id = 0, gslib_comm_gbl_np = 1;
void gslib_fail(int status, const char* file, unsigned line, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  char text[4096];
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "ERROR (proc %u, %s:%u): %s\n", gslib_comm_gbl_id, file, line, text);  // in a single write
  std::fflush(stderr);
  weft::gs::let_it_be_read();
  MPI_Abort(MPI_COMM_WORLD, status);
  std::abort();
}

// Fortran.
void fgslib_gs_setup_pick_(Int* handle, const Long* id, const Int* n, const MPI_Fint* comm, const Int* np,
                           const Int* method) {
  guarded("gs_setup", [&] {
    numbered.push_back(set_up(id, *n, checked(comm, *np), false, *method, true));
    *handle = static_cast<Int>(numbered.size()) - 1;
  });
}
void fgslib_gs_setup_(Int* handle, const Long* id, const Int* n, const MPI_Fint* comm, const Int* np) {
  const Int method = 0;
  fgslib_gs_setup_pick_(handle, id, n, comm, np, &method);
}
void fgslib_gs_free_(const Int* handle) {
  guarded("gs_free", [&] {
    at(*handle);
    forget(numbered[static_cast<std::size_t>(*handle)].release());
  });
}
void fgslib_gs_unique_(Long* id, const Int* n, const MPI_Fint* comm, const Int* np) {
  guarded("gs_unique", [&] { weft::gs::leave_one({id, count(*n)}, checked(comm, *np)); });
}
void fgslib_gs_op_(const Int* handle, void* u, const Int* dom, const Int* op, const Int* transpose) {
  guarded("gs_op",
          [&] { run(at(*handle), interleaved(u, 1), fortran_type(*dom), fortran_operation(*op), *transpose != 0); });
}
void fgslib_gs_op_vec_(const Int* handle, void* u, const Int* k, const Int* dom, const Int* op, const Int* transpose) {
  guarded("gs_op_vec",
          [&] { run(at(*handle), interleaved(u, *k), fortran_type(*dom), fortran_operation(*op), *transpose != 0); });
}
void fgslib_gs_op_many_(const Int* handle, void* u1, void* u2, void* u3, void* u4, void* u5, void* u6, const Int* k,
                        const Int* dom, const Int* op, const Int* transpose) {
  guarded("gs_op_many", [&] {
    run(at(*handle), six({u1, u2, u3, u4, u5, u6}, *k), fortran_type(*dom), fortran_operation(*op), *transpose != 0);
  });
}
void fgslib_gs_op_fields_(const Int* handle, void* u, const Int* stride, const Int* k, const Int* dom, const Int* op,
                          const Int* transpose) {
  guarded("gs_op_fields", [&] {
    Handle& gs = at(*handle);
    const Type type = fortran_type(*dom);
    run(gs, strided(u, *stride, std::max(*k, 0), type), type, fortran_operation(*op), *transpose != 0);
  });
}
void fgslib_igs_op_(const Int* handle, void* u, const Int* dom, const Int* op, const Int* transpose, Int* wait) {
  guarded("igs_op", [&] {
    begin(at(*handle), interleaved(u, 1), fortran_type(*dom), fortran_operation(*op), *transpose != 0, wait);
  });
}
void fgslib_igs_op_vec_(const Int* handle, void* u, const Int* k, const Int* dom, const Int* op, const Int* transpose,
                        Int* wait) {
  guarded("igs_op_vec", [&] {
    begin(at(*handle), interleaved(u, *k), fortran_type(*dom), fortran_operation(*op), *transpose != 0, wait);
  });
}
void fgslib_igs_op_many_(const Int* handle, void* u1, void* u2, void* u3, void* u4, void* u5, void* u6, const Int* k,
                         const Int* dom, const Int* op, const Int* transpose, Int* wait) {
  guarded("igs_op_many", [&] {
    begin(at(*handle), six({u1, u2, u3, u4, u5, u6}, *k), fortran_type(*dom), fortran_operation(*op), *transpose != 0,
          wait);
  });
}
void fgslib_gs_op_wait_(const Int* wait) {
  guarded("gs_op_wait", [&] { await(*wait); });
}

}  // extern "C"
