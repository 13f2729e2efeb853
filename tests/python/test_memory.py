"""The predicted memory of a turbulence run is what its solver holds, and the limit of a container is respected."""

from __future__ import annotations

import pytest
from mpi4py import MPI

from weft import _weft
from weft.cases import TurbulenceCase, load
from weft.run.turbulence.memory import predicted_bytes
from weft.run.turbulence.problem import Problem


@pytest.mark.parametrize("dealiasing", ["phase-shift", "two-thirds"])
@pytest.mark.parametrize("scheme", ["rk2", "rk4"])
@pytest.mark.parametrize("scalars", ["[]", "[1.0]"])
def test_the_predicted_memory_of_turbulence_is_what_its_solver_holds(dealiasing, scheme, scalars) -> None:
    settings = ["grid=40", "device=host", f"dealiasing={dealiasing}", f"time.scheme={scheme}",
                f"scalars.schmidt={scalars}", "scalars.gradient=[1.0, 0.0, 0.0]"]  # fmt: skip
    case = load(TurbulenceCase, assignments=settings)
    assert isinstance(case, TurbulenceCase)
    problem = Problem(case, MPI.COMM_SELF)
    problem.begin()
    problem.solver.step()
    assert sum(problem.solver.memory_bytes.values()) == pytest.approx(
        predicted_bytes(case, 1, problem.solver.device), rel=0.05
    )


def test_the_limit_of_a_container_counts_what_it_uses_but_for_files(tmp_path) -> None:
    def free_host_bytes() -> int:
        return _weft.device.free_host_bytes(str(tmp_path))

    without = free_host_bytes()
    assert without > 2**20
    (tmp_path / "memory.max").write_text("max\n")
    assert free_host_bytes() == pytest.approx(without, rel=0.5)
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 600000\nfile 100000\n")
    assert free_host_bytes() == 400000
    (tmp_path / "memory.max").write_text("500000\n")
    assert free_host_bytes() == 0
