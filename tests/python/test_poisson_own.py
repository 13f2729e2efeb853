"""`weft run poisson` solves -div(k grad u) = f with the values and fluxes of a case, at the accuracy of its order."""

from __future__ import annotations

import json

import numpy as np
import pytest
from mpi4py import MPI
from mpi_run import messages, run_weft

import weft
from weft.cases import CaseError, PoissonCase, load
from weft.mpi import CollectiveError
from weft.report.console import Silent
from weft.run.poisson.loop import run
from weft.run.poisson.own import OwnProblem

COMM = MPI.COMM_SELF

# u = sin x cos y + z with k = 2 + sin x: values on three boundaries and fluxes on three.
CASE = """
workload = "poisson"
rhs = "2 * k0(x)"
coefficient = "2 + a * sin(x)"
exact = "sin(x) * cos(y) + z"
order = {order}
parameters.a = 1
solver.tolerance = 1e-12
solver.preconditioner = "{preconditioner}"
solver.warmup = 0
[mesh]
counts = [2, 3, 2]
upper = [1, 1.5, 2]
deformation = "{deformation}"
[boundaries]
"x-" = {{ value = "exact" }}
"x+" = {{ flux = "(2 + sin(x)) * cos(x) * cos(y)" }}
"y-" = {{ value = "sin(x)  + z" }}
"y+" = {{ flux = "-(2 + sin(x)) * sin(x) * sin(y)" }}
"z-" = {{ flux = "-(2 + sin(x))" }}
"z+" = {{ value = "exact" }}
""".replace("2 * k0(x)", "2 * (2 + sin(x)) * sin(x) * cos(y) - cos(x)**2 * cos(y)")


def case_of(tmp_path, *assignments: str, order: int = 6, preconditioner: str = "jacobi", deformation: str = "none"):
    path = tmp_path / "own.toml"
    path.write_text(CASE.format(order=order, preconditioner=preconditioner, deformation=deformation))
    case = load(PoissonCase, str(path), {"device": "host", "output.directory": str(tmp_path / "out")}, assignments)
    assert isinstance(case, PoissonCase)
    return case


@pytest.mark.parametrize(
    ("preconditioner", "deformation", "assignments"),
    [
        ("jacobi", "none", []),
        ("multigrid", "none", []),
        ("jacobi", "none", ["kernels=portable"]),
        ("jacobi", "none", ["storage=scattered"]),
    ],
)
def test_the_error_of_a_problem_with_a_coefficient_values_and_fluxes_falls_exponentially(
    tmp_path, preconditioner: str, deformation: str, assignments: list[str]
) -> None:
    errors = [
        run(case_of(tmp_path, *assignments, order=order, preconditioner=preconditioner), Silent()).record["figures"][
            "l2_error"
        ]
        for order in (3, 5, 7)
    ]
    assert errors[0] < 1e-3
    assert errors[1] < errors[0] / 50
    assert errors[2] < 1e-7


def test_fluxes_and_values_hold_on_curved_elements_too(tmp_path) -> None:
    # The deformation leaves the sides of the box flat, so that the fluxes are those of the undeformed box.
    case = case_of(tmp_path, "mesh.deformation_parameter=0.02", order=9, deformation="smooth")
    assert run(case, Silent()).record["figures"]["l2_error"] < 1e-6


def test_multigrid_solves_a_coefficient_that_jumps_by_a_thousand_in_a_few_iterations(tmp_path) -> None:
    path = tmp_path / "jump.toml"
    path.write_text(
        'rhs = 1\nboundary = "dirichlet"\norder = 5\nmesh.counts = [4, 4, 4]\nmesh.upper = [1, 1, 1]\n'
        'coefficient = "where(x < 0.5, 1, 1000)"\nsolver = { tolerance = 1e-8, preconditioner = "multigrid" }\n'
    )
    case = load(PoissonCase, str(path), {"device": "host", "output.directory": str(tmp_path / "out")})
    figures = run(case, Silent()).record["figures"]
    assert figures["converged"]
    assert figures["iterations"] < 60


