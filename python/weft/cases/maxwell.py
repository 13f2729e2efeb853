"""The case of `weft run maxwell`: electromagnetic waves in time, discontinuous Galerkin on spectral elements."""

from __future__ import annotations

import math
from typing import Literal

import pydantic

from weft.cases.expressions import Expression, ExpressionError
from weft.cases.schema import Section, named, option, section
from weft.cases.shared import CheckpointSection, ElementCase, ElementOutput, TimedMesh, TimeSpan

Point = tuple[float, float, float]
CONDITIONS = ("pec", "pmc", "absorbing")
WHERE = "expression in x, y, z that is true in the elements to select, such as x**2 + y**2 < 1"


class RegionSection(Section):
    """A selection of elements: a region of the mesh file, a box, or where an expression is true."""

    tag: int | str = option("", "region of the mesh file: its number, or a Gmsh volume's name")
    lower: Point = option((0.0, 0.0, 0.0), "lower corner of a box", unit="length")
    upper: Point = option((0.0, 0.0, 0.0), "upper corner of a box; both zeros: no box", unit="length")
    where: str = option("", WHERE)

    @property
    def ways(self) -> list[str]:
        """The keys set that select elements."""
        found = {"tag": self.tag != "", "lower, upper": self.lower != self.upper, "where": self.where != ""}
        return [key for key, given in found.items() if given]

    @pydantic.model_validator(mode="after")
    def _one_way(self) -> RegionSection:
        if len(self.ways) > 1:
            raise ValueError(f"elements are selected by {' and by '.join(self.ways)}; allowed: one of them")
        if self.lower != self.upper and not all(a < b for a, b in zip(self.lower, self.upper, strict=True)):
            raise ValueError(
                f"box from {list(self.lower)} to {list(self.upper)}; allowed: every lower coordinate "
                f"below the upper one"
            )
        if self.where:
            try:
                Expression(self.where)
            except ExpressionError as error:
                raise ValueError(f"where = {self.where!r}: {error}") from None
        return self


class MaterialSection(RegionSection):
    """A material and its elements; a material that selects no elements fills the remaining ones."""

    epsilon: float = option(1.0, "permittivity relative to vacuum", gt=0.0)
    mu: float = option(1.0, "permeability relative to vacuum", gt=0.0)
    sigma: float = option(0.0, "conductivity", unit="1/(impedance of vacuum x length)", ge=0.0)


class TotalFieldSection(RegionSection):
    """The elements with the total field. Plane waves enter on their surface; outside it is the scattered field."""


class SourceSection(Section):
    """A dipole, or a plane wave that enters on the surface of the total field and on its absorbing boundaries.

    Both vary in time as sin(2 pi frequency s + phase) with s = t - delay, times a Gaussian bell and a ramp if given.
    """

    kind: Literal["plane-wave", "dipole"] = option("plane-wave", "kind of source")
    direction: Point = option(
        (0.0, 0.0, 1.0), "plane-wave: direction of propagation, a vector of any length", sets="direction"
    )
    field: Point = option((1.0, 0.0, 0.0), "plane-wave: amplitude of E, normal to the direction", sets="field")
    at: Point = option(
        (0.0, 0.0, 0.0), "dipole: its position; plane-wave: the point where s = t - delay", unit="length"
    )
    moment: Point = option((0.0, 0.0, 1.0), "dipole: amplitude of the current times length", sets="moment")
    frequency: float = option(
        1.0, "periods per unit of time", unit="speed of light / length", ge=0.0, sets="pulse.frequency"
    )
    phase: float = option(0.0, "phase of the oscillation", unit="radian", sets="pulse.phase")
    delay: float = option(0.0, "delay of the pulse", unit="length / speed of light", sets="pulse.delay")
    width: float = option(
        0.0, "width of the Gaussian bell exp(-(s / width)^2); 0: no bell", unit="length / c", ge=0.0, sets="pulse.width"
    )
    ramp: float = option(
        0.0,
        "duration of the sin^2 ramp that switches the source on; 0: always on",
        unit="length / c",
        ge=0.0,
        sets="pulse.ramp",
    )

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> SourceSection:
        if self.kind == "plane-wave":
            along = sum(a * b for a, b in zip(self.direction, self.field, strict=True))
            sizes = math.hypot(*self.direction), math.hypot(*self.field)
            if not min(sizes) or abs(along) > 1e-9 * sizes[0] * sizes[1]:
                raise ValueError(
                    f"direction = {list(self.direction)} and field = {list(self.field)}; "
                    "allowed: two vectors that are not 0 and normal to each other"
                )
        return self


