// What can be chosen about a space.
#pragma once

#include <memory>
#include <string>

#include "weft/device/device.hpp"
#include "weft/exchange/choice.hpp"
#include "weft/mesh/boundary_set.hpp"

namespace weft::space {

// portable: kernels that run on any device, element by element; simd: the host's own, by blocks of elements.
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