def test_where_boundaries_with_different_values_meet_their_mean_holds(tmp_path) -> None:
    path = tmp_path / "case.toml"
    path.write_text(
        "rhs = 0\norder = 2\nmesh.counts = [2, 1, 1]\nmesh.upper = [1, 1, 1]\nsolver.tolerance = 1e-8\n"
        '[boundaries]\n"x-" = { value = 1 }\n"y-" = { value = 3 }\n"*" = { flux = 0 }\n'
    )
    case = load(PoissonCase, str(path))
    mesh = weft.Mesh.box([2, 1, 1], comm=COMM)
    held = OwnProblem(case, mesh).held
    x, y, _ = np.moveaxis(mesh.point_coordinates(2).reshape(2, 3, 3, 3, 3), -1, 0)
    expected = np.select([(x == 0) & (y == 0), x == 0, y == 0], [2.0, 1.0, 3.0], 0.0)
    np.testing.assert_allclose(held, expected)


def test_fields_functions_of_a_file_and_two_ranks(tmp_path) -> None:
    (tmp_path / "f.py").write_text("import numpy as np\n\ndef f(x, y, z):\n    return np.ones_like(x)\n")
    words = ["--tolerance", "1e-10", "--order", 3, "--set", "mesh.counts=[2,2,2]", "--set", "boundary=dirichlet",
             "--set", "output.fields=true", "--set", "rhs=python:f", "--set", f"functions.file={tmp_path / 'f.py'}",
             "--quiet", "--output", tmp_path]  # fmt: skip
    done = run_weft(2, "run", "poisson", *words)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "solution.pvtu").read_text()
    assert all(f'Name="{name}"' in text for name in ("u", "rhs", "coefficient"))
    assert json.loads((tmp_path / "run.json").read_text())["figures"]["converged"]
    (tmp_path / "f.py").write_text("def f(x, y, z):\n    return 1 / 0\n")
    done = run_weft(2, "run", "poisson", *words)
    assert done.returncode == 1
    assert len(messages(done.stderr)) == 1
    assert "case key 'rhs': the function failed: ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (["rhs=sinn(x)"], "'rhs'.*allowed too: random, unit, manufactured"),
        (["rhs=x"], "'solver.tolerance': found 0.0"),
        (["rhs=x", "solver.tolerance=1e-8", "lambda=2"], "'lambda': found 2.0, but it multiplies the identity"),
        (["rhs=t", "solver.tolerance=1e-8"], "'rhs': found 't'"),
        (["coefficient=2"], "'coefficient': given with rhs = 'random'"),
        (["boundaries.x-.value=2"], "'boundaries.x-.value': given with rhs = 'random'"),
        (["boundaries.x-.value=2", "boundaries.x-.flux=2", "rhs=1"], "allowed: one of them"),
        (["rhs=1", "solver.tolerance=1e-8", "boundaries.x-.value=exact"], "exact is not set"),
        (["rhs=1", "solver.tolerance=1e-8"], "'lambda': found 0.0, but with boundary"),
        (["screening=1"], "'screening': given with rhs = 'random'"),
        (
            ["rhs=1", "solver.tolerance=1e-8", "screening=1", "solver.algorithm=merged"],
            "does not support a screening term",
        ),
        (["rhs=python:f", "solver.tolerance=1e-8"], "functions.file, which has to be set"),
        (["rhs=1", "solver.tolerance=1e-8", "coefficient=2", "geometry=trilinear", "boundary=dirichlet"], "'geometry'"),
    ],
)
def test_a_problem_that_does_not_hold_together_is_one_line_that_names_the_key(keys: list[str], text: str) -> None:
    with pytest.raises(CaseError, match=text) as caught:
        load(PoissonCase, None, {}, keys)
    assert "\n" not in str(caught.value)


def test_a_coefficient_that_is_not_positive_and_an_exact_solution_up_to_a_constant_are_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"the coefficient is -1 at \("):
        weft.Poisson(weft.Mesh.box(2, comm=COMM), 2, device="host", coefficient=lambda x, y, z: -1 + 0 * x)
    with pytest.raises(ValueError, match=r"the screening is -1 at \("):
        weft.Poisson(weft.Mesh.box(2, comm=COMM), 2, device="host", screening=lambda x, y, z: -1)
    keys = ["rhs=0", "exact=x", "solver.tolerance=1e-8", "solver.preconditioner=multigrid"]
    case = load(PoissonCase, None, {}, keys)
    assert isinstance(case, PoissonCase)
    with pytest.raises(CollectiveError, match="known up to a constant only"):
        OwnProblem(case, weft.Mesh.box(2, comm=COMM))


