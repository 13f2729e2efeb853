"""The Taylor-Green vortex at Re 1600 follows its 512^3 spectral reference as long as the mesh resolves it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
from weft import flow
from weft.cases import FlowCase, load
from weft.program import compiled

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "data" / "tgv" / "spectral_Re1600_512.gdiag"


@pytest.mark.skipif(not REFERENCE.exists(), reason=f"the reference data are not there: {REFERENCE}")
def test_energy_and_enstrophy_of_the_taylor_green_vortex_follow_the_reference_to_time_2():
    case = load(FlowCase, "taylor-green")
    assert isinstance(case, FlowCase)
    assert case.constants["nu"] == 1 / 1600
    assert (case.mesh.counts, case.order) == ((8, 8, 8), 7)
    mesh = weft.Mesh.box(case.mesh.counts, upper=case.mesh.upper, periodic=True)
    # Looser tolerances than the default suffice for the digits that are compared below.
    solver = flow.Solver(
        mesh, case.order, viscosity=case.constants["nu"], dt=0.025, pressure_tolerance=1e-5, velocity_tolerance=1e-6
    )
    solver.set_velocity([compiled(part, case.constants) for part in case.initial.velocity])
    time, energy, _, enstrophy = np.loadtxt(REFERENCE, comments="#").T  # the enstrophy is <omega . omega> / 2
    for _ in range(4):
        solver.step(20)
        found = solver.statistics()
        now = solver.time
        assert found["energy"] == pytest.approx(np.interp(now, time, energy), rel=1e-5)
        assert found["enstrophy"] / 2 == pytest.approx(np.interp(now, time, enstrophy), rel=3e-5)
        # dE/dt = -2 nu <S : S>, in a periodic box -nu <omega . omega>.
        assert found["dissipation"] == pytest.approx(found["vorticity_dissipation"], rel=1e-5)
        assert found["divergence"] < 2e-3
    assert solver.time == pytest.approx(2.0)
