// Gather-scatter: replaces the value of every point by the sum (product, minimum, maximum) over all points with the
// same id on all ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "weft/exchange/assembly.hpp"
#include "weft/exchange/exchange.hpp"

namespace weft::exchange {

struct LocalIndex;

// The points of a gather-scatter, independent of the type of the values. (collective)
struct Connectivity {
  Connectivity(std::span<const std::int64_t> ids, const mpi::Comm& comm);

  // The indices that gather_scatter uses on a device, created on the first call. Call it within together.
  std::shared_ptr<const LocalIndex> local(const std::shared_ptr<device::Device>& device) const;
  // Frees what is needed only by gather, by scatter and to create indices for other devices: at least 4 bytes per
  // point. Those calls then throw std::logic_error.
  void forget_points();
  void check_points() const;
  std::size_t index_bytes() const;  // total on this rank

  mpi::Comm comm;
  std::int64_t points;
  PointsById by_id;
  Sharing sharing;

 private:
  bool forgotten_ = false;
  mutable std::vector<std::pair<std::shared_ptr<device::Device>, std::shared_ptr<const LocalIndex>>> local_;
};

// Points with ids <= 0 take no part. T: float, double, std::int32_t, std::int64_t. Arrays are in device memory:
// [point][field], and DOF vectors [assembly().local + 1][field]; with Layout::fields_major the field comes first. The
// order of combination depends only on ids and ranks.
template <class T>
class GatherScatter {
 public:
  // The number of points may differ from rank to rank and may be 0. (collective)
  GatherScatter(std::span<const std::int64_t> ids, const mpi::Comm& comm, std::shared_ptr<device::Device> device,
                const Asked& asked = {}, int fields = 1, Layout layout = Layout::points_major);
  // The same for an existing Connectivity, which several types and devices can share. (collective)
  GatherScatter(std::shared_ptr<const Connectivity> connectivity, std::shared_ptr<device::Device> device,
                const Asked& asked = {}, int fields = 1, Layout layout = Layout::points_major);
  ~GatherScatter();
  GatherScatter(GatherScatter&&) noexcept;
  GatherScatter& operator=(GatherScatter&&) noexcept;

  // Z Z^T in place. Between start and finish the caller may work on other arrays on the same stream. As with Exchange,
  // messages from a GPU leave in depart, or else in finish.
  void gather_scatter(T* points, Op op, device::Stream& stream);
  void start(T* points, Op op, device::Stream& stream);
  // The same for `fields` separate arrays with one value per point.
  void start(std::span<T* const> arrays, Op op, device::Stream& stream);
  void depart();
  void finish(device::Stream& stream);

  // dofs = Z^T points. Owned entries are complete, halo entries hold this rank's contribution, and the last entry is 0.
  void gather(const T* points, T* dofs, Op op, device::Stream& stream);
  // points = Z dofs; fills the halo entries of dofs first. Points with ids <= 0 get 0.
  void scatter(T* dofs, T* points, device::Stream& stream);

  // The numbering of DOFs, created by the first call of gather, scatter or this function. (collective the first time)
  const Assembly& assembly();
  std::int64_t points() const;
  int fields() const;
  Layout layout() const;
  const Tuning& tuning() const;       // for gather_scatter
  const Tuning* halo_tuning() const;  // for scatter and gather, created with the DOFs; nullptr before
  const Tuning* gather_tuning() const;
  std::int64_t bytes_sent() const;  // sent by this rank in one gather_scatter
  std::int64_t messages() const;
  std::size_t index_bytes() const;  // on this rank, without those of the Connectivity

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::exchange