@pytest.mark.parametrize(
    "assignments",
    [
        ["solver.preconditioner=none"],
        ["solver.preconditioner=jacobi", "kernels=portable"],
        ["storage=scattered"],
        ["solver.preconditioner=multigrid"],
    ],
)
def test_the_error_of_a_problem_with_a_screening_term_falls_exponentially(tmp_path, assignments: list[str]) -> None:
    errors = []
    for order in (3, 5, 7):
        # c = 1 + x^2 and no value on any boundary: without the term the problem would be singular.
        keys = [f"order={order}", "mesh.counts=[2,2,2]", "mesh.upper=[1,1,1]", "screening=1 + x**2",
                "rhs=(3 * pi**2 + 1 + x**2) * cos(pi*x) * cos(pi*y) * cos(pi*z)", "solver.tolerance=1e-12",
                "exact=cos(pi*x) * cos(pi*y) * cos(pi*z)", f"output.directory={tmp_path}", *assignments]  # fmt: skip
        case = load(PoissonCase, None, {"device": "host"}, keys)
        assert isinstance(case, PoissonCase)
        figures = run(case, Silent()).record["figures"]
        assert figures["converged"]
        errors.append(figures["l2_error"])
    assert errors[1] < errors[0] / 20
    assert errors[2] < errors[1] / 20
    assert errors[2] < 1e-5


def test_multigrid_solves_a_screening_that_differs_by_place(tmp_path) -> None:
    keys = ["order=5", "mesh.counts=[3,3,3]", "mesh.upper=[1,1,1]", "screening=where(x < 0.5, 0, 100)", "rhs=1",
            "solver.tolerance=1e-8", "solver.preconditioner=multigrid", f"output.directory={tmp_path}"]  # fmt: skip
    case = load(PoissonCase, None, {"device": "host"}, keys)
    assert isinstance(case, PoissonCase)
    figures = run(case, Silent()).record["figures"]
    assert figures["converged"]
    assert figures["iterations"] < 100


def test_a_coefficient_that_jumps_between_elements_leaves_no_error(tmp_path) -> None:
    keys = ["rhs=0", "order=3", "mesh.counts=[2,1,1]", "mesh.upper=[1,1,1]", "coefficient=where(x < 0.5, 1, 3)",
            "exact=where(x < 0.5, 1.5 * x, 0.5 + 0.5 * x)", "boundaries.x-.value=0", "boundaries.x+.value=1",
            "solver.tolerance=1e-14", f"output.directory={tmp_path}"]  # fmt: skip
    case = load(PoissonCase, None, {"device": "host"}, keys)
    assert isinstance(case, PoissonCase)
    assert run(case, Silent()).record["figures"]["l2_error"] < 1e-13


def test_sources_and_fluxes_that_do_not_balance_are_refused_where_no_value_is_given() -> None:
    keys = ["solver.tolerance=1e-8", "solver.preconditioner=multigrid", "order=4"]
    mesh = weft.Mesh.box((2, 3, 1), comm=COMM)
    for given, share in (
        (["rhs=1"], "100 %"),
        (["rhs=x"], "100 %"),
        (["rhs=x - 0.5"], None),
        (["rhs=0", "boundaries.x-.flux=1"], "100 %"),
        (["rhs=0", "boundaries.x-.flux=1", "boundaries.x+.flux=-1"], None),
        (["rhs=1", "boundaries.x+.flux=-1"], None),
        (["rhs=1", "boundaries.x+.flux=-0.99"], r"0\.\d+ %"),
        (["rhs=1", "screening=1"], None),
        (["rhs=1", "boundaries.x-.value=0"], None),
    ):
        case = load(PoissonCase, None, {"device": "host"}, [*keys, *given])
        assert isinstance(case, PoissonCase)
        own = OwnProblem(case, mesh)
        operator = own.make_operator()
        if share is None:
            assert np.isfinite(own.right_hand_side(operator)).all()
        else:
            with pytest.raises(CollectiveError, match=rf"'rhs': .*must add up to 0, but their sum is {share}"):
                own.right_hand_side(operator)


def test_the_imbalance_of_a_right_hand_side_does_not_depend_on_the_storage() -> None:
    mesh = weft.Mesh.box((2, 3, 1), comm=COMM)
    for f, share in ((lambda x, y, z: x - 0.5, 0.0), (lambda x, y, z: x - 0.25, 0.25 / 0.3125)):
        for storage in ("assembled", "scattered"):
            op = weft.Poisson(mesh, 15, device="host", storage=storage)
            assert op.imbalance(op.project(f)) == pytest.approx(share, abs=2e-3)
    assert op.imbalance(op.vector(0.0)) == 0.0
