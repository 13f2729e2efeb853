"""The case of `weft run poisson`: (S + lambda I) x = b on spectral elements, by conjugate gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pydantic

from weft.cases.expressions import Expression, ExpressionError
from weft.cases.schema import Section, named, option, section
from weft.cases.shared import ElementCase, PlaneOutput
from weft.cases.values import EXACT, PYTHON, Value, constant, function_name

PLACES = ("x", "y", "z")
VALUE = 'number, expression in x, y, z, or "python:name" (a function in functions.file)'
SOURCES = ("random", "unit", "manufactured")  # right-hand sides by name


class BoundarySection(Section):
    """The condition on one boundary of the mesh: a value (Dirichlet) or a flux (Neumann)."""

    value: Value = option("", f'value of u on the boundary: {VALUE}, or "exact"; empty: a flux is given', unit="of u")
    flux: Value = option("", f"coefficient times the outward derivative of u: {VALUE}", unit="of u / length")

    @pydantic.model_validator(mode="after")
    def _one(self) -> BoundarySection:
        if (self.value == "") == (self.flux == ""):
            raise ValueError("give a value or a flux; allowed: one of them")
        return self


class SolverSection(Section):
    """The solver: a fixed number of iterations (the benchmark), or a solve to a tolerance."""

    iterations: int = option(
        100, "number of iterations of the benchmark (if solver.tolerance is 0)", ge=1, instead_of=("solver.tolerance",)
    )
    tolerance: float = option(
        0.0,
        "stop when |r| <= tolerance |b|, and fail if that is not reached; 0: run the benchmark",
        ge=0.0,
        lt=1.0,
        instead_of=("solver.iterations",),
    )
    max_iterations: int = option(5000, "maximum number of iterations of a solve to a tolerance", ge=1)
    preconditioner: Literal["none", "jacobi", "chebyshev", "multigrid"] = option(
        "none",
        "multigrid: a V-cycle over decreasing orders; chebyshev: its smoother alone; both need solver.tolerance",
    )
    method: Literal["cg", "gmres"] = option("cg", "flexible Krylov method used with chebyshev and multigrid")
    restart: int = option(30, "number of directions that gmres keeps", ge=1, le=200)
    levels: list[int] = option([], "orders of the multigrid levels, from N down to 1; empty: N, N/2, ..., 1")
    smoother: Literal["auto", "chebyshev-jacobi", "schwarz", "chebyshev-schwarz"] = option(
        "auto", "multigrid smoother; auto: schwarz if all elements are boxes, otherwise chebyshev-schwarz"
    )
    degree: int = option(3, "degree of the Chebyshev smoother: applications of the operator per sweep", ge=1, le=4)
    cycle_precision: Literal["auto", "single", "double"] = option(
        "auto", "precision of the multigrid cycle; auto: single, which halves the bytes moved"
    )
    algorithm: Literal["auto", "classic", "merged"] = option(
        "auto", "merged: vector updates and sums run inside the operator's loop (host); classic: the paper's kernels"
    )
    warmup: int = option(2, "iterations run before timing starts", unit="iterations", ge=0)


class PoissonOutput(PlaneOutput):
    """The output of a run."""

    slice: str | tuple[str, ...] = option(
        "auto",
        "fields to draw on planes: u (and rhs, coefficient, error in a problem of your own), or none; auto: u, but "
        'nothing for a benchmark; one, or a list; "u@x=0.25" has a plane of its own',
    )


class PoissonCase(ElementCase):
    """hipBone's benchmark (Nekbone's problem) on a box or on any hexahedral mesh."""

    workload: Literal["poisson"] = option("poisson", "the command this file is for")
    lambda_: float = option(0.1, "screening parameter lambda of Eq. 1", alias="lambda", ge=0.0, sets="lam")
    boundary: Literal["natural", "dirichlet"] = option(
        "natural", "condition on boundaries for which the case sets none: no flux, or u = 0"
    )
    boundaries: dict[str, BoundarySection] = named("condition on that boundary; '*': on all other boundaries")
    rhs: Value = option(
        "random",
        "right-hand side: random; unit: f = 1; manufactured: that of a smooth exact solution on a box, whose error is "
        f"printed; or f of -div(coefficient grad u) + screening u = f: {VALUE}",
    )
    coefficient: Value = option(1.0, f"coefficient of the gradient, above 0: {VALUE}")
    screening: Value = option(0.0, f"coefficient of u, at least 0: {VALUE}")
    exact: Value = option("", f"exact solution, with which u is compared: {VALUE}; empty: not known", unit="of u")
    parameters: dict[str, Value] = named(
        "constant to use in expressions: a number, or an expression of earlier parameters"
    )
    seed: int = option(1, "seed of the random right-hand side", ge=0, lt=2**63)
    storage: Literal["assembled", "scattered"] = option(
        "assembled", "vectors store each point once (hipBone), or once per element (Nekbone)", sets="storage"
    )
    geometry: Literal["auto", "stored", "trilinear", "mixed"] = option(
        "auto",
        "geometric factors: read from memory, computed from the corners (straight elements only), or mixed: each "
        "element by its shape",
        sets="geometry",
    )
    kernels: Literal["auto", "portable", "simd"] = option(
        "auto", "the portable kernels, or the host's SIMD operator", sets="kernels"
    )
    solver: SolverSection = section(SolverSection)
    output: PoissonOutput = section(PoissonOutput)

    @property
    def constants(self) -> dict[str, float]:
        """The values of the parameters by name."""
        known: dict[str, float] = {}
        for name, value in self.parameters.items():
            known[name] = constant(f"parameters.{name}", value, known)
        return known

    @property
    def own_problem(self) -> bool:
        """Whether the case states a problem of its own rather than a benchmark."""
        return self.rhs not in SOURCES

    def values(self) -> Iterator[tuple[str, Value]]:
        """Every key whose value may vary in space, with its value, if it has one."""
        found: dict[str, Value] = {"coefficient": self.coefficient, "screening": self.screening, "exact": self.exact}
        if self.own_problem:
            found["rhs"] = self.rhs
        for name, boundary in self.boundaries.items():
            found |= {f"boundaries.{name}.value": boundary.value, f"boundaries.{name}.flux": boundary.flux}
        yield from ((key, value) for key, value in found.items() if value != "")

    def references(self) -> Iterator[object]:
        """Every value that may refer to a Python function."""
        yield from super().references()
        yield from (value for _, value in self.values())

    @pydantic.model_validator(mode="after")
    def _values_are_valid(self) -> PoissonCase:
        if self.output.slice == "auto":
            self.output.slice = "u" if self.own_problem or self.rhs == "manufactured" else "none"
        own = ("rhs", "coefficient", *(("error",) if self.exact != "" else ()))
        self.output.require_fields(("u", *own) if self.own_problem else ("u",))
        for key, value in self.values():
            if value == EXACT and key.endswith(".value"):
                if self.exact == "":
                    raise ValueError(f"case key '{key}': found 'exact', but exact is not set; set it")
                continue
            if isinstance(value, str) and value.startswith(PYTHON):
                if not function_name(value).isidentifier() or not self.functions.file:
                    raise ValueError(
                        f"case key '{key}': found {value!r}; allowed: python: followed by the name of a function in "
                        "functions.file, which has to be set"
                    )
            elif isinstance(value, str):
                try:
                    Expression(value, PLACES, self.constants)
                except ExpressionError as error:
                    words = f"; allowed too: {', '.join(SOURCES)}" if key == "rhs" else ""
                    raise ValueError(f"case key '{key}': found {value!r}: {error}{words}") from None
        if not self.own_problem:
            given = [
                key for key, value in self.values() if (key, value) not in (("coefficient", 1.0), ("screening", 0.0))
            ]
            if given:
                raise ValueError(
                    f"case key '{given[0]}': given with rhs = {self.rhs!r}, which is a benchmark's; set rhs to the "
                    "right-hand side of your problem"
                )
        elif self.lambda_ != 0.0:
            if "lambda_" in self.model_fields_set:
                raise ValueError(
                    f"case key 'lambda': found {self.lambda_}, but it multiplies the identity, not u; allowed: 0 with "
                    "a right-hand side of your own; for a term c u set screening"
                )
            self.lambda_ = 0.0
        if self.own_problem and self.solver.tolerance == 0.0:
            raise ValueError(
                "case key 'solver.tolerance': found 0.0, which selects the benchmark; allowed with a right-hand side "
                "of your own: above 0, such as 1e-10"
            )
        if self.coefficient != 1.0 and self.geometry == "trilinear":
            raise ValueError(
                "case key 'geometry': found 'trilinear', which does not support a coefficient; allowed: stored"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> PoissonCase:
        kind = self.solver.preconditioner
        if self.screening != 0.0 and self.solver.algorithm == "merged":
            raise ValueError(
                "case key 'solver.algorithm': found 'merged', which does not support a screening term; allowed: auto | "
                "classic"
            )
        if kind in ("chebyshev", "multigrid"):
            if self.solver.tolerance == 0.0:
                raise ValueError(
                    f"case key 'solver.preconditioner': found {kind!r} with solver.tolerance = 0, which selects the "
                    "benchmark; allowed: none | jacobi, or solver.tolerance above 0"
                )
            if self.storage != "assembled":
                raise ValueError(
                    f"case key 'storage': found {self.storage!r} with solver.preconditioner = {kind!r}; "
                    "allowed: assembled"
                )
        levels = self.solver.levels
        falling = levels[:1] == [self.order] and levels[-1:] == [1] and levels == sorted(set(levels), reverse=True)
        if levels and not falling:
            example = [self.order, *([3] if self.order > 3 else []), 1]
            raise ValueError(
                f"case key 'solver.levels': found {levels}; allowed: decreasing orders from {self.order} to 1, "
                f"such as {example}"
            )
        held = self.boundary == "dirichlet" or any(b.value != "" for b in self.boundaries.values())
        if self.lambda_ == 0.0 and self.screening == 0.0 and not held and kind != "multigrid":
            raise ValueError(
                "case key 'lambda': found 0.0, but with boundary = \"natural\" the operator is then singular; "
                'allowed: lambda above 0, boundary = "dirichlet", or solver.preconditioner = "multigrid"'
            )
        if self.rhs == "manufactured" and (self.mesh.file or self.mesh.map):
            key, found = ("file", self.mesh.file) if self.mesh.file else ("map", self.mesh.map)
            raise ValueError(
                f"case key 'rhs': found 'manufactured' with mesh.{key} = {found!r}; "
                "the exact solution is that of a box; allowed for other meshes: random | unit"
            )
        return self
