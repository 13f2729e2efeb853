// What weft offers to other C++ codes: devices, communicators, the exchange layer, Fourier transforms and the recorder.
//
// These headers, and those they include, are the only ones that an installation has; the rest of the library is for
// weft's own use and changes without notice.
#pragma once

#include "weft/device/device.hpp"
#include "weft/exchange/exchange.hpp"
#include "weft/exchange/gather_scatter.hpp"
#include "weft/fft/plan.hpp"
#include "weft/fft/tuner.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/mpi/gpu_aware.hpp"
#include "weft/trace/recorder.hpp"
