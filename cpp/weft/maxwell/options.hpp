// The options for Maxwell's equations on a mesh.
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

// Hesthaven and Warburton 2008, 6.5: upwind dissipates the jumps between elements, central conserves the energy.
enum class Flux { upwind, central };
// portable: kernels/maxwell.hpp on any device. simd: the SIMD version for the host.
enum class Kernels { portable, simd };
// The thread blocks of the curl kernel: one thread per point, or one per column of points. automatic: points up to
// order 7 on GPUs; always points on the host, where it makes no difference.
enum class Threads { automatic, points, columns };
// pec: n x E = 0. pmc: n x H = 0. absorbing: no incoming wave along the normal (Silver-Müller).
enum class Condition { pec, pmc, absorbing };
// runge_kutta: low-storage, five stages, order 4. exponential: exp(dt A) in a Krylov space, without sources and layers
// (solver/exponential.hpp).
enum class Integrator { runge_kutta, exponential };

std::string name(Flux flux);
std::string name(Kernels kernels);
std::string name(Threads threads);
std::string name(Condition condition);
std::string name(Integrator integrator);

// The properties of a region, relative to vacuum. Times are in units of length / speed of light in vacuum, sigma in
// units of 1 / (free-space impedance x length).
struct Material {
  double eps = 1;
  double mu = 1;
  double sigma = 0;
};

// f(t) = sin(2 pi frequency s + phase) with s = t - delay. If width > 0, multiplied by exp(-(s / width)^2). If ramp >
// 0, multiplied by 0 for s <= 0, 1 for s >= ramp and sin^2(pi s / (2 ramp)) in between. As in
// kernels/maxwell_sources.hpp.
struct Pulse {
  double frequency = 1, phase = 0, delay = 0, width = 0, ramp = 0;
};

// E = field f(t - direction . (x - origin) / c), with c and the impedance of the medium that it comes from.
struct PlaneWave {
  std::array<double, 3> direction{0, 0, 1};  // of any length
  std::array<double, 3> field{1, 0, 0};      // normal to direction
  std::array<double, 3> origin{0, 0, 0};
  double eps = 1, mu = 1;
  Pulse pulse = {};
};

// A current density with the moment f(t) delta(x - position).
struct Dipole {
  std::array<double, 3> position{0, 0, 0};
  std::array<double, 3> moment{0, 0, 1};
  Pulse pulse = {};
};

struct Options {
  int order = 7;
  Flux flux = Flux::upwind;
  Kernels kernels = Kernels::portable;
  Threads threads = Threads::automatic;                                        // for the portable kernels
  std::vector<std::pair<std::string, Material>> materials = {{"vacuum", {}}};  // materials of regions, with their names
  std::vector<std::int32_t> regions = {};            // [elements] index in `materials` of each local element; empty: 0
  std::map<std::string, Condition> boundaries = {};  // key: the mesh's names of boundaries
  // Waves enter where elements of the total field meet other elements or an absorbing boundary. Outside the total
  // field, the fields are scattered fields.
  std::vector<PlaneWave> waves = {};
  std::vector<std::uint8_t> total_field = {};  // [elements] 1 in the total field; empty: none
  std::vector<Dipole> dipoles = {};
  // [elements][3][n^3] sigma_x, sigma_y, sigma_z of a perfectly matched layer, in 1 / time; empty: none. An element
  // belongs to the layer if any of them is nonzero.
  std::vector<double> damping = {};
  Integrator integrator = Integrator::runge_kutta;
  int krylov_dimension = 20;       // exponential: dimension of the Krylov space,
  double krylov_tolerance = 1e-9;  // and the error per step relative to the fields
  exchange::Asked exchange = {};
  std::shared_ptr<device::Device> device = nullptr;
};

}  // namespace weft::maxwell
