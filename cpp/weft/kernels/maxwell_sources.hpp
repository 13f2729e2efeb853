// Terms that drive and damp Maxwell's equations at some points only: incident waves on faces, currents, absorbing
// layers.
//
// `clock` is the time in device memory, so that a step recorded once can be replayed (device/graph.hpp); `offset` is
// added to it.
#include "weft/kernels/dialect.hpp"

using real = WEFT_REAL;
constexpr int term_threads = 256;

// f(t) = sin(2 pi frequency s + phase) with s = t - delay. If width > 0, multiplied by exp(-(s / width)^2). If ramp >
// 0, multiplied by 0 for s <= 0, 1 for s >= ramp and sin^2(pi s / (2 ramp)) in between.
struct Pulse {
  double frequency, phase, delay, width, ramp;
};
WEFT_FUNCTION double pulse_at(const Pulse& pulse, double time) {
  constexpr double pi = 3.141592653589793238462643383279503;
  const double s = time - pulse.delay;
  double value = sin(2 * pi * pulse.frequency * s + pulse.phase);
  if (pulse.width > 0) value *= exp(-(s / pulse.width) * (s / pulse.width));
  if (pulse.ramp > 0 && s < pulse.ramp) {
    const double rise = s <= 0 ? 0 : sin(pi / 2 * s / pulse.ramp);
    value *= rise * rise;
  }
  return value;
}

// clock = time, clock += dt
WEFT_KERNEL(maxwell_set_clock, 32, (double time, double* clock)) {
  WEFT_THREADS(t, 32) {
    if (t == 0) *clock = time;
  }
}
WEFT_KERNEL(maxwell_advance_clock, 32, (double dt, double* clock)) {
  WEFT_THREADS(t, 32) {
    if (t == 0) *clock += dt;
  }
}

// traces[points[q]][c] += amplitudes[q][c] f(time - delays[q]) of `count` face points.
WEFT_KERNEL(maxwell_incident, term_threads,
            (long count, Pulse pulse, const double* WEFT_RESTRICT clock, double offset,
             const int* WEFT_RESTRICT face_points, const double* WEFT_RESTRICT delays,
             const real* WEFT_RESTRICT amplitudes, real* WEFT_RESTRICT traces, long trace_entry, long trace_field)) {
  WEFT_THREADS(t, term_threads) {
    const long q = static_cast<long>(WEFT_BLOCK) * term_threads + t;
    if (q < count) {
      const real f = static_cast<real>(pulse_at(pulse, *clock + offset - delays[q]));
      real* to = traces + face_points[q] * trace_entry;
      WEFT_UNROLL
      for (int c = 0; c < 6; ++c) to[c * trace_field] += f * amplitudes[q * 6 + c];
    }
  }
}

// residual[places[q]] += dt amplitudes[q] f(time) of `count` values.
WEFT_KERNEL(maxwell_current, term_threads,
            (long count, Pulse pulse, const double* WEFT_RESTRICT clock, double offset, real dt,
             const long* WEFT_RESTRICT places, const real* WEFT_RESTRICT amplitudes, real* WEFT_RESTRICT residual)) {
  WEFT_THREADS(t, term_threads) {
    const long q = static_cast<long>(WEFT_BLOCK) * term_threads + t;
    if (q < count) residual[places[q]] += dt * static_cast<real>(pulse_at(pulse, *clock + offset)) * amplitudes[q];
  }
}

// A perfectly matched layer: every d/dx is divided by s_x = 1 + sigma_x / (i omega) and so on, which a medium with the
// tensor s_y s_z / s_x of eps and mu does too (Gedney 1996). Of a component along x, with p its auxiliary variable:
//   rate  -= (sigma_y + sigma_z - sigma_x) u + p
//   dp/dt  = (sigma_x - sigma_y) (sigma_x - sigma_z) u - sigma_x p
// damping [element][3][points]: sigma_x, sigma_y, sigma_z; auxiliary and its residual [element][6][points]; elements:
// which of the fields' elements they are. With step = 0 the auxiliary variables stay as they are.
WEFT_KERNEL(maxwell_layer, term_threads,
            (long count, int points, int step, real a, real b, real dt, const int* WEFT_RESTRICT elements,
             const real* WEFT_RESTRICT damping, const real* WEFT_RESTRICT fields, real* WEFT_RESTRICT residual,
             real* WEFT_RESTRICT auxiliary, real* WEFT_RESTRICT auxiliary_residual)) {
  WEFT_THREADS(t, term_threads) {
    const long q = static_cast<long>(WEFT_BLOCK) * term_threads + t;
    if (q < count) {
      const long own = q / points, p = q % points;
      const long field = static_cast<long>(elements[own]) * 6 * points + p;
      const real* s = damping + own * 3 * points + p;
      const real sigma[3] = {s[0], s[points], s[2 * static_cast<long>(points)]};
      WEFT_UNROLL
      for (int c = 0; c < 6; ++c) {
        const real along = sigma[c % 3], first = sigma[(c + 1) % 3], second = sigma[(c + 2) % 3];
        const real u = fields[field + static_cast<long>(c) * points];
        const long place = (own * 6 + c) * points + p;
        const real held = auxiliary[place];
        residual[field + static_cast<long>(c) * points] -= dt * ((first + second - along) * u + held);
        if (step != 0) {
          const real rate = (along - first) * (along - second) * u - along * held;
          const real next = (a == real(0) ? real(0) : a * auxiliary_residual[place]) + dt * rate;
          auxiliary_residual[place] = next;
          auxiliary[place] = held + b * next;
        }
      }
    }
  }
}
