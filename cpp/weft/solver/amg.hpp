// The V-cycle of an algebraic multigrid hierarchy that a library made: the coarse problem of a p-multigrid.
//
// What it does not do: coarsen. Every rank holds the whole hierarchy and solves the whole problem on the host: it is
// small (one unknown a vertex), and a reduction and a broadcast of it cost less than its levels' messages would. The
// sizes at which that ends are in docs/multigrid.md.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::solver {

// Compressed sparse rows.
struct Csr {
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int64_t> offsets;  // [rows + 1]
  std::vector<std::int32_t> indices;
  std::vector<double> values;
};

struct AmgLevel {
  Csr a;  // symmetric
  Csr p;  // from the next, coarser level to this one; empty on the last
};

class Amg {
 public:
  // coarsest: [n][n] row-major, the (pseudo-)inverse of the last level's matrix. constants: those are the null space.
  // std::invalid_argument for shapes that do not fit and for a zero on a diagonal.
  Amg(std::vector<AmgLevel> levels, std::vector<double> coarsest, bool constants);

  std::int64_t size() const { return levels_.front().a.rows; }
  // x = M b, from zero: one V-cycle with a symmetric Gauss-Seidel sweep; [size()] each.
  void cycle(const std::vector<double>& b, std::vector<double>& x);
  std::int64_t memory_bytes() const;

 private:
  void cycle(std::size_t level);

  std::vector<AmgLevel> levels_;
  std::vector<double> coarsest_;
  bool constants_;
  std::vector<std::vector<double>> b_, x_, r_;
};

// The same for a distributed vector: gathers the owned entries of all ranks, in the order of ranks, and keeps its own.
template <class T>
class DistributedAmg {
 public:
  // unknowns: of this rank. std::invalid_argument where they do not add up to amg.size(). (collective)
  DistributedAmg(Amg amg, std::int64_t unknowns, std::shared_ptr<device::Device> device, const mpi::Comm& comm);
  void apply(const T* b, T* x, device::Stream& stream);  // (collective)
  std::int64_t memory_bytes() const { return amg_.memory_bytes(); }

 private:
  Amg amg_;
  std::shared_ptr<device::Device> device_;
  mpi::Comm comm_;
  std::vector<int> counts_, offsets_;
  std::vector<T> own_;
  std::vector<double> mine_, b_, x_;
};

}  // namespace weft::solver
