// The transfer of shared entries between the ranks of a Pattern: halo (owner to copies) and gather (copies to owner).
//
// What it does not do: local sums over points; that is GatherScatter, or the caller's kernels. How messages travel is a
// Schedule (one file each), from which memory is a Path; values are the same, bit for bit, whichever is chosen.
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

// halo: an exchange whose gather is never called, so that nothing is set up for it.
enum class Directions { halo, both };

// Buffers and persistent requests for one Pattern on one Device. T: float, double, std::int32_t, std::int64_t.
// A vector has `fields` values an entry, [entry][field] or [field][entry] (Layout), of Pattern::entries entries.
// start_* packs and posts and returns when the vector's values are safe in a buffer: until finish_*, kernels may be
// launched on the same stream, and they may write the vector's owned entries. finish_* waits for the messages and puts
// what arrived on the stream. A halo and a gather of one Exchange may be in flight together, and any number of
// Exchanges. All ranks start them in one order and finish them in one order, as MPI asks of non-blocking collectives
// (where the schedule is not collective, any order will do, not the same on all ranks).
template <class T>
class Exchange {
 public:
  // Halo and gather are tuned apart (tuned_channel.hpp). CollectiveError on all ranks if it fails on one. (collective)
  Exchange(const Pattern& pattern, std::shared_ptr<device::Device> device, const mpi::Comm& comm,
           const Asked& asked = {}, int fields = 1, Layout layout = Layout::points_major,
           Directions directions = Directions::both);
  ~Exchange();
  Exchange(Exchange&&) noexcept;
  Exchange& operator=(Exchange&&) noexcept;

  // Owners' values to the halo of the others. std::logic_error for a start without finish, or the other way round.
  void start_halo(const T* x, device::Stream& stream);
  void finish_halo(T* x, device::Stream& stream);
  // Halo values to the owners, which combine them into their own: own value first, then by rank.
  void start_gather(const T* y, device::Stream& stream);
  void finish_gather(T* y, Op op, device::Stream& stream);

  bool trivial() const;  // start and finish do nothing: no neighbours, on any rank where the schedule is collective
  std::int64_t bytes_sent() const;  // by this rank in a halo (a gather receives as many)
  std::int64_t messages() const;    // the same
  const Tuning& halo_tuning() const;
  const Tuning& gather_tuning() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::exchange
