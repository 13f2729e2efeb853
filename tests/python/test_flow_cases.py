"""Cases of `weft run flow`: valid cases, and errors that name the key, the boundary and the remedy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.cases import FlowCase
from weft.cases.schema import CaseError, load, named_cases, options, to_toml

NAMES = ["cavity", "channel", "ethier", "hemi", "kovasznay", "rayleigh-benard", "taylor-green"]


def case(*assignments: str, source: str | None = None) -> FlowCase:
    loaded = load(FlowCase, source, {}, assignments)
    assert isinstance(loaded, FlowCase)
    return loaded


def test_every_option_has_help_and_every_case_that_comes_with_weft_is_valid():
    for leaf in options(FlowCase):
        assert leaf.help, leaf.key
        assert "\n" not in leaf.help
    assert sorted(named_cases("flow")) == NAMES
    for name in NAMES:
        assert case(source=name).workload == "flow"


def test_a_written_case_file_reads_back_to_the_defaults(tmp_path):
    path = tmp_path / "all.toml"
    path.write_text(to_toml(FlowCase))
    assert case(source=str(path)) == case()


def test_parameters_are_numbers_or_expressions_of_the_ones_above_and_nu_is_the_viscosity():
    found = case("parameters.Re=50", "parameters.half='Re / 2'", "viscosity=1 / Re").constants
    assert found == {"Re": 50.0, "half": 25.0, "nu": 0.02}


def test_tables_of_boundaries_and_scalars_come_from_files(tmp_path):
    path = tmp_path / "case.toml"
    path.write_text(
        """
        viscosity = 1
        scalars.heat = { diffusivity = "nu / 7", initial = "x * t", buoyancy = [0, 0, "2 * nu"] }
        boundaries.in = { condition = "velocity", velocity = ["1 - y**2", 0, 0], scalars.heat = "sin(t)" }
        boundaries.side = { condition = "wall", fluxes.heat = 0.5 }
        boundaries."*" = { condition = "outflow" }
        """
    )
    found = case(source=str(path))
    assert found.boundaries["in"].velocity == ("1 - y**2", 0.0, 0.0)
    assert found.boundaries["in"].scalars == {"heat": "sin(t)"}
    assert found.boundaries["side"].fluxes == {"heat": 0.5}
    assert found.number("scalars.heat.buoyancy", found.scalars["heat"].buoyancy[2]) == 2.0


BAD = [
    # contradictory or missing conditions, by the boundary's name
    ("boundaries.lid = {condition = 'wall', velocity = [1, 0, 0]}", ["boundaries.lid", "'wall'"]),
    ("boundaries.lid = {velocity = [1, 0, 0]}", ["boundaries.lid", 'condition = "velocity"']),
    ("boundaries.lid = {condition = 'velocity'}", ["boundaries.lid", "no velocity is given"]),
    ("boundaries.lid = {condition = 'slip'}", ["boundaries.lid.condition", "wall | velocity | outflow | symmetry"]),
    ("scalars.T = {}\nboundaries.o = {condition = 'outflow', scalars.T = 1}", ["boundaries.o", "remove it"]),
    ("scalars.T = {}\nboundaries.o = {scalars.T = 1, fluxes.T = 1}", ["boundaries.o", "flux of T"]),
    ("boundaries.o = {scalars.T = 1}", ["boundaries.o.scalars.T", "scalar 'T' is not defined", "[scalars.T]"]),
    ("scalars.S = {}\nboundaries.o = {fluxes.T = 1}", ["boundaries.o.fluxes.T", "defined: S"]),
    # values
    ("initial.velocity = ['sin(x', 0, 0]", ["initial.velocity", "'sin(x'", "cannot be parsed", "allowed: numbers"]),
    ("initial.velocity = ['sin(w)', 0, 0]", ["initial.velocity", "'w' is not known", "x, y, z, t, nu"]),
    ("parameters.reynolds = 5\nviscosity = '1 / reynold'", ["viscosity", "nearest: 'reynolds'"]),
    ("viscosity = '-1'", ["viscosity", "above 0"]),
    ("viscosity = 0", ["viscosity", "above 0"]),
    ("viscosity = 'x'", ["viscosity", "'x' is not known"]),
    ("parameters.a = '1 / 0'", ["parameters.a", "inf", "finite"]),
    ("parameters.a = 'b'\nparameters.b = 1", ["parameters.a", "'b' is not known"]),
    ("parameters.x = 1", ["parameters.x", "cannot be the name"]),
    ("parameters.sin = 1", ["parameters.sin", "cannot be the name"]),
    ("parameters.nu = 1", ["parameters.nu", "cannot be the name"]),
    ("parameters.'a b' = 1", ["parameters.a b", "cannot be the name"]),
    ("parameters.lambda = 1", ["parameters.lambda", "cannot be the name"]),
    ("scalars.T = {diffusivity = 0}", ["scalars.T.diffusivity", "above 0"]),
    ("scalars.T = {initial = 'q'}", ["scalars.T.initial", "'q' is not known"]),
    ("scalars.T = {buoyancy = ['x', 0, 0]}", ["scalars.T.buoyancy", "'x' is not known"]),
    ("initial.velocity = [0, 0]", ["initial.velocity"]),
    # the exact solution
    ("initial.velocity = 'exact'", ["initial.velocity", "is not set", "exact.velocity"]),
    ("scalars.T = {initial = 'exact'}", ["scalars.T.initial", "exact.scalars.T"]),
    ("forcing.acceleration = 'exact'", ["forcing.acceleration", "no such value"]),
    ("exact.velocity = 'exact'", ["exact.velocity", "'exact'"]),
    ("exact.scalars.T = 1", ["exact.scalars.T", "is not defined"]),
    # Python functions
    ("initial.velocity = 'python:start'", ["initial.velocity", "functions.file"]),
    ("functions.file = 'my.py'", ["functions.file", "no value of the case"]),
    ("functions.file = 'my.py'\ninitial.velocity = 'python:'", ["initial.velocity", "the name of a function"]),
    # the rest
    ("forcing.bulk_velocity = 1", ["forcing.bulk_velocity", "not periodic"]),
    ("time.order = 4", ["time.order", "at most 3"]),
    ("boundary.lid = {}", ["boundary", "nearest: 'boundaries'"]),
    ("boundaries.lid = {conditions = 'wall'}", ["boundaries.lid.conditions", "nearest: 'boundaries.lid.condition'"]),
]


@pytest.mark.parametrize(("text", "parts"), BAD, ids=[text.replace("\n", "; ") for text, _ in BAD])
def test_a_case_that_makes_no_sense_is_an_error_that_names_the_key(tmp_path, text, parts):
    path = tmp_path / "case.toml"
    path.write_text(text)
    with pytest.raises(CaseError) as caught:
        case(source=str(path))
    for part in parts:
        assert part in str(caught.value)


WORDS = st.one_of(
    st.floats(allow_nan=False),
    st.text(alphabet="xyzt+-*/()0123456789.,sincoexpythRn: ", max_size=20),
    st.sampled_from(["exact", "python:f", "python:", "", "nu", "1 / Re", "sin(x)"]),
)


@settings(max_examples=200, deadline=None)
@given(
    viscosity=WORDS,
    velocity=st.one_of(WORDS, st.lists(WORDS, min_size=3, max_size=3)),
    parameter=WORDS,
    condition=st.sampled_from(["wall", "velocity", "outflow", "symmetry", "other"]),
    initial=WORDS,
)
def test_any_case_is_valid_or_one_error(viscosity, velocity, parameter, condition, initial):
    values = {
        "viscosity": viscosity,
        "parameters.Re": parameter,
        "boundaries.b.condition": condition,
        "boundaries.b.velocity": velocity,
        "scalars.T.initial": initial,
        "initial.velocity": velocity,
    }
    try:
        loaded = load(FlowCase, None, values)
    except CaseError:
        return
    assert isinstance(loaded, FlowCase)
    assert np.isfinite(loaded.constants["nu"])
    assert loaded.constants["nu"] > 0
