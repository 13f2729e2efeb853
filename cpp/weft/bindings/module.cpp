// The extension module weft._weft: one line per part. Arrays pass without copies; long calls release the GIL.
#include <nanobind/nanobind.h>

#include "weft/bindings/bindings.hpp"

NB_MODULE(_weft, m) {
  m.doc() = "weft's C++ core; use the package weft, not this module";
  weft::bindings::bind_device(m);
  weft::bindings::bind_mpi(m);
  weft::bindings::bind_trace(m);
  weft::bindings::bind_exchange(m);
  weft::bindings::bind_fft(m);
  weft::bindings::bind_poisson(m);
  weft::bindings::bind_flow(m);
  weft::bindings::bind_flow_statistics(m);
  weft::bindings::bind_flow_output(m);
  weft::bindings::bind_maxwell(m);
  weft::bindings::bind_maxwell_output(m);
  weft::bindings::bind_mesh(m);
  weft::bindings::bind_bench(m);
  weft::bindings::bind_turbulence(m);
  weft::bindings::bind_turbulence_output(m);
  weft::bindings::bind_program(m);
}
