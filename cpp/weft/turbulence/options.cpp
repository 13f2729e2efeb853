#include "weft/turbulence/options.hpp"

namespace weft::turbulence {

std::string name(Scheme scheme) { return scheme == Scheme::rk2 ? "rk2" : "rk4"; }

std::string name(ForcingKind kind) {
  return kind == ForcingKind::none ? "none" : kind == ForcingKind::stochastic ? "stochastic" : "band";
}

}  // namespace weft::turbulence
