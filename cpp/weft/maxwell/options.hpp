// What can be chosen about Maxwell's equations on a mesh.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/exchange.hpp"

namespace weft::maxwell {

// Hesthaven and Warburton 2008, 6.5: upwind dissipates the jumps between elements, central keeps the energy.
enum class Flux { upwind, central };
// portable: kernels/maxwell.hpp on any device; simd: the host's own version.
enum class Kernels { portable, simd };
// The curl kernel's thread blocks: one thread per point, or per column of points. automatic: points up to order 7 on
// GPUs, and always on the host, where it makes no difference.
enum class Threads { automatic, points, columns };
// pec: n x E = 0; pmc: n x H = 0; absorbing: no wave comes in along the normal (Silver-Mueller).
enum class Condition { pec, pmc, absorbing };
// runge_kutta: low-storage, five stages, of order 4. exponential: exp(dt A) in a Krylov space, without sources and
// layers (solver/exponential.hpp).
enum class Integrator { runge_kutta, exponential };

std::string name(Flux flux);
std::string name(Kernels kernels);
std::string name(Threads threads);
std::string name(Condition condition);
std::string name(Integrator integrator);

// The values of a region, relative to vacuum: times are in units of length over the speed of light in vacuum, sigma in
// units of 1 / (free-space impedance x length).
struct Material {
  double eps = 1;
  double mu = 1;
  double sigma = 0;
};

// f(t) = sin(2 pi frequency s + phase) with s = t - delay; times exp(-(s / width)^2) if width > 0; times 0 for s <= 0,
// 1 for s >= ramp and sin^2(pi s / (2 ramp)) between if ramp > 0. As in kernels/maxwell_sources.hpp.
struct Pulse {
  double frequency = 1, phase = 0, delay = 0, width = 0, ramp = 0;
};

// E = field f(t - direction . (x - origin) / c) with c and the impedance of the medium it comes from.
struct PlaneWave {
  std::array<double, 3> direction{0, 0, 1};  // of any length
  std::array<double, 3> field{1, 0, 0};      // normal to direction
  std::array<double, 3> origin{0, 0, 0};
  double eps = 1, mu = 1;
  Pulse pulse = {};
};

// The current density moment f(t) delta(x - position).
struct Dipole {
  std::array<double, 3> position{0, 0, 0};
  std::array<double, 3> moment{0, 0, 1};
  Pulse pulse = {};
};

struct Options {
  int order = 7;
  Flux flux = Flux::upwind;
  Kernels kernels = Kernels::portable;
  Threads threads = Threads::automatic;                                        // of the portable kernels
  std::vector<std::pair<std::string, Material>> materials = {{"vacuum", {}}};  // of regions, with their names
  std::vector<std::int32_t> regions = {};            // [elements] place in `materials` of each local element; empty: 0
  std::map<std::string, Condition> boundaries = {};  // by the mesh's names of boundaries
  // Waves enter where elements of the total field meet other elements or an absorbing boundary; outside the total
  // field, fields are scattered fields.
  std::vector<PlaneWave> waves = {};
  std::vector<std::uint8_t> total_field = {};  // [elements] 1 in the total field; empty: none
  std::vector<Dipole> dipoles = {};
  // [elements][3][n^3] sigma_x, sigma_y, sigma_z of a perfectly matched layer, in 1 / time; empty: none. An element is
  // of the layer where one of them is not 0.
  std::vector<double> damping = {};
  Integrator integrator = Integrator::runge_kutta;
  int krylov_dimension = 20;       // exponential: vectors of the space,
  double krylov_tolerance = 1e-9;  // and the error of a step relative to the fields
  exchange::Asked exchange = {};
  std::shared_ptr<device::Device> device = nullptr;
};

}  // namespace weft::maxwell
