"""Options by name: the members of a workload's struct of options, the case's keys and the solver's keywords agree."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from weft import _weft, cases, flow, maxwell, poisson, turbulence
from weft.cases.schema import NAME, options, settings


@dataclass(frozen=True)
class Workload:
    """A workload's case, its struct of options, the Python function that takes them, and their differences.

    ``space``: keys that the operator below the workload has in its own struct.

    ``made``: members that no key sets by its name, with the solver's keywords they are made of ("": Python alone).
    """

    case: Any
    struct: Any
    solver: Any
    made: dict[str, str]
    space: frozenset[str] = frozenset()


WORKLOADS = {
    "poisson": Workload(
        cases.PoissonCase,
        _weft.poisson.Options,
        poisson.Poisson,
        {"lambda_": "lam", "dirichlet": "dirichlet", "threads": "threads"},
    ),
    "flow": Workload(
        cases.FlowCase,
        _weft.flow.OptionsDouble,
        flow.Solver,
        {
            "viscosity": "viscosity",
            "boundaries": "boundaries",
            "scalars": "scalars",
            "force": "force",
            "buoyancy": "buoyancy",
            "flow_rate": "flow_rate",
            "pressure.single": "pressure",
        },
        space=frozenset({"order", "kernels", "exchange", "device"}),
    ),
    "maxwell": Workload(
        cases.MaxwellCase,
        _weft.maxwell.Options,
        maxwell.Solver,
        {
            "materials": "materials",
            "regions": "regions",
            "boundaries": "boundaries",
            "waves": "waves",
            "total_field": "total_field",
            "dipoles": "dipoles",
            "damping": "damping",
            "threads": "threads",
        },
    ),
    "turbulence": Workload(
        cases.TurbulenceCase,
        _weft.turbulence.Options,
        turbulence.Solver,
        {
            "box.sizes": "sizes",
            "box.lengths": "lengths",
            "grid.rows": "process_grid",
            "grid.columns": "process_grid",
            "row": "exchange",
            "column": "exchange",
            "scalars": "scalars",
            "forcing.energies": "forcing",
        },
    ),
}


def members(struct: Any, prefix: str = "") -> Iterator[str]:
    """The names of a struct's members, those of structs within it behind a dot."""
    for name in struct.fields:
        value = getattr(struct, name)
        if hasattr(value, "fields"):
            yield from members(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def set_by(case: Any) -> set[str]:
    """The options that the leaves of a case set, without tables under names that the case chooses."""
    return {leaf.sets for leaf in options(case) if leaf.sets and NAME not in leaf.key}


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_every_member_of_the_struct_is_set_by_a_key_of_the_case_or_made_of_a_keyword(workload: Workload) -> None:
    known = set(members(workload.struct()))
    assert known - set_by(workload.case) == set(workload.made)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_what_a_case_sets_is_a_member_of_the_struct_or_a_keyword_that_members_are_made_of(workload: Workload) -> None:
    known = set(members(workload.struct()))
    keywords = set(inspect.signature(workload.solver).parameters)
    assert {name.partition(".")[0] for name in set_by(workload.case) | set(workload.made.values())} <= keywords
    unknown_to_the_struct = set_by(workload.case) - known
    assert unknown_to_the_struct <= set(workload.made.values()) | {"precision", "exchange_cache"} | workload.space


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_keywords_that_are_shown_have_the_defaults_of_the_struct(workload: Workload) -> None:
    shown = inspect.signature(workload.solver).parameters
    struct = workload.struct()
    for name in set(struct.fields) & set(shown) - set(workload.made.values()):
        own, default = getattr(struct, name), shown[name].default
        if default not in (inspect.Parameter.empty, "auto"):
            assert default == (repr(own) if hasattr(own, "fields") else own), name


def test_every_member_of_a_source_of_waves_is_set_by_a_key_of_the_case_or_is_the_background() -> None:
    known = set(members(_weft.maxwell.PlaneWave())) | set(members(_weft.maxwell.Dipole()))
    set_by_sources = {leaf.sets for leaf in options(cases.MaxwellCase) if leaf.key.startswith("sources.") and leaf.sets}
    assert set_by_sources <= known
    assert known - set_by_sources == {"origin", "position", "eps", "mu"}  # sources.<name>.at; waves come through vacuum


def test_the_settings_of_a_case_are_its_values_under_the_names_of_the_options() -> None:
    case = cases.TurbulenceCase(viscosity=0.5, forcing={"kind": "band", "radius": 3.0})  # type: ignore[arg-type]
    found = settings(case)
    assert (found["viscosity"], found["scheme"]) == (0.5, "rk2")
    assert found["forcing"] == {"kind": "band", "radius": 3.0, "amplitude": 0.02, "time": 1.0}
    assert "steps" not in found


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (
            {"viscocity": 1.0},
            TypeError,
            "turbulence: there is no option 'viscocity'; nearest: 'viscosity'; known: box, ",
        ),
        (
            {"forcing": {"radios": 2.0}},
            TypeError,
            "turbulence: forcing: there is no option 'radios'; nearest: 'radius'",
        ),
        ({"scheme": "rk3"}, ValueError, "turbulence: scheme = 'rk3' is not one of: rk2, rk4"),
        ({"forcing": {"kind": "wind"}}, ValueError, "forcing.kind = 'wind' is not one of: none, stochastic, band"),
        ({"dt": "soon"}, ValueError, "turbulence: dt = 'soon' is not a number"),
        ({"seed": 1.5}, ValueError, "turbulence: seed = 1.5 is not an integer"),
        ({"seed": -1}, ValueError, "turbulence: seed = -1 is not"),
        ({"scalars": 3}, ValueError, "turbulence: scalars = 3 is not a sequence"),
        ({"scalars": [(1.0, (1.0, 2.0))]}, ValueError, r"scalars\[0\].gradient = \(1.0, 2.0\) is not a sequence of 3"),
        ({"forcing": ("band", 1.0, 2.0, 3.0, (), 5)}, TypeError, "turbulence: forcing takes 5 values, not 6"),
    ],
)
def test_a_value_that_is_of_no_use_is_an_error_that_names_its_option(values, error, message):
    with pytest.raises(error, match=message):
        _weft.turbulence.Options(**values)


def test_a_struct_is_made_of_values_in_order_and_by_name_and_shows_them():
    forcing = turbulence.Forcing("band", 2.5, energies=[1, 2])
    assert repr(forcing) == "Forcing(kind='band', radius=2.5, amplitude=0.0, time=0.0, energies=[1.0, 2.0])"
    assert forcing == turbulence.Forcing(radius=2.5, kind="band", energies=(1.0, 2.0))
    assert forcing != turbulence.Forcing("band", 2.5)
    forcing.radius = 3
    assert _weft.turbulence.Options(forcing=forcing).forcing.radius == 3.0
    assert _weft.turbulence.Options(forcing=None).forcing.kind == "none"
