// What can be chosen about Maxwell's equations on a mesh.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/exchange.hpp"

namespace weft::maxwell {

// Hesthaven and Warburton 2008, 6.5: upwind dissipates the jumps between elements, central keeps the energy.
enum class Flux { upwind, central };
// portable: kernels/maxwell.hpp on any device; simd: the host's own version.
enum class Kernels { portable, simd };
// pec: n x E = 0; pmc: n x H = 0; absorbing: no wave comes in along the normal (Silver-Mueller).
enum class Condition { pec, pmc, absorbing };

std::string name(Flux flux);
std::string name(Kernels kernels);
std::string name(Condition condition);
Condition parse_condition(const std::string& text);  // std::invalid_argument naming the three

// Of a region, relative to vacuum: times are in units of length over the speed of light in vacuum, sigma in units of
// 1 / (free-space impedance x length).
struct Material {
  std::string name = "vacuum";
  double eps = 1;
  double mu = 1;
  double sigma = 0;
};

struct Options {
  int order = 7;
  Flux flux = Flux::upwind;
  Kernels kernels = Kernels::portable;
  std::vector<Material> materials = {Material{}};
  std::vector<std::int32_t> regions = {};            // [elements] place in `materials` of each local element; empty: 0
  std::map<std::string, Condition> boundaries = {};  // by the mesh's names of boundaries
  exchange::Asked exchange = {};
  std::shared_ptr<device::Device> device = nullptr;
};

}  // namespace weft::maxwell
