"""The four workloads of `weft run` have the same structure, and a run of one imports nothing of the others."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import typing
from pathlib import Path
from types import SimpleNamespace

import pytest
from mpi4py import MPI
from mpi_run import finish, start

from weft import device
from weft.cases import WORKLOADS
from weft.run import machine
from weft.run.record import Display, Result

FOLDER = Path(__file__).parents[2] / "python" / "weft" / "run"
# The smallest case of each.
SMALL = {
    "poisson": ["mesh.counts=[2,2,1]", "order=2", "solver.iterations=2"],
    "maxwell": ["mesh.counts=[2,2,1]", "order=2", "time.steps=2", "output.slice=none"],
    "flow": ["mesh.counts=[2,2,1]", "mesh.periodic=[true,true,true]", "order=2", "time.steps=2", "time.dt=0.01",
             "output.slice=none", "initial.velocity=[1,0,0]"],
    "turbulence": ["grid=8", "time.steps=2", "output.slice=false"],
}  # fmt: skip


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_every_workload_has_the_same_function_and_files_of_the_same_names(workload: str) -> None:
    run = importlib.import_module(f"weft.run.{workload}.loop").run
    assert list(inspect.signature(run).parameters) == ["case", "display"]
    kinds = typing.get_type_hints(run)
    assert (kinds["display"], kinds["return"]) == (Display, Result)
    names = {file.name for file in (FOLDER / workload).glob("*.py")}
    assert {"__init__.py", "problem.py", "loop.py", "figures.py", "output.py"} <= names


@pytest.mark.parametrize("workload", ["maxwell", "flow", "turbulence"])
def test_every_solver_in_time_saves_restores_and_has_statistics_in_the_same_way(workload: str) -> None:
    solver = importlib.import_module(f"weft.{workload}").Solver
    for method, first in (("save", "folder"), ("restore", "path")):
        assert list(inspect.signature(getattr(solver, method)).parameters)[1] == first
    assert {"keep", "text"} <= set(inspect.signature(solver.save).parameters)
    assert typing.get_type_hints(solver.statistics)["return"] == dict[str, float]
    assert callable(importlib.import_module(f"weft.{workload}_output").describe)


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_a_run_imports_nothing_of_other_workloads(workload: str, tmp_path) -> None:
    words = [word for text in SMALL[workload] for word in ("--set", text)]
    code = f"""
import json, sys
from weft.cli.main import weft_command
words = ["run", {workload!r}, "--device", "host", "--quiet", "--output", {str(tmp_path)!r}, *{words!r}]
assert not weft_command.main(words, standalone_mode=False)
print(json.dumps(sorted(name for name in sys.modules if name.partition(".")[0] == "weft")))
"""
    done = finish(start([sys.executable, "-c", code]))
    assert done.returncode == 0, done.stderr
    modules = json.loads(done.stdout.splitlines()[-1])
    assert f"weft.run.{workload}.loop" in modules
    others = [other for other in WORKLOADS if other != workload]
    foreign = [name for name in modules if not name.startswith("weft._weft") and any(o in name for o in others)]
    assert not foreign
    assert not [name for name in modules if name.startswith(("weft.bench", "weft.traces"))]


@pytest.mark.parametrize("workload", ["maxwell", "flow", "turbulence"])
@pytest.mark.parametrize("plots", [True, False])
def test_a_run_draws_plots_unless_told_otherwise(workload: str, plots: bool, tmp_path) -> None:
    words = [word for text in SMALL[workload] for word in ("--set", text)]
    words += [] if plots else ["--set", "output.plots=false"]
    done = finish(start([sys.executable, "-m", "weft.cli.main", "run", workload, "--output", str(tmp_path), *words]))
    assert done.returncode == 0, done.stderr
    assert bool(list(tmp_path.glob("*.png"))) == plots


def test_the_bandwidth_is_announced_only_where_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow and turbulence leave the measurement out on GPUs, and where the size that was asked for is wrong."""
    host, said = device.open("host"), []
    monkeypatch.setenv("WEFT_BANDWIDTH_BYTES", str(1 << 20))
    assert machine.rates_beside(SimpleNamespace(is_host=False), "double", MPI.COMM_SELF, said.append) is None
    assert said == []
    assert machine.rates_beside(host, "double", MPI.COMM_SELF, said.append) is not None
    assert said == [machine.MEASURING]
    monkeypatch.setenv("WEFT_BANDWIDTH_BYTES", "much")
    assert machine.rates_beside(host, "double", MPI.COMM_SELF, said.append) is None
    assert said == [machine.MEASURING]
