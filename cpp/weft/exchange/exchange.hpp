// The transfer of shared entries between the ranks of a Pattern: halo (owner to copies) and gather (copies to owner).
//
// Sums over local points are left to GatherScatter or the caller's kernels. A Schedule (one file each) determines how
// messages travel, a Path which memory they are sent from. The results are bit-identical for all of them.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/device/device.hpp"
#include "weft/exchange/choice.hpp"
#include "weft/exchange/layout.hpp"
#include "weft/exchange/pattern.hpp"
#include "weft/exchange/tuner.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::exchange {

// halo: gather is never called, so nothing is set up for it.
enum class Directions { halo, both };

// Buffers and persistent requests for one Pattern on one Device. T: float, double, std::int32_t, std::int64_t. A vector
// has Pattern::entries entries with `fields` values each, [entry][field] or [field][entry] (Layout).
//
// start_* packs. Until finish_*, kernels may be launched on the same stream and may write the owned entries of the
// vector. On the host the messages are in flight from start_* on. On a GPU they leave in depart_*, the only call that
// waits for the stream: call it once the kernels that hide the messages are launched. finish_* calls it if the caller
// did not, waits for the messages and enqueues the unpacking on the stream.
//
// A halo and a gather of one Exchange may be in flight together, and so may any number of Exchanges: all depart before
// the first is finished. All ranks must start, depart and finish them in the same order, as MPI requires of
// non-blocking collectives (if the schedule is not collective, ranks may use any order).
template <class T>
class Exchange {
 public:
  // Halo and gather are tuned separately (tuned_channel.hpp). CollectiveError on all ranks if construction fails on
  // one. (collective)
  Exchange(const Pattern& pattern, std::shared_ptr<device::Device> device, const mpi::Comm& comm,
           const Asked& asked = {}, int fields = 1, Layout layout = Layout::points_major,
           Directions directions = Directions::both);
  ~Exchange();
  Exchange(Exchange&&) noexcept;
  Exchange& operator=(Exchange&&) noexcept;

  // Copies the owners' values to the halos of the other ranks. std::logic_error for a start without a finish, or vice
  // versa.
  void start_halo(const T* x, device::Stream& stream);
  void depart_halo(bool packed = false);  // packed: the caller has waited for the stream since start_halo
  void finish_halo(T* x, device::Stream& stream);
  // Sends halo values to their owners, which combine them with their own values: the own value first, then by rank.
  void start_gather(const T* y, device::Stream& stream);
  void depart_gather();
  void finish_gather(T* y, Op op, device::Stream& stream);

  bool trivial() const;  // start and finish do nothing: no neighbours (for collective schedules: on any rank)
  std::int64_t bytes_sent() const;  // sent by this rank in a halo (a gather receives as many)
  std::int64_t messages() const;    // likewise
  const Tuning& halo_tuning() const;
  const Tuning& gather_tuning() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::exchange
