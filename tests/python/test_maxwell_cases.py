"""Cases of `weft run maxwell`: materials, boundaries and sources by name, expressions, and errors that name the key."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft import program
from weft.cases import MaxwellCase
from weft.cases.expressions import FUNCTIONS, Expression, ExpressionError
from weft.cases.schema import CaseError, load, named_cases, options, to_toml
from weft.mpi import CollectiveError
from weft.run.maxwell.exact import exact, layered, not_exact
from weft.run.maxwell.problem import make_mesh
from weft.run.maxwell.regions import Geometry, boundaries, materials, total_field


def case(*assignments: str) -> MaxwellCase:
    loaded = load(MaxwellCase, None, {}, assignments)
    assert isinstance(loaded, MaxwellCase)
    return loaded


# --- schema --------------------------------------------------------------------------------------------------------


def test_every_option_has_help_and_every_case_that_comes_with_weft_is_valid() -> None:
    for leaf in options(MaxwellCase):
        assert leaf.help, leaf.key
        assert "\n" not in leaf.help
    names = sorted(named_cases("maxwell"))
    assert names == ["cavity", "dielectric", "periodic-box", "sphere", "timing", "waveguide"]
    for name in names:
        assert load(MaxwellCase, name).workload == "maxwell"


def test_a_written_case_file_reads_back_to_the_defaults_and_shows_named_tables(tmp_path) -> None:
    path = tmp_path / "all.toml"
    path.write_text(to_toml(MaxwellCase))
    assert load(MaxwellCase, str(path)) == load(MaxwellCase)
    assert "# [materials.<name>]" in path.read_text()
    assert "materials" not in tomllib.loads(path.read_text())


def test_the_case_that_the_documentation_shows_is_one(tmp_path) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "run-maxwell.md").read_text()
    path = tmp_path / "documented.toml"
    path.write_text(text.partition("```toml\n")[2].partition("```")[0])
    loaded = load(MaxwellCase, str(path), {"order": 1})
    assert isinstance(loaded, MaxwellCase)
    place = geometry(loaded)
    _, regions = materials(loaded, place)
    assert np.bincount(regions).tolist() == [16 * 64 - 4 * 64 - 2 * 16, 4 * 64, 2 * 16]
    total = total_field(loaded, place)
    assert total is not None
    assert total.sum() == 12 * 64
    assert set(boundaries(loaded, place.mesh).values()) == {"absorbing"}


def test_tables_under_names_come_from_files_and_from_assignments(tmp_path) -> None:
    path = tmp_path / "case.toml"
    path.write_text('[materials.glass]\nepsilon = 2\nwhere = "x > 0.5"\n[boundaries]\n"x-" = "pec"\n')
    loaded = load(MaxwellCase, str(path), {}, ["materials.glass.mu=3", "boundaries.x+=pmc", "probes.p=[1, 2, 3]"])
    assert isinstance(loaded, MaxwellCase)
    glass = loaded.materials["glass"]
    assert (glass.epsilon, glass.mu, glass.where) == (2.0, 3.0, "x > 0.5")
    assert loaded.boundaries == {"x-": "pec", "x+": "pmc"}
    assert loaded.probes == {"p": (1.0, 2.0, 3.0)}


@pytest.mark.parametrize(
    ("assignments", "parts"),
    [
        (["materials.glass.epsilon=-1"], ["'materials.glass.epsilon'", "found -1.0", "above 0"]),
        (["materials.glass.mu=0"], ["'materials.glass.mu'", "found 0.0", "above 0"]),
        (["materials.glass.sigma=-1"], ["'materials.glass.sigma'", "at least 0"]),
        (["materials.glass.eps=2"], ["'materials.glass.eps'", "nearest: 'materials.glass.epsilon'"]),
        (["materials.a.mu=2", "materials.b.mu=2"], ["'materials.a'", "'materials.b'", "neither selects elements"]),
        (["materials.a.tag=2", "materials.a.where=x > 1"], ["'materials.a'", "tag", "where", "one of them"]),
        (["materials.a.where=x <"], ["'materials.a'", "cannot be parsed", "allowed"]),
        (["materials.a.lower=[1,1,1]"], ["'materials.a'", "lower coordinate below"]),
        (["boundaries.x-=metal"], ["'boundaries.x-'", "'metal'", "pec | pmc | absorbing"]),
        (["boundaries=pec"], ["'boundaries' is a table", "boundaries.<name>"]),
        (["materials=3"], ["'materials' is a table", "materials.<name>.epsilon"]),
        (["probes.p=[1, 2]"], ["'probes.p'", "list of 3"]),
        (["initial.ex=sin(x)"], ["'initial.ex'", 'initial.field = "expressions"']),
        (["initial.field=expressions", "initial.ex=sin(q)"], ["'initial.ex'", "'q' is not known"]),
        (["initial.waves=[0,0,0]"], ["'initial.waves'", "at least one period"]),
        (["initial.field=box"], ["'initial.field'", "box-mode"]),
        (["time.integrator=exponential", "layer.thickness=0.1"], ["'time.integrator'", "use runge-kutta"]),
        (["flux=upwnd"], ["'flux'", "upwind | central"]),
        (["time.courant=0"], ["'time.courant'", "above 0"]),
        (["mesh.radii=[1,-1]"], ["'mesh.radii'"]),
        (["mesh.shape=cylinder", "mesh.radii=[1,2]"], ["'mesh.radii'", "one radius"]),
        (["sources.a.field=[0,0,1]"], ["'sources.a'", "normal to each other"]),
        (["sources.a.kind=plane-wave"], ["'sources.a'", "total_field.where"]),
        (["initial.field=sphere"], ["'initial.field'", "one plane wave"]),
        (["layer.sides=[\"x\"]"], ["'layer.sides'", "item 0"]),
    ],
)  # fmt: skip
def test_a_bad_value_is_one_line_that_names_the_key_and_what_is_allowed(assignments, parts) -> None:
    with pytest.raises(CaseError) as caught:
        case(*assignments)
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


# --- expressions ---------------------------------------------------------------------------------------------------


def test_an_expression_is_evaluated_as_numpy_would() -> None:
    x, y = np.random.default_rng(0).random((2, 7))
    code = program.compiled("sin(pi*x)**2 + where(x < y <= 1 and not y == 2, -x, 2*hypot(x, y) % 1)")
    value = program.values(code, x, y, 0.0)
    expected = np.sin(np.pi * x) ** 2 + np.where((x < y) & (y <= 1), -x, 2 * np.hypot(x, y) % 1)
    assert value == pytest.approx(expected, abs=1e-15)


def test_a_constant_has_the_shape_of_the_coordinates() -> None:
    assert program.values(program.compiled("2"), np.zeros((3, 2)), 0.0, 0.0).tolist() == [[2.0, 2.0]] * 3


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "x.__class__", "(1).real", "open('f')", "lambda: 1", "x[0]",
        "[x for x in x]",
        "'a' * 9", "x if y else z", "x; y", "x = 1", "f'{x}'", "sin", "sin(x, out=y)", "hypot(x, y, z)", "sin(x, y)",
        "q", "1 +", "", "x @ y", "~x", "x & 1", "(" * 400, "-" * 1900 + "x", "x" * 3000, "True.denominator", "1j * x",
    ],
)  # fmt: skip
def test_what_is_no_arithmetic_is_refused_with_what_is_allowed(text) -> None:
    with pytest.raises(ExpressionError):
        Expression(text)


def test_an_expression_of_parameters_alone_is_a_number() -> None:
    assert Expression("2 * k + 1", (), {"k": 3.0}).number == 7.0
    with pytest.raises(ValueError, match="depends on a variable"):
        _ = Expression("k * x", parameters={"k": 3.0}).number


def test_huge_powers_end_at_once() -> None:
    assert Expression("9**9**9**9").number == np.inf


WORDS = st.sampled_from(["x", "y", "z", "pi", "1", "0.5", "+", "-", "*", "/", "**", "(", ")", "<", ">=", "==", "and",
                         "or", "not", ",", "if", "else", ".", "[", "]", "__", "'", " ", *FUNCTIONS])  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=30), st.lists(WORDS, max_size=12).map("".join)))
def test_any_text_is_an_expression_or_one_readable_error(text) -> None:
    try:
        Expression(text)
        value = program.values(program.compiled(text), np.ones(2), np.zeros(2), 0.25)
    except ExpressionError as error:
        said = str(error)
    else:
        said = "allowed" if value.shape == (2,) else ""
    assert "allowed" in said


# --- regions, boundaries, solutions --------------------------------------------------------------------------------


def geometry(loaded: MaxwellCase):
    from mpi4py import MPI

    return Geometry(make_mesh(loaded, MPI.COMM_WORLD), loaded.order)


BOX = ["order=2", "mesh.counts=[4,2,1]", "mesh.periodic=[false,true,true]"]


def test_materials_fill_boxes_expressions_and_what_is_left() -> None:
    loaded = case(
        *BOX, "materials.a.lower=[0,0,0]", "materials.a.upper=[0.5,0.5,1]", "materials.b.where=x > 0.75",
        "materials.c.mu=2",
    )  # fmt: skip
    place = geometry(loaded)
    table, regions = materials(loaded, place)
    x, y, _ = place.centres
    expected = np.where((x < 0.5) & (y < 0.5), "a", np.where(x > 0.75, "b", "c"))
    assert [list(table)[r] for r in regions] == expected.tolist()


@pytest.mark.parametrize(
    ("assignments", "parts"),
    [
        (["materials.a.where=x > 0.6"], ["'materials.a'", "cuts through element", "whole elements"]),
        (["materials.a.where=x > 6"], ["'materials.a'", "no element of box 4 x 2 x 1"]),
        (["materials.a.tag=3"], ["'materials.a.tag'", "found 3", "has the regions 0"]),
        (["materials.a.where=x > 0.5", "materials.b.where=x > 0.25"], ["'materials.a'", "'materials.b'", "both"]),
    ],
)
def test_a_region_that_cannot_be_is_named(assignments, parts) -> None:
    loaded = case(*BOX, *assignments)
    with pytest.raises(CollectiveError) as caught:
        materials(loaded, geometry(loaded))
    for part in parts:
        assert part in str(caught.value)


def test_a_region_of_a_mesh_file_without_a_material_is_named() -> None:
    loaded = case("order=2", "materials.a.tag=1", "mesh.file=sphere.msh")
    place = Geometry(weft.Mesh.sphere([0.5, 1.0]), 2)
    with pytest.raises(CollectiveError, match=r"region 2 of sphere has no material.*tag = 2"):
        materials(loaded, place)


def test_boundaries_come_from_the_case_from_their_own_names_and_from_the_star() -> None:
    mesh = geometry(case(*BOX)).mesh
    assert boundaries(case(*BOX, "boundaries.x-=pec", "boundaries.*=pmc"), mesh) == {"x-": "pec", "x+": "pmc"}
    with pytest.raises(CollectiveError, match=r"boundary 'x\+' of box 4 x 2 x 1 has no condition.*boundaries\.x\+"):
        boundaries(case(*BOX, "boundaries.x-=pec"), mesh)
    with pytest.raises(CollectiveError, match=r"'boundaries.wall': .* has no such boundary; it has x-, x\+"):
        boundaries(case(*BOX, "boundaries.wall=pec"), mesh)


@pytest.mark.parametrize(
    ("assignments", "parts"),
    [
        (["initial.field=box-mode", "initial.mode=[0,0,1]"], ["initial.field", "vanishes"]),
        (["materials.a.where=x > 0.5", "materials.a.mu=2"], ["'plane-wave' requires a single material", "vacuum, a"]),
        (["initial.field=layered-mode", "materials.a.where=y > 0.5", "materials.a.mu=2"], ["not layers normal to x"]),
        (["initial.field=layered-mode", "materials.a.sigma=2"], ["conducts"]),
        (["initial.field=sphere", "sources.w.ramp=1", "total_field.where=x > 0"], ["0 materials other than vacuum"]),
    ],
)
def test_an_exact_solution_that_does_not_fit_says_why(assignments, parts) -> None:
    loaded = case(*BOX, *assignments)
    place = geometry(loaded)
    with pytest.raises(CollectiveError) as caught:
        exact(loaded, place, *materials(loaded, place))
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("assignments", "conditions", "part"),
    [
        ([], {}, ""),
        ([], {"x-": "pec"}, "periodic boxes"),
        (["initial.field=box-mode"], {"x-": "pec"}, ""),
        (["initial.field=box-mode"], {"x-": "pec", "x+": "pmc"}, "'x+' is not"),
        (["sources.d.kind=dipole"], {}, "neither sources"),
    ],
)
def test_a_start_that_is_no_solution_of_the_case_has_no_error(assignments, conditions, part) -> None:
    why = not_exact(case(*assignments), conditions)
    assert part in why
    assert bool(part) == bool(why)


def test_layers_are_found_from_the_elements_materials() -> None:
    loaded = case(*BOX, "materials.a.where=0.25 < x < 0.75", "materials.a.epsilon=4", "initial.field=layered-mode")
    loaded.initial.mode = (1, 1, 0)
    place = geometry(loaded)
    mode = layered(loaded, place, *materials(loaded, place))
    assert np.array(mode.layers) == pytest.approx(np.array([[0.25, 1, 1], [0.5, 4, 1], [0.25, 1, 1]]))
    assert mode.wavenumber == pytest.approx(2 * np.pi)
