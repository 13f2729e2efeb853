// Explicit Runge-Kutta methods that need one vector in addition to the solution (2N storage).
//
// Stage s: residual <- a_s residual + dt f(t + c_s dt, u), u <- u + b_s residual. The loop over stages is left to the
// caller, which can fuse both updates with the computation of f.
#pragma once

#include <array>

namespace weft::solver {

struct LowStorageStage {
  double a, b, c;
};

// Five stages, order four: Carpenter and Kennedy, NASA TM 109112 (1994), solution 3.
inline constexpr std::array<LowStorageStage, 5> carpenter_kennedy{{
    {0, 1432997174477.0 / 9575080441755.0, 0},
    {-567301805773.0 / 1357537059087.0, 5161836677717.0 / 13612068292357.0, 1432997174477.0 / 9575080441755.0},
    {-2404267990393.0 / 2016746695238.0, 1720146321549.0 / 2090206949498.0, 2526269341429.0 / 6820363962896.0},
    {-3550918686646.0 / 2091501179385.0, 3134564353537.0 / 4481467310338.0, 2006345519317.0 / 3224310063776.0},
    {-1275806237668.0 / 842570457699.0, 2277821191437.0 / 14882151754819.0, 2802321613138.0 / 2924317926251.0},
}};

}  // namespace weft::solver
