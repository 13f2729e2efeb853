// The V-cycle of an algebraic multigrid hierarchy, which a library has built: the coarse solver of a p-multigrid.
//
// It does not coarsen. Every rank holds the whole hierarchy and solves the whole problem on the host: the problem is
// small (one unknown per vertex), and one all-gather costs less than messages on each of its levels would.
// docs/multigrid.md gives the sizes up to which this holds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/device/buffer.hpp"
#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::solver {

// A matrix in compressed sparse row format.
struct Csr {
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int64_t> offsets;  // [rows + 1]
  std::vector<std::int32_t> indices;
  std::vector<double> values;
};

struct AmgLevel {
  Csr a;  // symmetric
  Csr p;  // from the next coarser level to this one; empty on the last level
};

class Amg {
 public:
  // coarsest: [n][n] row-major, the (pseudo-)inverse of the last level's matrix. constants: whether the null space
  // consists of the constants. std::invalid_argument for inconsistent shapes or a diagonal entry that is not positive.
  Amg(std::vector<AmgLevel> levels, std::vector<double> coarsest, bool constants);

  std::int64_t size() const { return levels_.front().a.rows; }
  // x = M b: one V-cycle from zero with symmetric Gauss-Seidel sweeps; [size()] each.
  void cycle(const std::vector<double>& b, std::vector<double>& x);
  std::int64_t memory_bytes() const;

 private:
  void cycle(std::size_t level);

  std::vector<AmgLevel> levels_;
  std::vector<double> coarsest_;
  bool constants_;
  std::vector<std::vector<double>> b_, x_, r_;
};

// The same for a distributed vector: gathers the owned entries of all ranks, in rank order, and returns this rank's
// part of the result.
template <class T>
class DistributedAmg {
 public:
  // unknowns: the number on this rank. std::invalid_argument unless they add up to amg.size(). (collective)
  DistributedAmg(Amg amg, std::int64_t unknowns, std::shared_ptr<device::Device> device, const mpi::Comm& comm);
  void apply(const T* b, T* x, device::Stream& stream);  // waits once for the stream (collective)
  std::int64_t memory_bytes() const { return amg_.memory_bytes(); }

 private:
  Amg amg_;
  std::shared_ptr<device::Device> device_;
  mpi::Comm comm_;
  std::shared_ptr<const trace::Traffic> gathers_;
  std::vector<int> counts_, offsets_;
  device::Buffer host_;
  std::span<T> own_;  // this rank's part of host_
  std::vector<double> mine_, b_, x_;
};

}  // namespace weft::solver
