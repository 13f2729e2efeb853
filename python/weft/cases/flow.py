"""The case of `weft run flow`: incompressible Navier-Stokes on spectral elements.

Values that vary in space or time are expressions in x, y, z, t and the case's parameters, or functions of a Python
file.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Iterator
from typing import Literal

import pydantic

from weft.cases.expressions import CONSTANTS, FUNCTIONS, Expression, ExpressionError
from weft.cases.schema import Section, named, option, section
from weft.cases.shared import CheckpointSection, ElementCase, ElementOutput, TimedMesh, TimeSpan
from weft.cases.values import EXACT, PYTHON, Value, constant, function_name

Vector = tuple[Value, Value, Value] | str  # three values, or "exact" or "python:name" for all three
Numbers = tuple[float, float, float]

VARIABLES = ("x", "y", "z", "t")
VALUE = 'number, expression in x, y, z, t, "exact", or "python:name" (a function in functions.file)'
VECTOR = 'three values, "exact", or "python:name"'
CONDITIONS = ("wall", "velocity", "outflow", "symmetry")
PLANES = ("u", "v", "w", "speed", "pressure", "vorticity", "vorticity_x", "vorticity_y", "vorticity_z")
FIELDS = (*PLANES, "velocity", "none")  # names of the flow's own fields in output files and keys


class BoundarySection(Section):
    """The conditions on one boundary of the mesh."""

    condition: Literal["wall", "velocity", "outflow", "symmetry"] = option(
        "wall", "wall: no slip; velocity: prescribed; outflow: open; symmetry: no flow through it, no tangential stress"
    )
    velocity: Vector = option(
        (0.0, 0.0, 0.0), f"velocity on the boundary (condition = 'velocity'): {VECTOR}", unit="length / time"
    )
    scalars: dict[str, Value] = named(f"value of that scalar on the boundary: {VALUE}", unit="of the scalar")
    fluxes: dict[str, Value] = named(
        "diffusivity times the outward derivative of that scalar; 0 if neither value nor flux is given",
        unit="of the scalar x length / time",
    )

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> BoundarySection:
        given = "velocity" in self.model_fields_set
        if given and self.condition != "velocity":
            raise ValueError(
                f"velocity = {_shown(self.velocity)} is given, but condition = {self.condition!r}; "
                'set condition = "velocity", or remove the velocity'
            )
        if self.condition == "velocity" and not given:
            raise ValueError(
                'condition = "velocity", but no velocity is given; give one, such as velocity = ["1 - y**2", 0, 0]'
            )
        prescribed = [*self.scalars, *self.fluxes]
        if prescribed and self.condition == "outflow":
            raise ValueError(
                f"a value or flux of {', '.join(prescribed)} is given on an outflow, where scalars leave with the "
                "flow; remove it"
            )
        if both := sorted(set(self.scalars) & set(self.fluxes)):
            raise ValueError(f"both a value and a flux of {', '.join(both)} are given; allowed: one of them")
        return self


class ScalarSection(Section):
    """A scalar, passive or driving the flow by buoyancy (Boussinesq)."""

    diffusivity: Value = option(0.01, "number, or expression of the parameters", unit="length^2 / time")
    initial: Value = option(0.0, f"initial value: {VALUE}", unit="of the scalar")
    source: Value = option(0.0, f"source per unit of time: {VALUE}", unit="of the scalar / time")
    buoyancy: tuple[Value, Value, Value] = option(
        (0.0, 0.0, 0.0), "acceleration per unit of the scalar (Boussinesq: -g beta)", unit="length / time^2 / scalar"
    )
    reference: Value = option(0.0, "value of the scalar at which buoyancy is 0", unit="of the scalar")


class ForcingSection(Section):
    """Forces that drive the flow."""

    acceleration: Vector = option((0.0, 0.0, 0.0), f"body force per unit of mass: {VECTOR}", unit="length / time^2")
    bulk_velocity: float = option(
        0.0, "mean velocity along forcing.direction, kept constant by a uniform force; 0: none", unit="length / time"
    )
    direction: Literal["x", "y", "z"] = option("x", "direction of forcing.bulk_velocity")


class InitialSection(Section):
    """The initial velocity."""

    velocity: Vector = option((0.0, 0.0, 0.0), VECTOR, unit="length / time")
    checkpoint: str = option(
        "", "checkpoint to continue from, or a folder whose newest is used; empty: start from initial.velocity"
    )
    nek: str = option("", "start at t = 0 from this Nek field file (.f00000) on the same mesh, of any order")


class ExactSection(Section):
    """The exact solution: the run is compared with it, and "exact" refers to it elsewhere in the case."""

    velocity: Vector = option("", "three expressions, or python:name; empty: not known", unit="length / time")
    pressure: Value = option(
        "", "number, expression or python:name, up to a constant; empty: not compared", unit="(length / time)^2"
    )
    scalars: dict[str, Value] = named(
        "exact value of that scalar: number, expression or python:name", unit="of the scalar"
    )


class TimeSection(TimeSpan):
    """Time steps and time scheme."""

    dt: float = option(
        0.0,
        "time step; 0: variable, from time.courant",
        unit="time",
        ge=0.0,
        instead_of=("time.courant", "time.max_dt"),
    )
    courant: float = option(
        0.4, "Courant number of variable steps; errors grow from about 0.7", gt=0.0, le=5.0, instead_of=("time.dt",)
    )
    max_dt: float = option(
        0.0,
        "longest variable step; 0: h^2 / viscosity, with h^3 the mean volume of an element",
        unit="time",
        ge=0.0,
        instead_of=("time.dt",),
    )
    order: int = option(
        3,
        "order k of the time scheme BDFk/EXTk, reached after k - 1 steps of lower order",
        ge=1,
        le=3,
        sets="time_order",
    )
    first_step_halvings: int = option(
        6, "h: divide the first step, which is of low order, into dt / 2^h, dt / 2^h, dt / 2^(h-1), ..., dt / 2; 0: no",
        ge=0, le=20, sets="first_step_halvings",
    )  # fmt: skip
    warmup: int = option(2, "steps run before timing starts", unit="steps", ge=0)


class SolverSection(Section):
    """The linear solves of a step. Tolerances limit sqrt(sum of squares of the residual / volume), as in Neko."""

    pressure_tolerance: float = option(
        1e-7, "tolerance of the residual of the pressure", gt=0.0, sets="pressure_tolerance"
    )
    velocity_tolerance: float = option(
        1e-7, "tolerance of the residual of each velocity component", gt=0.0, sets="velocity_tolerance"
    )
    scalar_tolerance: float = option(1e-7, "tolerance of the residual of each scalar", gt=0.0, sets="scalar_tolerance")
    projection: int = option(
        16,
        "number of earlier pressures that the initial guess is projected on (Fischer 1998); 0: none",
        ge=0,
        le=16,
        sets="pressure.projection",
    )
    max_iterations: int = option(
        500, "maximum number of iterations of a solve; exceeding it ends the run", ge=1, sets="pressure.max_iterations"
    )
    method: Literal["cg", "gmres"] = option(
        "cg", "flexible Krylov method for the pressure, preconditioned by multigrid cycles", sets="pressure.method"
    )
    restart: int = option(30, "number of directions that gmres keeps", ge=1, le=200, sets="pressure.restart")
    levels: list[int] = option(
        [], "orders of the multigrid levels, from N down to 1; empty: N, N/2, ..., 1", sets="pressure.orders"
    )
    degree: int = option(
        2,
        "degree of the Chebyshev smoother: applications of the operator per sweep",
        ge=1,
        le=4,
        sets="pressure.degree",
    )
    cycle_precision: Literal["auto", "single", "double"] = option(
        "auto", "precision of the multigrid cycle; auto: single, which halves the bytes moved"
    )


class FilterSection(Section):
    """A filter of the highest modes of each element after every step."""

    strength: float = option(
        0.0, "fraction removed from the highest mode; 0: no filter", ge=0.0, le=1.0, sets="filter.strength"
    )
    modes: int = option(1, "number of damped modes; lower ones are damped less", ge=1, le=15, sets="filter.modes")


class ProbeSection(Section):
    """A point, a line or a plane where fields are written during the run."""

    at: tuple[float, ...] = option((), "the point, one end of the line, or a corner of the plane", unit="length")
    to: tuple[float, ...] = option((), "other end of the line, or the next corner of the plane", unit="length")
    across: tuple[float, ...] = option((), "the other corner of the plane that is next to at", unit="length")
    counts: tuple[int, ...] = option((101, 101), "number of points from at to to and, of a plane, from at to across")
    fields: tuple[str, ...] = option(
        ("velocity", "pressure"), "fields to write: velocity, pressure, vorticity, names of scalars"
    )
    every: int = option(1, "steps between samples", unit="steps", ge=1)

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> ProbeSection:
        for key, value in {"at": self.at, "to": self.to, "across": self.across}.items():
            if len(value) != 3 and (value or key == "at"):
                raise ValueError(f"{key} = {list(value)}; allowed: three coordinates, such as {key} = [1.0, 0.5, 0.0]")
        if self.across and not self.to:
            raise ValueError("'across' is given without 'to': a plane needs the keys 'at', 'to' and 'across'")
        along = [y - x for x, y in zip(self.at, self.to, strict=bool(self.to))]
        up = [y - x for x, y in zip(self.at, self.across, strict=bool(self.across))]
        if self.to and not any(along):
            raise ValueError(f"the line from {list(self.at)} to {list(self.to)} has no length; give two different ends")
        if self.across:
            area = [along[i - 2] * up[i - 1] - along[i - 1] * up[i - 2] for i in range(3)]
            if math.hypot(*area) <= 1e-12 * math.hypot(*along) * max(math.hypot(*up), 1e-300):
                raise ValueError("at, to and across lie on one line; a plane needs three corners that do not")
        sides = bool(self.to) + bool(self.across)
        if not sides <= len(self.counts) <= 2 or any(count < 2 for count in self.counts[:sides]):
            allowed = "at least 2 points along each side, such as counts = [41] on a line and [60, 40] on a plane"
            raise ValueError(f"counts = {list(self.counts)}; allowed: {allowed}")
        if not self.fields:
            raise ValueError("fields is empty; allowed: at least one field")
        return self


class StatisticsSection(Section):
    """Quantities computed during the run."""

    every: int = option(10, "steps between rows of statistics.csv; 0: only at the beginning and the end", ge=0)
    forces: tuple[str, ...] = option(
        (), "boundaries on which to compute the force and moment exerted by the flow, wall shear, and y+"
    )
    moment_centre: Numbers = option((0.0, 0.0, 0.0), "point about which moments are taken", unit="length")
    since: float = option(
        0.0, "time from which means of forces and the Strouhal number are taken; 0: the second half of the run",
        unit="time", ge=0.0,
    )  # fmt: skip
    drag_direction: Numbers = option((1.0, 0.0, 0.0), "direction of the drag")
    lift_direction: Numbers = option((0.0, 1.0, 0.0), "direction of the lift")
    reference_velocity: float = option(
        0.0, "velocity U of the coefficients 2 F / (U^2 A) and of the Strouhal number f L / U; 0: none of them",
        unit="length / time", ge=0.0,
    )  # fmt: skip
    reference_length: float = option(0.0, "length L of the Strouhal number; 0: none", unit="length", ge=0.0)
    reference_area: float = option(0.0, "area A of the coefficients; 0: none", unit="length^2", ge=0.0)
    reference: str = option("", "file with reference data to compare with: columns time, energy, -dE/dt")


class FlowOutput(ElementOutput):
    """The output of a run."""

    fields: bool = option(False, "write velocity, pressure, scalars and vorticity for ParaView (flow.pvd lists them)")
    nek: bool = option(False, "write the same fields as Nek field files (flow0.f00001, ...)")
    every: int = option(0, "steps between outputs of the fields; 0: only at the end",
                        unit="steps", ge=0)  # fmt: skip
    averages_every: int = option(
        0, "steps between samples of time averages, written for ParaView at the end; 0: none", unit="steps", ge=0
    )
    average_over: tuple[Literal["x", "y", "z"], ...] = option(
        (), "homogeneous directions, one or two, over which the time averages are averaged too, into profiles.csv"
    )
    slice: str | tuple[str, ...] = option(
        "speed",
        "fields to draw on planes: u, v, w, speed, pressure, vorticity (its magnitude), vorticity_x, _y, _z, scalars "
        'by name, or none; one, or a list; "speed@x=0.25" has a plane of its own',
    )


class FlowCase(ElementCase):
    """Incompressible flow on a box or any hexahedral mesh (Neko's and Nek5000's equations, P_N-P_N)."""

    workload: Literal["flow"] = option("flow", "the command this file is for")
    mesh: TimedMesh = section(TimedMesh)
    viscosity: Value = option(
        0.01, "kinematic viscosity: number, or expression of the parameters", unit="length^2 / time"
    )
    convection: Literal["overintegrated", "skew-symmetric"] = option(
        "overintegrated", "convection by the 3/2 rule, or in skew-symmetric form on the GLL points", sets="convection"
    )
    kernels: Literal["auto", "portable", "simd"] = option(
        "auto", "the portable kernels, or the host's SIMD kernels", sets="kernels"
    )
    parameters: dict[str, Value] = named(
        "constant to use in expressions: a number, or an expression of earlier parameters"
    )
    boundaries: dict[str, BoundarySection] = named("condition on that boundary; '*': on all other boundaries")
    initial: InitialSection = section(InitialSection)
    forcing: ForcingSection = section(ForcingSection)
    scalars: dict[str, ScalarSection] = named("scalar with that name")
    exact: ExactSection = section(ExactSection)
    time: TimeSection = section(TimeSection)
    solver: SolverSection = section(SolverSection)
    filter: FilterSection = section(FilterSection)
    probes: dict[str, ProbeSection] = named("point, line or plane with that name")
    statistics: StatisticsSection = section(StatisticsSection)
    checkpoint: CheckpointSection = section(CheckpointSection)
    output: FlowOutput = section(FlowOutput)

    @property
    def constants(self) -> dict[str, float]:
        """The values of the parameters by name, and nu, the viscosity."""
        known: dict[str, float] = {}
        for name, value in self.parameters.items():
            known[name] = constant(f"parameters.{name}", value, known)
        return known | {"nu": constant("viscosity", self.viscosity, known)}

    def number(self, key: str, value: Value) -> float:
        """The value of an expression of the parameters."""
        return constant(key, value, self.constants)

    def values(self) -> Iterator[tuple[str, Value]]:
        """Every key whose value may vary in x, y, z, t, with its value.

        A vector yields each of its components, or the single word that stands for all three ("exact", "python:name").
        """
        vectors: dict[str, Vector] = {
            "initial.velocity": self.initial.velocity,
            "forcing.acceleration": self.forcing.acceleration,
            "exact.velocity": self.exact.velocity,
        }
        scalars: dict[str, Value] = {"exact.pressure": self.exact.pressure}
        for name, boundary in self.boundaries.items():
            vectors[f"boundaries.{name}.velocity"] = boundary.velocity
            scalars |= {f"boundaries.{name}.scalars.{scalar}": value for scalar, value in boundary.scalars.items()}
            scalars |= {f"boundaries.{name}.fluxes.{scalar}": value for scalar, value in boundary.fluxes.items()}
        for name, scalar_ in self.scalars.items():
            scalars |= {f"scalars.{name}.initial": scalar_.initial, f"scalars.{name}.source": scalar_.source}
        scalars |= {f"exact.scalars.{name}": value for name, value in self.exact.scalars.items()}
        for key, vector in vectors.items():
            yield from [(key, vector)] if isinstance(vector, str) else [(key, part) for part in vector]
        yield from scalars.items()

    def references(self) -> Iterator[object]:
        """Every value that may refer to a Python function."""
        yield from super().references()
        yield from (value for _, value in self.values())

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> FlowCase:
        _check_names(self)
        for key, value in self.values():
            _check_value(self, key, value)
        positive = {f"scalars.{name}.diffusivity": scalar.diffusivity for name, scalar in self.scalars.items()}
        for key, value in [("viscosity", self.viscosity), *positive.items()]:
            if not self.number(key, value) > 0:
                raise ValueError(f"case key '{key}': found {value!r}, which is {self.number(key, value)}; "
                                 "allowed: above 0")  # fmt: skip
        for name, scalar in self.scalars.items():
            for value in (*scalar.buoyancy, scalar.reference):
                self.number(f"scalars.{name}.buoyancy", value)
        axis = "xyz".index(self.forcing.direction)
        if self.forcing.bulk_velocity and not self.mesh.file and not self.mesh.periodic[axis]:
            raise ValueError(
                f"case key 'forcing.bulk_velocity': found {self.forcing.bulk_velocity} along {self.forcing.direction}, "
                f"where the box is not periodic; allowed: 0, or mesh.periodic true along {self.forcing.direction}"
            )
        if self.time.dt and self.time.max_dt:
            raise ValueError(
                f"case key 'time.max_dt': found {self.time.max_dt}, but time.dt = {self.time.dt} fixes the step; "
                "allowed: one of them"
            )
        if self.initial.nek and self.initial.checkpoint:
            raise ValueError("case keys 'initial.nek' and 'initial.checkpoint': both are given; allowed: one of them")
        self.output.require_fields((*PLANES, *self.scalars))
        _check_probes(self)
        _check_averages(self)
        if self.output.every and not (self.output.fields or self.output.nek):
            raise ValueError(
                f"case key 'output.every': found {self.output.every}, but no fields are written; set output.fields or "
                "output.nek"
            )
        return self


def _check_probes(case: FlowCase) -> None:
    known = ("velocity", "pressure", "vorticity", *case.scalars)
    for name, probe in case.probes.items():
        if not re.fullmatch(r"\w[\w.+-]*", name):
            raise ValueError(
                f"case key 'probes.{name}': {name!r} cannot be the name of a probe, which is part of a file's name; "
                "allowed: letters, digits, _ . + -"
            )
        for field in probe.fields:
            if field not in known:
                raise ValueError(f"case key 'probes.{name}.fields': found {field!r}; allowed: {', '.join(known)}")


def _check_averages(case: FlowCase) -> None:
    over = case.output.average_over
    if over and not case.output.averages_every:
        raise ValueError(
            f"case key 'output.average_over': found {list(over)}, but no time averages are taken; set "
            "output.averages_every"
        )
    if len(set(over)) != len(over) or len(over) == 3:
        raise ValueError(
            f"case key 'output.average_over': found {list(over)}; allowed: one or two different directions"
        )


def _shown(value: Vector) -> str:
    return repr(value) if isinstance(value, str) else repr(list(value))


def _check_names(case: FlowCase) -> None:
    taken = {*VARIABLES, *CONSTANTS, *FUNCTIONS, "nu"}
    for name in case.parameters:
        if name in taken or not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(
                f"case key 'parameters.{name}': {name!r} cannot be the name of a parameter; allowed: letters, digits "
                f"and _, and none of {', '.join(sorted(taken))}"
            )
    for name in case.scalars:
        if name.lower() in FIELDS:
            raise ValueError(
                f"case key 'scalars.{name}': {name!r} cannot be the name of a scalar, because the flow has a field of "
                f"that name; allowed: any name but {', '.join(FIELDS)}"
            )
    named_scalars: dict[str, Iterable[str]] = {}
    for name, boundary in case.boundaries.items():
        named_scalars |= {f"boundaries.{name}.scalars": boundary.scalars, f"boundaries.{name}.fluxes": boundary.fluxes}
    for key, names in (named_scalars | {"exact.scalars": case.exact.scalars}).items():
        for name in names:
            if name not in case.scalars:
                known = ", ".join(case.scalars) or "none; define it in a table [scalars." + name + "]"
                raise ValueError(f"case key '{key}.{name}': scalar {name!r} is not defined; defined: {known}")


def _check_value(case: FlowCase, key: str, value: Value) -> None:
    if not isinstance(value, str):
        return
    if value == EXACT or value == "":
        within = key.startswith("exact.")
        if value == "" and within:
            return
        if value == "" or within:
            raise ValueError(f"case key '{key}': found {value!r}; allowed: {VALUE}")
        name = key.split(".")[1] if key.startswith("scalars.") else key.rpartition(".scalars.")[2]
        if key.endswith(".velocity"):
            missing = "" if case.exact.velocity else "exact.velocity"
        elif key.endswith((".acceleration", ".source")) or ".fluxes." in key:
            raise ValueError(
                f"case key '{key}': found 'exact', but the exact solution has no such value; give an expression"
            )
        else:
            missing = "" if case.exact.scalars.get(name, "") != "" else f"exact.scalars.{name}"
        if missing:
            raise ValueError(f"case key '{key}': found 'exact', but {missing} is not set; set it")
        return
    if function_name(value) or value.startswith(PYTHON):
        if not function_name(value).isidentifier():
            raise ValueError(f"case key '{key}': found {value!r}; allowed: python: followed by the name of a function")
        if not case.functions.file:
            raise ValueError(
                f"case key '{key}': found {value!r}, but functions.file is not set; set it to the file that defines "
                "the function"
            )
        return
    try:
        Expression(value, VARIABLES, case.constants)
    except ExpressionError as error:
        raise ValueError(f"case key '{key}': found {value!r}: {error}") from None
