"""Case files: defaults, precedence of sources, and errors that name the key, what was found and what is allowed."""

import os
import re
import subprocess
import sys
import tomllib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from weft.cases import FlowCase, MaxwellCase, PoissonCase, TurbulenceCase
from weft.cases.schema import CaseError, load, named_cases, options, to_toml


def error_of(*assignments: str) -> str:
    with pytest.raises(CaseError) as caught:
        load(PoissonCase, None, {}, assignments)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_every_option_has_help_and_a_default_that_is_itself_valid() -> None:
    leaves = list(options(PoissonCase))
    assert len({leaf.key for leaf in leaves}) == len(leaves) > 20
    for leaf in leaves:
        assert leaf.help, leaf.key
        assert leaf.allowed, leaf.key
        assert "\n" not in leaf.help
    load(PoissonCase)


def test_a_written_case_file_reads_back_to_the_defaults(tmp_path) -> None:
    path = tmp_path / "all.toml"
    path.write_text(to_toml(PoissonCase))
    assert load(PoissonCase, str(path)) == load(PoissonCase)


def test_later_sources_win_over_earlier_ones(tmp_path) -> None:
    path = tmp_path / "case.toml"
    path.write_text("order = 3\nlambda = 2\nsolver.iterations = 5\n")
    case = load(PoissonCase, str(path), {"order": 5, "device": "host"}, ["order=9", "mesh.counts=[2, 3, 4]"])
    assert (case.order, case.lambda_, case.device) == (9, 2.0, "host")
    assert (case.solver.iterations, case.mesh.counts) == (5, (2, 3, 4))


@pytest.mark.parametrize("name", sorted(named_cases("poisson")))
def test_every_case_that_comes_with_weft_is_valid(name: str) -> None:
    assert load(PoissonCase, name).workload == "poisson"


@pytest.mark.parametrize(
    ("assignment", "parts"),
    [
        ("oder=3", ["'oder'", "nearest: 'order'"]),
        ("tolerance=1e-8", ["'tolerance'", "nearest: 'solver.tolerance'"]),
        ("solver.tolrance=1", ["nearest: 'solver.tolerance'"]),
        ("order=16", ["'order'", "found 16", "at least 1, at most 15", "default 7"]),
        ("order=0", ["'order'", "found 0", "at least 1"]),
        ("order=seven", ["'order'", "found 'seven'", "integer"]),
        ("order=7.5", ["'order'", "found 7.5"]),
        ("lambda=nan", ["'lambda'", "not a number"]),
        ("lambda=-1", ["'lambda'", "found -1.0", "at least 0"]),
        ("lambda=0", ["'lambda'", "singular", "dirichlet"]),
        ("solver.tolerance=1", ["'solver.tolerance'", "below 1"]),
        ("device=gpu", ["'device'", "'gpu'", "auto | host | cuda | hip"]),
        ("mesh.counts=[1, 2]", ["'mesh.counts'", "(1, 2)", "list of 3"]),
        ("mesh.counts=[2, 0, 2]", ["'mesh.counts'", "[2, 0, 2]", "at least 1"]),
        ("mesh.periodic=[1, 0, 0]", ["'mesh.periodic'", "item 0", "true | false"]),
        ("mesh.upper=[1, 1, -1]", ["mesh.lower", "mesh.upper"]),
        ("output.fields=yes", ["'output.fields'", "'yes'", "true | false"]),
        ("workload=flow", ["'workload'", "'flow'", "poisson"]),
        ("solver=3", ["'solver' is a table", "solver.iterations"]),
        ("order", ["--set order", "key=value"]),
        (f"lambda={10**400}", ["'lambda'", "found inf"]),
        ("order=1" + 5000 * "0", ["'order'", "integer"]),
        ("order=3\nmesh.counts=[2, 2, 2]", ["'order'", "found '3\\nmesh.counts"]),
    ],
)
def test_a_bad_value_is_one_line_that_names_key_found_and_allowed(assignment: str, parts: list[str]) -> None:
    text = error_of(assignment)
    for part in parts:
        assert part in text


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("order = = 3", ["not valid TOML"]),
        ("[solvr]\ntolerance = 1e-8", ["unknown case key 'solvr'", "nearest: 'solver'"]),
        ("[solver]\niteration = 3", ["unknown case key 'solver.iteration'", "nearest: 'solver.iterations'"]),
        ('workload = "maxwell"', ["'workload'", "'maxwell'", "'poisson'"]),
        ("solver = 3", ["'solver'", "found 3", "table"]),
        ("lambda = 1" + 400 * "0", ["'lambda'", "found inf"]),
        ("lambda = 1" + 5000 * "0", ["not valid TOML", "integer"]),
        ("x = " + 5000 * "[" + 5000 * "]", ["not valid TOML", "nested too deeply"]),
    ],
)
def test_a_bad_file_is_one_line_that_says_where(tmp_path, content: str, parts: list[str]) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(content)
    with pytest.raises(CaseError) as caught:
        load(PoissonCase, str(path))
    for part in parts:
        assert part in str(caught.value)


