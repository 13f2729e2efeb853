// The work fields of a plan's round trips. The ranks of a node can share them: each maps those of all others, and its
// pass in physical space reads and writes its lines along z where they lie, so the exchanges on both sides of that pass
// move no data.
#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "weft/device/buffer.hpp"
#include "weft/device/shared.hpp"
#include "weft/fft/block.hpp"
#include "weft/fft/decomposition.hpp"
#include "weft/fft/meeting.hpp"
#include "weft/fft/transpose.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::fft {

template <class T>
class WorkFields {
 public:
  using Complex = std::complex<T>;

  // `count` fields of field_values() each, which are 0. shared: among all ranks of `comm`, which are on one node and
  // form a grid of 1 x P. `decomposition` must outlive this object. (collective)
  WorkFields(const Decomposition& decomposition, std::shared_ptr<device::Device> device, const mpi::Comm& comm,
             int count, bool shared);

  bool shared() const { return meeting_.has_value(); }
  const std::vector<Complex*>& own() const { return own_; }
  // If shared: all of field `number`, which consists of the planes of all ranks.
  Pieces<Complex> planes_of_all(int number) const;
  // If shared: instead of an exchange of `variables`, waits until all ranks have written their parts. (collective)
  void meet(Toward toward, int variables, device::Stream& stream);
  std::int64_t bytes() const;  // of this rank's fields

 private:
  const Decomposition& decomposition_;
  device::Array<Complex> alone_;
  std::vector<Complex*> own_;
  // If shared, by rank: the memory, opened if it is another rank's, and the number of values in a field.
  std::vector<device::SharedMemory> memory_;
  std::vector<std::int64_t> values_;
  std::optional<Meeting> meeting_;
  std::map<std::pair<Toward, int>, Meeting::Told> told_;
};

}  // namespace weft::fft
