"""A run does what the user asks for, or refuses with one line that says why: it ignores and renames nothing."""

from __future__ import annotations

import csv
import json
import math

import pytest
from mpi4py import MPI
from mpi_run import COMPILING, messages, run_weft

import weft
from weft.cases import CaseError, FlowCase, MaxwellCase, PoissonCase, TurbulenceCase, load
from weft.cases.shared import ElementCase
from weft.mpi import CollectiveError
from weft.report.console import Silent
from weft.run.elements import box_counts, conditions
from weft.run.flow.memory import least_bytes as flow_bytes
from weft.run.flow.problem import Problem as Flow
from weft.run.flow.problem import make_mesh as flow_mesh
from weft.run.flow.values import Values
from weft.run.folder import require_own
from weft.run.maxwell.memory import least_bytes as maxwell_bytes
from weft.run.maxwell.problem import Problem as Maxwell
from weft.run.maxwell.problem import make_mesh as maxwell_mesh
from weft.run.maxwell.problem import time_step
from weft.run.poisson.memory import least_bytes as poisson_bytes
from weft.run.poisson.problem import make_mesh, make_operator
from weft.run.turbulence.loop import run as run_turbulence
from weft.run.turbulence.problem import longest_dt

COMM = MPI.COMM_SELF


def one_line(*words: object) -> str:
    """The message of weft for a command that fails."""
    done = run_weft(1, *words)
    assert done.returncode != 0
    said = messages(done.stderr)
    assert len(said) == 1, done.stderr
    return said[0]


# --- time ----------------------------------------------------------------------------------------------------------


def test_a_case_that_runs_to_a_time_takes_the_steps_of_the_command_line(tmp_path) -> None:
    words = ["--case", "rayleigh-benard", "--order", 2, "--steps", 3, "--quiet", "--output", tmp_path]
    done = run_weft(1, "run", "flow", *words)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run.json").read_text())["figures"]["steps_done"] == 3


def test_a_time_that_no_run_reaches_is_refused() -> None:
    case = load(MaxwellCase, None, {"time.end": 1e300})
    with pytest.raises(CollectiveError, match=r"'time.end': 1.1e\+302 time steps of 0.009 are needed"):
        time_step(case, 0.01)


def test_decaying_turbulence_ends_at_its_time_with_steps_that_stay_short(tmp_path) -> None:
    keys = ["grid=12", "time.end=30", "viscosity=0.5", "statistics.every=1", "output.slice=false"]
    case = load(TurbulenceCase, "decaying", {"device": "host", "output.directory": str(tmp_path)}, keys)
    assert run_turbulence(case, Silent()).record["figures"]["final_time"] == 30.0
    with (tmp_path / "statistics.csv").open(newline="") as file:
        steps = [float(row["dt"]) for row in csv.DictReader(file)][1:]
    longest = (2 * math.pi / 12) ** 2 / 0.5
    assert max(steps) == pytest.approx(longest), "diffusion across a cell limits the steps"
    assert min(steps[-2:]) > 0.4 * longest, "the last step is not a tiny one"


def test_the_longest_step_of_turbulence_is_the_cases() -> None:
    for assignment, longest in (("time.max_dt=0.25", 0.25), ("viscosity=0", 0.0)):
        case = load(TurbulenceCase, "decaying", {}, [assignment])
        assert isinstance(case, TurbulenceCase)
        assert longest_dt(case) == longest


# --- resolution ----------------------------------------------------------------------------------------------------


