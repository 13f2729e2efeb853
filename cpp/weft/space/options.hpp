// The options of a space.
#pragma once

#include <memory>
#include <string>

#include "weft/device/device.hpp"
#include "weft/exchange/choice.hpp"
#include "weft/mesh/boundary_set.hpp"

namespace weft::space {

// portable: kernels for any device, element by element; simd: SIMD kernels for the host, by blocks of elements.
enum class Kernels { portable, simd };
std::string name(Kernels kernels);

struct Options {
  int order = 7;
  Kernels kernels = Kernels::portable;
  mesh::BoundarySet dirichlet = {};  // functions are 0 on these boundaries
  exchange::Asked exchange = {};
  std::shared_ptr<device::Device> device = nullptr;
};

}  // namespace weft::space
