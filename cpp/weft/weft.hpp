// weft's API for other C++ codes: devices, communicators, the exchange layer, Fourier transforms and the recorder.
//
// Only these headers, and those they include, are installed. The rest of the library is internal and may change without
// notice.
#pragma once

#include "weft/device/device.hpp"
#include "weft/exchange/exchange.hpp"
#include "weft/exchange/gather_scatter.hpp"
#include "weft/fft/plan.hpp"
#include "weft/fft/tuner.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/mpi/gpu_aware.hpp"
#include "weft/trace/recorder.hpp"
