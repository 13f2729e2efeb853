// The flow's terms on host processors, one vector lane an element, on the blocks of a poisson::SimdOperator.
//
// What it does not do: communication; that is Terms. docs/cpu-kernels.md tells how it works.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/flow/simd_blocks.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/poisson/simd_operator.hpp"

namespace weft::flow {

// T: float or double.
template <class T>
class SimdTerms {
 public:
  // numbering must live as long; mesh: in the order of its blocks.
  SimdTerms(const poisson::SimdOperator<T>& numbering, const mesh::Mesh& mesh,
            const std::shared_ptr<device::Device>& device);

  // A term, 0..5 as in enum Term, of f [count][entries] (and u) to out [outputs][entries]: begin(), then the three
  // parts as of poisson::SimdOperator. f's and u's owned entries must be there before part 0, halo entries before part
  // 1; shared entries of out lack what other ranks add, and its halo entries hold what goes to them.
  void begin(T* out, int outputs) const;
  void apply(int term, const T* u, const T* f, int count, T* out, int outputs, int part) const;

  std::int64_t blocks(Shape shape) const;
  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  struct Free {
    void operator()(void* p) const { ::operator delete[](p, std::align_val_t{4096}); }
  };

  const poisson::SimdOperator<T>& numbering_;
  std::int64_t entries_;
  std::vector<Shape> shapes_;
  device::Array<T> values_, maps_, coordinates_;
  SimdTables<T> tables_{};
  SimdGeometry<T> geometry_{};
  std::int64_t scratch_values_;
  std::vector<std::unique_ptr<T[], Free>> scratch_;  // one a thread
};

}  // namespace weft::flow
