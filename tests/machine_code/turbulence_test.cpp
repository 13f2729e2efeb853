// Turbulence on machine code in single precision; in double precision gpu_turbulence_mpi_test.cpp does this.
#include "../cpp/turbulence_checks.hpp"
#include "on_machine_code.hpp"

using namespace weft;

using SingleTurbulence = machine_code::OnMachineCode<>;

TEST_F(SingleTurbulence, StochasticForcing) {
  test::run_turbulence<float>("cuda", test::stochastic_turbulence(), {1, 1});
}
TEST_F(SingleTurbulence, BandForcing) { test::run_turbulence<float>("cuda", test::band_turbulence(), {1, 1}); }
