"""Output of flows: a restart equals the uninterrupted run, averages are correct, fields and Nek files read back."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import textwrap
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from flow_with_state import fields, make, same
from mpi_run import finish, mpi_prints, run_weft, start, wait_until
from test_mesh_fields import read_vtu

import weft
from weft.cases import FlowCase
from weft.cases.schema import load
from weft.errors import CaseError
from weft.flow_output import FieldSeries, describe
from weft.mesh import MeshError
from weft.mpi import CollectiveError

IMPORT = """
    import sys
    sys.path.insert(0, sys.argv[2])
    import numpy as np
    import weft
    from flow_with_state import make, same
"""
HERE = str(Path(__file__).parent)


@pytest.mark.parametrize("precision", ["double", "single"])
def test_a_restart_equals_the_run_that_went_on_bit_for_bit(tmp_path, precision):
    went_on = make(precision=precision)
    for steps in (1, 3):  # in the ramp of orders, and after it
        went_on.step(steps)
        path = went_on.save(tmp_path, text='{"order": 4}')
        restarted = make(precision=precision)
        found = restarted.restore(path)
        assert (found.step, found.time, found.order, found.text) == (went_on.steps, went_on.time, 4, '{"order": 4}')
        assert found.precision == precision
        assert found == describe(tmp_path)
        assert same(went_on, restarted)
        went_on.step(2)
        went_on.step(1, dt=0.007)
        restarted.step(2)
        restarted.step(1, dt=0.007)
        assert (went_on.time, went_on.steps) == (restarted.time, restarted.steps)
        assert same(went_on, restarted)
        assert went_on.figures == restarted.figures


def test_a_restart_in_the_same_solver_goes_back(tmp_path):
    solver = make()
    solver.step(2)
    solver.save(tmp_path)
    solver.step(3)
    first = fields(solver)
    solver.restore(tmp_path)
    assert solver.steps == 2
    solver.step(3)
    assert all(np.array_equal(a, b) for a, b in zip(first, fields(solver), strict=True))


def test_on_several_ranks_a_restart_is_bit_equal_and_other_ranks_go_on_to_the_solvers_tolerance(tmp_path):
    code = (
        IMPORT
        + """
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    went_on = make()
    went_on.start_averages()
    went_on.step(3)
    went_on.save(sys.argv[1])
    went_on.step(2)
    restarted = make()
    restarted.restore(sys.argv[1])
    restarted.start_averages()
    restarted.step(2)
    assert same(went_on, restarted), "bit-equal"
    assert np.array_equal(went_on.averages().stress, restarted.averages().stress), "averages"
    for ranks in range(1, world.size):
        comm = world.Split(0 if world.rank < ranks else MPI.UNDEFINED, world.rank)
        if comm != MPI.COMM_NULL:
            other = make(comm)
            other.restore(sys.argv[1])
            other.step(2)
            total = comm.allreduce(float((other.velocity() ** 2).sum()))
        expected = world.allreduce(float((went_on.velocity() ** 2).sum()))
        if comm != MPI.COMM_NULL:
            assert abs(total - expected) < 1e-6 * expected, (ranks, total, expected)
    said = ""
    try:
        restarted.restore(sys.argv[1] + "/none")
    except weft.mpi.CollectiveError as error:
        said = str(error)
    texts = world.allgather(said)
    assert "none: no such checkpoint" in said and set(texts) == {said}, texts
    """
    )
    mpi_prints(3, code, str(tmp_path), HERE)


def test_averages_are_those_of_the_steps(tmp_path):
    solver = make()
    with pytest.raises(RuntimeError, match="start_averages"):
        solver.averages()
    solver.step(1)
    solver.start_averages(every=2)
    weights, samples = [], []
    last = since = solver.time
    for k in range(6):
        solver.step(1, dt=0.01 + 0.002 * k)
        if solver.steps % 2 == 0:
            weights.append(solver.time - last)
            last = solver.time
            samples.append(np.concatenate([solver.velocity(), [solver.pressure(), solver.scalar("T")]]))
    found = solver.averages()
    assert (found.since, found.until, found.samples) == (since, last, 3)
    mean = np.average(samples, axis=0, weights=weights)
    assert found.velocity == pytest.approx(mean[:3], abs=1e-13)
    assert found.pressure == pytest.approx(mean[3], abs=1e-13)
    assert found.scalars["T"] == pytest.approx(mean[4], abs=1e-13)
    apart = [x - mean for x in samples]

    def covariance(i, j):
        return np.average([a[i] * a[j] for a in apart], axis=0, weights=weights)

    for k, (i, j) in enumerate([(0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (0, 2)]):
        assert found.stress[k] == pytest.approx(covariance(i, j), abs=1e-13)
    assert found.pressure_variance == pytest.approx(covariance(3, 3), abs=1e-13)
    assert found.scalar_variance["T"] == pytest.approx(covariance(4, 4), abs=1e-13)
    assert found.scalar_flux["T"] == pytest.approx(np.array([covariance(i, 4) for i in range(3)]), abs=1e-13)
    written = read_vtu(solver.write_fields(tmp_path / "averages", averages=True, precision="double"))
    assert written["reynolds_stress"].shape[1] == 6
    assert written["mean_velocity"].max() == pytest.approx(found.velocity.max(), rel=1e-3)
    assert set(written) > {"mean_pressure", "pressure_variance", "mean_T", "variance_T", "flux_T"}
    # Averages continue if a checkpoint has them, start anew on request, and are ignored by runs without averages.
    solver.save(tmp_path)
    other = make()
    other.restore(tmp_path)
    other.start_averages(every=2)
    assert other.averages().samples == 3
    assert np.array_equal(other.averages().stress, found.stress)
    other.start_averages()
    with pytest.raises(RuntimeError, match="start_averages"):
        other.averages()
    without = make()
    without.restore(tmp_path)
    without.save(tmp_path / "more")
    assert "averages" not in describe(tmp_path / "more").fields


def test_vorticity_is_the_curl():
    mesh = weft.Mesh.box(3, upper=2 * np.pi, periodic=True)
    solver = weft.flow.Solver(mesh, order=9, viscosity=1.0, dt=0.1)
    solver.set_velocity(lambda x, y, z, t: (np.sin(y) * np.cos(z), np.sin(z), np.cos(x)))
    x, y, z = solver.coordinates()
    expected = [-np.cos(z), -np.sin(y) * np.sin(z) + np.sin(x), -np.cos(y) * np.cos(z)]
    assert solver.vorticity() == pytest.approx(np.array(expected), abs=2e-4)


def test_a_series_lists_what_it_wrote_and_a_restart_goes_on_with_it(tmp_path):
    solver = make(order=2)
    solver.step(1)
    series = FieldSeries(tmp_path, solver.comm, nek=True)
    times = []
    for _ in range(3):
        solver.step(1)
        vtk, nek = series.write(solver)
        times.append(solver.time)
        written = read_vtu(vtk)
        assert written["velocity"].dtype == np.float32
        assert {"velocity", "pressure", "T", "vorticity"} < set(written)
    assert (vtk.name, nek.name) == ("flow-00000004.vtu", "flow0.f00003")

    def listed():
        nodes = ET.parse(tmp_path / "flow.pvd").getroot().iter("DataSet")
        return [(float(n.attrib["timestep"]), n.attrib["file"]) for n in nodes]

    assert [t for t, _ in listed()] == times
    assert all((tmp_path / file).exists() for _, file in listed())
    assert (tmp_path / "flow.nek5000").read_text().splitlines()[1:] == ["firsttimestep: 1", "numtimesteps: 3"]
    # From the second of them on again.
    again = FieldSeries(tmp_path, solver.comm, nek=True, since=times[1])
    assert again.write(solver)[1].name == "flow0.f00003"
    assert [t for t, _ in listed()] == [times[0], times[1], solver.time]
    # A new run begins the series anew, and damaged lists do no harm.
    (tmp_path / "flow.pvd").write_text("<VTKFile>")
    (tmp_path / "flow0.f00002").write_text("")
    damaged = FieldSeries(tmp_path, solver.comm, nek=True, since=times[1])
    assert damaged.write(solver)[1].name == "flow0.f00002"
    FieldSeries(tmp_path, solver.comm).write(solver)
    assert [t for t, _ in listed()] == [solver.time]


def test_a_flow_begins_from_a_nek_file_of_another_order(tmp_path):
    solver = make(order=5)
    solver.step(3)
    path = solver.write_nek(tmp_path / "a0.f00001", precision="double")
    same_order = make(order=5)
    same_order.read_nek(path)
    assert (same_order.time, same_order.steps) == (solver.time, 3)
    assert same(solver, same_order)
    finer = make(order=7)
    finer.read_nek(path, time=0.0)
    assert (finer.time, finer.steps) == (0.0, 0)
    assert (finer.velocity() ** 2).mean() == pytest.approx((solver.velocity() ** 2).mean(), rel=0.1)
    finer.step(1)
    assert np.isfinite(finer.velocity()).all()
    from weft.mesh_io.nek_fields import NekFields, write_nek

    nothing = write_nek(tmp_path / "b0.f00001", solver.mesh, 5, NekFields(pressure=solver.pressure()))
    with pytest.raises(MeshError, match="no velocity to start from"):
        solver.read_nek(nothing)


def test_what_cannot_be_restored_is_an_error_that_says_why(tmp_path):
    solver = make(order=2)
    solver.step(1)
    path = Path(solver.save(tmp_path))
    with pytest.raises(CollectiveError, match="no such checkpoint"):
        solver.restore(tmp_path / "none")
    mesh = weft.Mesh.box((2, 2, 3), upper=(2, 2, 4), periodic=True)
    other = weft.flow.Solver(mesh, order=2, viscosity=0.02)
    with pytest.raises(CollectiveError, match="of another mesh"):
        other.restore(tmp_path)
    (path / "flow.bin").write_bytes(b"something else, long enough")
    with pytest.raises(CollectiveError, match="not a checkpoint of weft's flow"):
        solver.restore(tmp_path)
    shutil.rmtree(path)
    with pytest.raises(CollectiveError, match="neither a checkpoint of weft's flow nor a folder with checkpoints"):
        solver.restore(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(CollectiveError):
        solver.save(tmp_path / "file")
    with pytest.raises(ValueError, match="at least 1"):
        solver.start_averages(0)


def test_a_run_that_is_killed_while_it_writes_leaves_a_checkpoint_to_continue_from(tmp_path):
    code = (
        IMPORT
        + """
    solver = make(order=3)
    while True:
        solver.step(1)
        solver.save(sys.argv[1])
        print(solver.steps, flush=True)
    """
    )
    words = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path), HERE]
    for kill in range(3):
        process = start(words)
        wait_until(lambda: process.said("out").count("\n") >= 2, process)  # noqa: B023
        time.sleep(0.013 * kill)
        process.send_signal(signal.SIGKILL)
        finish(process)
        solver = make(order=3)
        found = solver.restore(tmp_path)
        assert found.step >= 2
        solver.step(1)
        assert np.isfinite(solver.velocity()).all()


def test_a_case_begins_from_a_nek_file_of_another_order(tmp_path):
    mesh = weft.Mesh.box(2, upper=2 * np.pi, periodic=True)
    solver = weft.flow.Solver(mesh, order=6, viscosity=0.1)
    solver.set_velocity(("2 * sin(x) * cos(y)", "-2 * cos(x) * sin(y)", 0.0))
    file = solver.write_nek(tmp_path / "a0.f00001")
    words = ["run", "flow", "--case", "taylor-green", "--set", "mesh.counts=[2,2,2]", "--device", "host", "--quiet",
             "--set", "output.slice=none", "--set", "time.warmup=0", "--order", 5, "--steps", 1,
             "--exchange", "pairwise:direct"]  # fmt: skip
    done = run_weft(2, *words, "--set", f"initial.nek={file}", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    first = json.loads((tmp_path / "run.json").read_text())["statistics"]["history"][0]
    assert (first["step"], first["time"]) == (0, 0.0)
    assert first["energy"] == pytest.approx(1.0, rel=1e-2)
    with pytest.raises(CaseError, match="allowed: one of them"):
        load(FlowCase, "taylor-green", {"initial.nek": str(file), "initial.checkpoint": str(tmp_path)})