class Heard(Silent):
    """A display that keeps the warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def test_turbulence_that_the_grid_does_not_resolve_is_warned_of_once(tmp_path) -> None:
    keys = ["grid=12", "statistics.every=1", "output.slice=false", f"output.directory={tmp_path}"]
    for viscosity, times in ((0.004, 1), (1.0, 0)):
        heard = Heard()
        case = load(TurbulenceCase, "decaying", {"time.steps": 3, "device": "host", "viscosity": viscosity}, keys)
        assert isinstance(case, TurbulenceCase)
        run_turbulence(case, heard)
        assert len([text for text in heard.warnings if text.startswith("kmax eta = ")]) == times


# --- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["velocity", "pressure", "vorticity", "u", "v", "w", "speed", "Pressure", "none"])
def test_a_scalar_cannot_take_the_name_of_a_field_of_the_flow(name: str) -> None:
    with pytest.raises(CaseError, match=f"'scalars.{name}': '{name}' cannot be the name of a scalar"):
        load(FlowCase, None, {}, [f"scalars.{name}.initial=1"])


def test_the_solver_refuses_a_scalar_that_files_would_confuse_with_its_own_field() -> None:
    with pytest.raises(ValueError, match="'velocity' cannot be the name of a scalar"):
        weft.flow.Solver(
            weft.Mesh.box(2, periodic=True, comm=COMM), 2, viscosity=1.0, scalars={"velocity": weft.flow.Scalar(1.0)}
        )


def test_all_boundaries_without_a_condition_are_named_at_once() -> None:
    mesh = weft.Mesh.box(2, periodic=[False, False, True], comm=COMM)
    with pytest.raises(CollectiveError) as caught:
        conditions(mesh, {"x-": "wall"}, {}, ("wall", "outflow"))
    text = str(caught.value)
    assert "no condition for 3 of its 4 boundaries" in text
    for name in ("x+", "y-", "y+", "*"):
        assert f"'boundaries.{name}'" in text
    with pytest.raises(CollectiveError, match=r"boundary 'y\+' of box 2 x 2 x 2 has no condition"):
        conditions(mesh, dict.fromkeys(("x-", "x+", "y-"), "wall"), {}, ("wall", "outflow"))


# --- functions and folders -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["import sys\nsys.exit(0)\n", "def f(x, y, z):\n    raise SystemExit\n"])
def test_a_python_file_that_exits_is_an_error_and_not_the_end_of_the_run(tmp_path, text: str) -> None:
    (tmp_path / "f.py").write_text(text)
    keys = ["initial.velocity=python:f", f"functions.file={tmp_path / 'f.py'}"]
    case = load(FlowCase, None, {}, keys)
    assert isinstance(case, FlowCase)

    def start() -> None:
        Values(case, COMM).three("initial.velocity", "python:f")([0.0], [0.0], [0.0])  # type: ignore[operator]

    with pytest.raises(ValueError, match=r"SystemExit(: 0)?$"):
        start()


def test_a_function_that_gives_nan_is_one_line_without_numpys_warnings_of_every_rank(tmp_path) -> None:
    (tmp_path / "f.py").write_text("import numpy as np\n\ndef f(x, y, z):\n    return np.sqrt(x - 0.5), 0 * x, 0 * x\n")
    settings = ["mesh.periodic=[true,true,true]", "mesh.counts=[3,1,1]", "initial.velocity=python:f",
                f"functions.file={tmp_path / 'f.py'}"]  # fmt: skip
    words = [word for setting in settings for word in ("--set", setting)]
    done = run_weft(3, "run", "flow", "--order", 2, "--steps", 1, "--output", tmp_path / "out", *words)
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if not line.startswith(COMPILING)]
    assert len(said) == 1, done.stderr
    assert "case key 'initial.velocity': the function returned values that are not finite at t = 0" in said[0]


@pytest.mark.parametrize("workload", ["flow", "maxwell", "turbulence"])
def test_a_folder_for_checkpoints_that_cannot_be_written_is_refused_at_the_start(tmp_path, workload: str) -> None:
    (tmp_path / "file").write_text("")
    output = tmp_path / "output"
    said = one_line(
        "run", workload, "--output", output, "--set", f"checkpoint.directory={tmp_path / 'file' / 'inside'}"
    )
    assert f"checkpoint.directory {tmp_path / 'file' / 'inside'}: cannot be written: Not a directory" in said
    assert not output.exists()


# --- size ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [(PoissonCase, make_mesh), (FlowCase, flow_mesh), (MaxwellCase, maxwell_mesh)])
@pytest.mark.parametrize("size", ["mesh.counts=[2000,2000,2000]", "mesh.points=9000000000000000"])
def test_a_mesh_that_does_not_fit_into_memory_is_refused_before_it_is_made(make, size: str) -> None:
    model, mesh = make
    with pytest.raises(CollectiveError, match=r"a mesh of [\d,]+ elements of order 7 needs at least [\d,.]+ GiB"):
        mesh(load(model, None, {"device": "host"}, [size]), COMM)


@pytest.mark.parametrize("side", ["mesh.shape=cylinder", "mesh.shape=sphere"])
def test_a_round_mesh_that_does_not_fit_into_memory_is_refused_before_it_is_made(side: str) -> None:
    case = load(MaxwellCase, None, {"device": "host"}, [side, "mesh.side=100000", "mesh.layers=100000"])
    assert isinstance(case, MaxwellCase)
    with pytest.raises(CollectiveError, match="needs at least"):
        maxwell_mesh(case, COMM)


def held(case: ElementCase) -> int:
    """The bytes that a solver of the case reports once it has run, without the arrays of its multigrid."""
    if isinstance(case, PoissonCase):
        operator = make_operator(case, make_mesh(case, COMM))
        operator.cg(operator.random_rhs(1), iterations=2)
        return sum(operator.memory_bytes.values())
    if isinstance(case, MaxwellCase):
        maxwell = Maxwell(case, maxwell_mesh(case, COMM))
        maxwell.begin()
        return sum(maxwell.solver.memory_bytes.values())
    assert isinstance(case, FlowCase)
    flow = Flow(case, flow_mesh(case, COMM))
    flow.begin()
    flow.solver.step(3, 1e-3)
    return sum(flow.solver.memory_bytes.values())


@pytest.mark.parametrize(
    ("model", "keys", "least"),
    [
        (PoissonCase, [], poisson_bytes),
        (PoissonCase, ["precision=single"], poisson_bytes),
        (PoissonCase, ["storage=scattered"], poisson_bytes),
        (PoissonCase, ["geometry=stored", "kernels=portable"], poisson_bytes),
        (MaxwellCase, [], maxwell_bytes),
        (FlowCase, ["mesh.periodic=[true,true,true]", "initial.velocity=[1,0,0]"], flow_bytes),
    ],
)
def test_the_required_memory_is_between_half_and_all_that_the_solver_holds(model, keys, least) -> None:
    case = load(model, None, {"device": "host"}, ["mesh.counts=[5,5,5]", "order=7", *keys])
    need = least(case, 125)
    assert 0.5 * held(case) < need <= held(case)


@pytest.mark.parametrize("order", [1, 7, 15])
@pytest.mark.parametrize("points", [8, 1000, 2_097_152, 10**9, 2**53])
def test_the_box_of_a_number_of_points_is_nearly_that_large_and_nearly_a_cube(points: int, order: int) -> None:
    counts = box_counts(points, order)
    elements = max(1, points / (order + 1) ** 3)
    assert math.prod(counts) == pytest.approx(elements, rel=0.35)
    assert counts[0] <= 2 * counts[2]


def test_fields_beyond_the_range_of_numbers_end_a_run_with_one_line(tmp_path) -> None:
    said = one_line(
        "run", "maxwell", "--case", "cavity", "--order", 3, "--steps", 5, "--quiet", "--output", tmp_path,
        "--set", "initial.amplitude=1e300",
    )  # fmt: skip
    assert "the energy of the fields is inf at time 0" in said


# --- residuals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["assembled", "scattered"])
def test_a_solve_whose_true_residual_misses_the_tolerance_has_not_converged(storage: str) -> None:
    mesh = weft.Mesh.box(2, comm=COMM)
    operator = weft.Poisson(mesh, 4, device="host", storage=storage, dirichlet=["x-"])
    b = operator.random_rhs(1)
    for tolerance, converged in ((1e-8, True), (1e-17, False)):
        result = operator.cg(b, tolerance=tolerance)
        assert result.residuals[-1] <= tolerance * result.residuals[0]
        assert result.converged is converged
        # The norm of the residual, computed here from its definition.
        r = operator.cg(b - operator.apply(result.x), iterations=1).residuals[0]
        assert result.true_residual == pytest.approx(r / result.residuals[0])


@pytest.mark.parametrize("solver", ["cg", "multigrid"])
def test_single_precision_reaches_a_tolerance_that_its_recurrence_misses(solver: str) -> None:
    operator = weft.Poisson(weft.Mesh.box(6, comm=COMM), 7, 0.0, device="host", precision="single", dirichlet=True)
    b = operator.random_rhs(1)
    result = operator.cg(b, tolerance=1e-6) if solver == "cg" else operator.multigrid(b, tolerance=1e-6)
    assert result.converged
    r = b.astype(float) - operator.apply(result.x)
    assert (r @ r) ** 0.5 <= 1.01e-6 * result.residuals[0]
    assert len(result.residuals) == result.iterations + 1


def test_multigrid_on_a_singular_problem_judges_the_part_of_the_residual_that_it_can_reduce() -> None:
    operator = weft.Poisson(weft.Mesh.box(2, periodic=True, comm=COMM), 4, lam=0.0, device="host")
    b = operator.random_rhs(1)
    result = operator.multigrid(b, tolerance=1e-9)
    assert result.converged
    assert result.true_residual <= 1.001e-9


def test_a_run_whose_true_residual_misses_the_tolerance_says_so_and_fails(tmp_path) -> None:
    said = one_line("run", "poisson", "--set", "mesh.points=1000", "--tolerance", "1e-17", "--output", tmp_path)
    assert "not converged: |b - A x| / |b| = " in said
    assert json.loads((tmp_path / "run.json").read_text())["figures"]["converged"] is False


# --- spelling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "near"),
    [(["model", "projct"], "project"), (["rum"], "run"), (["run", "posson"], "poisson"), (["bench", "fftt"], "fft")],
)
def test_a_misspelt_command_gets_a_suggestion(words: list[str], near: str) -> None:
    assert f"Did you mean '{near}'?" in one_line(*words)


# --- folders -------------------------------------------------------------------------------------------------------


def test_runs_of_different_workloads_never_share_a_folder(tmp_path) -> None:
    for model, workload in ((PoissonCase, "poisson"), (FlowCase, "flow"), (TurbulenceCase, "turbulence")):
        assert load(model).output.directory == f"weft-output/{workload}"
    for text, holds in (
        ('{"case": {"workload": "flow"}}', "a run of 'flow'"),
        ("[1]", "a run.json that is not weft's"),
    ):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(CollectiveError, match=f"holds {holds}; choose another folder"):
            require_own(tmp_path, "poisson", COMM)
    require_own(tmp_path / "new", "poisson", COMM)
    (tmp_path / "run.json").write_text('{"case": {"workload": "poisson"}}')
    require_own(tmp_path, "poisson", COMM)


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize(
    ("workload", "key", "settings"),
    [
        ("flow", "initial.velocity", ['initial.velocity=["log(x - 0.5)", 0, 0]', "mesh.periodic=[true,true,true]"]),
        ("flow", "scalars.heat.initial", ["scalars.heat.initial=sqrt(x - 0.5)", "mesh.periodic=[true,true,true]"]),
        ("maxwell", "initial.field", ["initial.field=expressions", "initial.ez=log(x - 0.5)"]),
    ],
)
def test_initial_fields_that_are_not_finite_are_one_line_that_names_the_key(
    tmp_path, workload: str, key: str, settings: list[str], ranks: int
) -> None:
    words = [part for setting in [*settings, "mesh.counts=[2,2,2]", "time.steps=2"] for part in ("--set", setting)]
    done = run_weft(ranks, "run", workload, "--order", 7, "--output", tmp_path / "out", *words)
    assert done.returncode == 1
    assert len(messages(done.stderr)) == 1
    assert f"case key '{key}': " in done.stderr
    assert "initial values are not finite numbers" in done.stderr
    assert not (tmp_path / "out").exists()
