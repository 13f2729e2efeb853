// The object behind a weft_gs: the points of one setup, and their gather-scatters, one per type and number of values.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/gather_scatter.hpp"

namespace weft::gs {

enum class Type { f64, f32, i32, i64 };

// The arrays of one call: `k` values per point, either interleaved in one array or in k separate arrays.
struct Arrays {
  bool interleaved = true;
  std::vector<void*> each;  // one array, or k
  int k = 1;
};

// Arrays passed by a user. std::invalid_argument for a negative k, and for a missing list of k arrays. `stride` counts
// values of the type.
Arrays interleaved(void* u, int k);
Arrays separate(void* const* u, int k);
Arrays strided(void* u, std::ptrdiff_t stride, int k, Type type);

struct Call {
  Arrays arrays;
  Type type = Type::f64;
  exchange::Op op = exchange::Op::add;
  bool transpose = false;
};

// |id| names the group; id 0 takes no part; a negative id is flagged (see gs.h).
class Handle {
 public:
  // (collective)
  Handle(std::span<const long long> ids, const mpi::Comm& comm, bool unique, const std::string& exchange);
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  // std::invalid_argument for a NULL array if there are points. If another call is in progress, it is finished first.
  // Returns the number to pass to finish().
  std::int64_t start(Call call);
  void finish(std::int64_t number);  // does nothing if it is finished already
  void finish() { finish(started_); }

  std::size_t index_bytes() const;
  const std::vector<std::int64_t>& shared() const { return shared_; }  // per neighbour: ids shared
  const mpi::Comm& comm() const { return comm_; }

 private:
  template <class T>
  using ByCount = std::map<int, exchange::GatherScatter<T>>;  // by k

  template <class T>
  exchange::GatherScatter<T>& of(int k);
  template <class T>
  void start_as(const Call& call);
  template <class T>
  void finish_as(const Call& call);

  mpi::Comm comm_;
  std::shared_ptr<device::Device> device_;
  std::shared_ptr<exchange::Connectivity> connectivity_;
  exchange::Asked exchange_;
  std::vector<std::int64_t> shared_;
  std::vector<std::int32_t> flagged_;  // positions of the flagged points
  device::Stream stream_;
  ByCount<double> f64_;
  ByCount<float> f32_;
  ByCount<std::int32_t> i32_;
  ByCount<std::int64_t> i64_;
  std::vector<std::byte> kept_;  // values of the flagged points during a transposed call
  std::optional<Call> active_;
  std::int64_t started_ = 0;
};

// In each group, negates the ids of all points but one. (collective)
void leave_one(std::span<long long> ids, const mpi::Comm& comm);

}  // namespace weft::gs