class LayerSection(Section):
    """Perfectly matched layers along the sides of the mesh, which must have the shape of a box there."""

    thickness: float = option(
        0.0, "thickness of the layer, best a whole number of elements; 0: no layer", unit="length", ge=0.0
    )
    sides: tuple[Literal["x-", "x+", "y-", "y+", "z-", "z+"], ...] = option(
        ("x-", "x+", "y-", "y+", "z-", "z+"), "sides that have a layer"
    )
    reflection: float = option(1e-6, "fraction of a wave at normal incidence that is reflected", gt=0.0, lt=1.0)
    power: float = option(3.0, "the damping grows as this power of the depth", ge=0.0)


class MaxwellMesh(TimedMesh):
    """The mesh file, or a box, a cylinder or concentric spheres that weft generates."""

    shape: Literal["box", "cylinder", "sphere"] = option("box", "shape generated if mesh.file is empty")
    periodic: tuple[bool, bool, bool] = option((True, True, True), "periodic in x, y, z (a cylinder: in z)")
    radii: tuple[float, ...] = option(
        (1.0,), "cylinder: its radius; sphere: increasing radii of the spheres", unit="length"
    )
    length: float = option(1.0, "length of the cylinder, from z = 0", unit="length", gt=0.0)
    side: int = option(2, "cylinder, sphere: elements along an edge of the square or cube in the middle", ge=1)
    layers: int = option(1, "cylinder, sphere: number of layers of elements out to each radius", ge=1)
    slices: int = option(4, "cylinder: elements along z", ge=1)
    half_width: float = option(0.0, "sphere: half edge of the cube around it; 0: no cube", unit="length", ge=0.0)
    box_layers: tuple[float, ...] = option((), "sphere: thicknesses of the layers around the cube", unit="length")


class InitialSection(Section):
    """The fields at time 0, which also define the exact solution that the run is compared with."""

    field: Literal[
        "zero", "random", "expressions", "plane-wave", "box-mode", "cylinder-mode", "layered-mode", "sphere"
    ] = option(
        "plane-wave",
        "plane-wave in a periodic box; box-mode, cylinder-mode, layered-mode between conducting walls; "
        "sphere: Mie series of the case's plane wave (total and scattered field)",
    )
    waves: tuple[int, int, int] = option((1, 0, 0), "plane-wave: periods along the box in x, y, z")
    polarization: Point = option((0.0, 0.0, 1.0), "plane-wave: direction of E; its component along the wave is removed")
    kind: Literal["te", "tm"] = option("te", "modes: te or tm to z; layers: E (te) or H (tm) along z")
    mode: tuple[int, int, int] = option(
        (1, 1, 1), "box: half waves in x, y, z; cylinder: m, n, periods along z; layers: number, periods along y, 0"
    )
    checkpoint: str = option(
        "", "checkpoint to continue from, or a folder whose newest is used; empty: start from initial.field"
    )
    zero: bool = option(False, "sphere: start from zero fields instead, and compare at the end")
    amplitude: float = option(1.0, "factor that multiplies the initial fields")
    ex: str = option("", 'expression in x, y, z for Ex (field = "expressions"); empty: 0')
    ey: str = option("", "expression for Ey")
    ez: str = option("", "expression for Ez")
    hx: str = option("", "expression for Hx")
    hy: str = option("", "expression for Hy")
    hz: str = option("", "expression for Hz")
    seed: int = option(1, "seed of the random fields", ge=0, lt=2**63)

    @property
    def expressions(self) -> dict[str, str]:
        """The expression of each component, by key."""
        return {key: getattr(self, key) for key in ("ex", "ey", "ez", "hx", "hy", "hz")}

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> InitialSection:
        for key, text in self.expressions.items():
            if text and self.field != "expressions":
                raise ValueError(
                    f"case key 'initial.{key}': found {text!r} with initial.field = {self.field!r}; "
                    'allowed: initial.field = "expressions"'
                )
            if text:
                try:
                    Expression(text)
                except ExpressionError as error:
                    raise ValueError(f"case key 'initial.{key}': found {text!r}: {error}") from None
        if self.field == "plane-wave" and not any(self.waves):
            raise ValueError("case key 'initial.waves': found [0, 0, 0]; allowed: at least one period in one direction")
        return self


