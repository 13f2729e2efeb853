// How many blocks a multiprocessor should hold: for WEFT_MIN_BLOCKS of dialect.hpp.
#pragma once

#if defined(__CUDA_ARCH__)
constexpr int architecture = __CUDA_ARCH__;
#else
constexpr int architecture = 900;
#endif
constexpr bool sm_80 = architecture < 900, sm_90 = architecture == 900, sm_100 = architecture >= 1000;

// At most 16, so that each thread has `budget` of the 65536 registers.
template <int threads, int budget>
constexpr int wanted_blocks = 65536 / ((threads + 31) / 32 * 32 * budget);
template <int threads, int budget>
constexpr int blocks_for = wanted_blocks<threads, budget> < 1    ? 1
                           : wanted_blocks<threads, budget> > 16 ? 16
                                                                 : wanted_blocks<threads, budget>;
