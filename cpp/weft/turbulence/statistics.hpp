// Statistics at the points of a simulation, between its steps: dissipation and enstrophy (GESTS, Eq. 10), pressure (Eq.
// 11), longitudinal velocity gradients; and the transfer of energy between shells.
//
// They use the solver's memory that is free between steps. The sums of Eq. 10 are accumulated pair by pair of velocity
// gradients, so that two real fields hold them. The pressure needs one spectral field more than a step leaves free (as
// in the paper).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/turbulence/state.hpp"

namespace weft::turbulence {

// The distribution of a quantity x, divided by `scale`, over the points.
struct Distribution {
  std::string name;
  std::string scaled_by;             // "mean" or "root mean square"
  double scale = 1;                  // 1 if that mean is 0
  double points = 0;                 // number of points
  std::vector<double> moments;       // means of (x / scale)^p, p = 1, 2, 3, 4
  double smallest = 0, largest = 0;  // of x / scale
  // Counts in bins of equal width from `lower` to `upper`, of x / scale or of its decimal logarithm. Values outside are
  // counted in the first or last bin.
  bool logarithmic = false;
  double lower = 0, upper = 0;
  std::vector<double> counts;
};

// Enstrophy at the points of one plane z that this rank holds, at every `stride`th point in x and y.
struct Slice {
  std::int64_t stride = 1;
  std::int64_t first_row = 0, rows = 0, columns = 0;  // rows and columns of the slice itself
  std::vector<float> values;                          // [rows][columns]
};

struct Asked {
  bool points = true;                // dissipation, enstrophy, gradients
  bool pressure = true;              // together with these
  bool keep_pressure = false;        // also its values at this rank's points
  bool transfer = true;              // T(k)
  std::int64_t slice = -1;           // z of the slice, or -1
  std::int64_t slice_points = 1024;  // at most this many per side
};

template <class T>
struct Statistics {
  std::vector<Distribution> distributions;  // of dissipation, enstrophy, du/dx, dv/dy, dw/dz, pressure: those requested
  std::vector<double> transfer;             // by shell as in Spectra, sums over modes: they add up to 0
  Slice enstrophy;
  std::vector<T> pressure;       // [z][y][x] on this rank, if keep_pressure
  std::int64_t extra_bytes = 0;  // bytes allocated on this rank in addition to the solver's
};

// (collective)
template <class T>
Statistics<T> statistics(State<T>& state, const Asked& asked);

}  // namespace weft::turbulence