def test_a_file_is_read_as_utf8_in_any_locale_with_or_without_a_mark(tmp_path) -> None:
    text = '# 1/Re, größer als null\r\norder = 3\r\n\r\n[output]\r\ndirectory = "Übung"\r\n'
    code = (
        "import sys; from weft.cases.schema import load; from weft.cases import PoissonCase; "
        "case = load(PoissonCase, sys.argv[1]); print(ascii((case.order, case.output.directory)))"
    )
    for mark in (b"", b"\xef\xbb\xbf"):
        path = tmp_path / "case.toml"
        path.write_bytes(mark + text.encode())
        words = [sys.executable, "-X", "utf8=0", "-c", code, str(path)]
        environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
        assert done.stdout == "(3, '\\xdcbung')\n", done.stderr


def test_a_case_that_does_not_exist_names_those_that_do(tmp_path) -> None:
    with pytest.raises(CaseError, match=r"nearest: 'solve'.*benchmark"):
        load(PoissonCase, "sovle")
    with pytest.raises(CaseError, match="cannot be read: No such file"):
        load(PoissonCase, str(tmp_path / "absent.toml"))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CaseError, match="not a text file"):
        load(PoissonCase, str(binary))


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_as_an_assignment_is_one_readable_error(key: str, value: str) -> None:
    # Nothing else may be raised. Hypothesis tries words of the sources too, and some of those are keys.
    assume(key not in {field.alias or name for name, field in PoissonCase.model_fields.items()})
    with pytest.raises(CaseError, match=r"key"):
        load(PoissonCase, None, {}, [f"{key}={value}"])


def test_the_template_lists_units() -> None:
    text = to_toml(PoissonCase)
    assert "[points]" in text
    assert tomllib.loads(text)["order"] == 7


IN_TIME = [FlowCase, MaxwellCase, TurbulenceCase]


@pytest.mark.parametrize("model", IN_TIME)
def test_steps_or_an_end_on_the_command_line_replace_both_keys_of_the_case(tmp_path, model) -> None:
    for line, flag, expected in (
        ("end = 40.0", {"time.steps": 3}, (3, 0.0)),
        ("steps = 7", {"time.end": 2.0}, (100, 2.0)),
        ("end = 40.0", {"time.end": 2.0}, (100, 2.0)),
        ("steps = 7", {"time.steps": 3, "time.end": 0.0}, (3, 0.0)),
    ):
        path = tmp_path / "case.toml"
        path.write_text(f"[time]\n{line}\n")
        for flags, assignments in ((flag, []), ({}, [f"{key}={value}" for key, value in flag.items()])):
            time = load(model, str(path), flags, assignments).time
            assert (time.steps, time.end) == expected
    with pytest.raises(CaseError, match=r"'time.steps' and 'time.end' are both given on the command line"):
        load(model, None, {"time.steps": 3, "time.end": 2.0})
    with pytest.raises(CaseError, match=r"'time.end' and 'time.steps' are both given"):
        load(model, None, {"time.end": 2.0}, ["time.steps=100"])


@pytest.mark.parametrize("model", IN_TIME)
def test_a_case_file_with_steps_and_an_end_is_refused_rather_than_one_of_them_ignored(tmp_path, model) -> None:
    path = tmp_path / "case.toml"
    path.write_text("[time]\nsteps = 7\nend = 1.0\n")
    with pytest.raises(CaseError, match=r"'time.steps' and 'time.end': found 7 and 1; allowed: one of them"):
        load(model, str(path))


def test_a_key_on_the_command_line_is_never_silently_overridden_by_another_of_the_case() -> None:
    for model, source, assignment, gone in (
        (FlowCase, "taylor-green", "time.courant=0.3", "time.dt"),
        (FlowCase, "taylor-green", "mesh.points=1000", "mesh.counts"),
        (FlowCase, "hemi", "mesh.counts=[2,2,2]", "mesh.file"),
        (PoissonCase, "solve", "solver.iterations=10", "solver.tolerance"),
        (TurbulenceCase, "abc", "time.courant=0.3", "time.dt"),
    ):
        found: object = load(model, source, {}, [assignment])
        for part in gone.split("."):
            found = getattr(found, part)
        assert found in (0.0, (0, 0, 0), "")


def test_every_key_that_another_replaces_exists() -> None:
    for model in (PoissonCase, *IN_TIME):
        keys = {option.key for option in options(model)}
        assert {other for option in options(model) for other in option.instead_of} <= keys


@pytest.mark.parametrize("model", [PoissonCase, *IN_TIME])
def test_huge_integers_are_refused_with_one_line_by_every_key(model) -> None:
    for leaf in options(model):
        if type(leaf.default) is int:
            with pytest.raises(CaseError, match=re.escape(f"'{leaf.key}'")):
                load(model, None, {}, [f"{leaf.key}={10**30}"])