class TimeSection(TimeSpan):
    """Time steps and time integrator."""

    integrator: Literal["runge-kutta", "exponential"] = option(
        "runge-kutta",
        "low-storage Runge-Kutta, order 4 in 5 stages; or exp(dt A) in a Krylov space, for any time step",
        sets="integrator",
    )
    krylov_dimension: int = option(
        20, "exponential: dimension of the Krylov space", ge=2, le=200, sets="krylov_dimension"
    )
    krylov_tolerance: float = option(
        1e-9, "exponential: error per step relative to the fields", gt=0.0, lt=1.0, sets="krylov_tolerance"
    )
    courant: float = option(
        0.9, "time step relative to the largest stable one, which weft estimates", gt=0.0, instead_of=("time.dt",)
    )
    dt: float = option(
        0.0, "time step; 0: from time.courant", unit="length / speed of light", ge=0.0, instead_of=("time.courant",)
    )
    warmup: int = option(2, "steps run before timing starts", unit="steps", ge=0)


class MaxwellOutput(ElementOutput):
    """The output of a run."""

    every: int = option(
        0, "steps between energies, blow-up checks and progress; 0: about 20 times per run", unit="steps", ge=0
    )
    slice: str | tuple[str, ...] = option(
        "e",
        "fields to draw on planes: ex, ey, ez, hx, hy, hz, e or h (the magnitudes), or none; one, or a list; "
        '"ex@y=0.25" has a plane of its own',
    )


class MaxwellCase(ElementCase):
    """NekCEM's time-dependent Maxwell equations on a box, cylinder, sphere or any hexahedral mesh."""

    workload: Literal["maxwell"] = option("maxwell", "the command this file is for")
    mesh: MaxwellMesh = section(MaxwellMesh)
    flux: Literal["upwind", "central"] = option(
        "upwind", "flux between elements: upwind dissipates jumps, central does not", sets="flux"
    )
    kernels: Literal["auto", "portable", "simd"] = option(
        "auto", "the portable kernels, or the host's SIMD kernels", sets="kernels"
    )
    materials: dict[str, MaterialSection] = named("materials by name; elements without a material are vacuum")
    boundaries: dict[str, Literal["pec", "pmc", "absorbing"]] = named(
        "condition on that boundary; '*': on all other boundaries"
    )
    initial: InitialSection = section(InitialSection)
    time: TimeSection = section(TimeSection)
    sources: dict[str, SourceSection] = named("plane wave or dipole with that name")
    total_field: TotalFieldSection = section(TotalFieldSection)
    layer: LayerSection = section(LayerSection)
    probes: dict[str, Point] = named("point at which the six field components are written every step", unit="length")
    checkpoint: CheckpointSection = section(CheckpointSection)
    output: MaxwellOutput = section(MaxwellOutput)

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> MaxwellCase:
        self.output.require_fields(("ex", "ey", "ez", "hx", "hy", "hz", "e", "h"))
        rest = [name for name, material in self.materials.items() if not material.ways]
        if len(rest) > 1:
            raise ValueError(
                f"case keys 'materials.{rest[0]}' and 'materials.{rest[1]}': neither selects elements; "
                "allowed: one such material (give the other tag, lower and upper, or where)"
            )
        if self.time.integrator == "exponential" and (self.sources or self.layer.thickness):
            raise ValueError(
                "case key 'time.integrator': found 'exponential', which supports neither sources nor perfectly matched "
                "layers; "
                "use runge-kutta"
            )
        waves = [name for name, source in self.sources.items() if source.kind == "plane-wave"]
        if waves and not self.total_field.ways and "absorbing" not in self.boundaries.values():
            raise ValueError(
                f"case key 'sources.{waves[0]}': a plane wave enters on the surface of the total field, but no total "
                "field is given; set total_field.where (or tag, or lower and upper)"
            )
        if self.initial.field == "sphere" and (len(self.sources) != 1 or len(waves) != 1):
            raise ValueError(
                f"case key 'initial.field': found 'sphere' with {len(self.sources)} sources; allowed: one plane wave"
            )
        if self.mesh.file == "" and self.mesh.shape == "cylinder" and len(self.mesh.radii) != 1:
            raise ValueError(f"case key 'mesh.radii': found {list(self.mesh.radii)}; a cylinder has one radius")
        if not all(math.isfinite(r) and r > 0 for r in self.mesh.radii):
            raise ValueError(f"case key 'mesh.radii': found {list(self.mesh.radii)}; allowed: numbers above 0")
        return self
