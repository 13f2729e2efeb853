#include "weft/gs/gs.h"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "weft/gs/abort.hpp"
#include "weft/gs/handle.hpp"

using weft::gs::Arrays;
using weft::gs::Call;
using weft::gs::guarded;
using weft::gs::Handle;
using weft::gs::interleaved;
using weft::gs::separate;
using weft::gs::strided;

struct weft_gs {
  Handle handle;
};

namespace {

weft::gs::Type to_type(weft_gs_type type) {
  switch (type) {
    case WEFT_GS_DOUBLE:
      return weft::gs::Type::f64;
    case WEFT_GS_FLOAT:
      return weft::gs::Type::f32;
    case WEFT_GS_INT:
      return weft::gs::Type::i32;
    case WEFT_GS_LONG_LONG:
      return weft::gs::Type::i64;
  }
  throw std::invalid_argument("unknown type " + std::to_string(static_cast<int>(type)) +
                              "; known: WEFT_GS_DOUBLE, WEFT_GS_FLOAT, WEFT_GS_INT, WEFT_GS_LONG_LONG");
}

weft::exchange::Op to_op(weft_gs_operation op) {
  switch (op) {
    case WEFT_GS_ADD:
      return weft::exchange::Op::add;
    case WEFT_GS_MUL:
      return weft::exchange::Op::mul;
    case WEFT_GS_MIN:
      return weft::exchange::Op::min;
    case WEFT_GS_MAX:
      return weft::exchange::Op::max;
  }
  throw std::invalid_argument("unknown operation " + std::to_string(static_cast<int>(op)) +
                              "; known: WEFT_GS_ADD, WEFT_GS_MUL, WEFT_GS_MIN, WEFT_GS_MAX");
}

Handle& of(weft_gs* gs) {
  if (gs == nullptr) throw std::invalid_argument("gs is NULL");
  return gs->handle;
}

void start(weft_gs* gs, Arrays arrays, weft_gs_type type, weft_gs_operation op, int transpose) {
  of(gs).start(Call{std::move(arrays), to_type(type), to_op(op), transpose != 0});
}
void run(weft_gs* gs, Arrays arrays, weft_gs_type type, weft_gs_operation op, int transpose) {
  start(gs, std::move(arrays), type, op, transpose);
  of(gs).finish();
}

}  // namespace

extern "C" {

weft_gs* weft_gs_setup(const long long* ids, std::size_t n, MPI_Comm comm, int unique, const char* exchange) {
  return guarded("weft_gs_setup", [&] {
    const char* asked = exchange != nullptr ? exchange : std::getenv("WEFT_EXCHANGE");
    return new weft_gs{{{ids, n}, weft::gs::running(comm), unique != 0, asked != nullptr ? asked : "auto"}};
  });
}

void weft_gs_free(weft_gs* gs) {
  guarded("weft_gs_free", [&] {
    if (gs != nullptr) gs->handle.finish();
    delete gs;
  });
}

void weft_gs_unique(long long* ids, std::size_t n, MPI_Comm comm) {
  guarded("weft_gs_unique", [&] { weft::gs::leave_one({ids, n}, weft::gs::running(comm)); });
}

void weft_gs_op(weft_gs* gs, void* u, weft_gs_type type, weft_gs_operation op, int transpose) {
  guarded("weft_gs_op", [&] { run(gs, interleaved(u, 1), type, op, transpose); });
}

void weft_gs_op_vec(weft_gs* gs, void* u, int k, weft_gs_type type, weft_gs_operation op, int transpose) {
  guarded("weft_gs_op_vec", [&] { run(gs, interleaved(u, k), type, op, transpose); });
}

void weft_gs_op_many(weft_gs* gs, void* const* u, int k, weft_gs_type type, weft_gs_operation op, int transpose) {
  guarded("weft_gs_op_many", [&] { run(gs, separate(u, k), type, op, transpose); });
}

void weft_gs_op_fields(weft_gs* gs, void* u, std::size_t stride, int k, weft_gs_type type, weft_gs_operation op,
                       int transpose) {
  guarded("weft_gs_op_fields",
          [&] { run(gs, strided(u, static_cast<std::ptrdiff_t>(stride), k, to_type(type)), type, op, transpose); });
}

void weft_gs_start(weft_gs* gs, void* u, weft_gs_type type, weft_gs_operation op, int transpose) {
  guarded("weft_gs_start", [&] { start(gs, interleaved(u, 1), type, op, transpose); });
}

void weft_gs_start_vec(weft_gs* gs, void* u, int k, weft_gs_type type, weft_gs_operation op, int transpose) {
  guarded("weft_gs_start_vec", [&] { start(gs, interleaved(u, k), type, op, transpose); });
}

void weft_gs_start_many(weft_gs* gs, void* const* u, int k, weft_gs_type type, weft_gs_operation op, int transpose) {
  guarded("weft_gs_start_many", [&] { start(gs, separate(u, k), type, op, transpose); });
}

void weft_gs_wait(weft_gs* gs) {
  guarded("weft_gs_wait", [&] { of(gs).finish(); });
}

std::size_t weft_gs_index_bytes(const weft_gs* gs) {
  return guarded("weft_gs_index_bytes", [&] { return of(const_cast<weft_gs*>(gs)).index_bytes(); });
}

}  // extern "C"
