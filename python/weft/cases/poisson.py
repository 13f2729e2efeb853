"""The case of `weft run poisson`: (S + lambda I) x = b on spectral elements, by conjugate gradients."""

from __future__ import annotations

from typing import Literal

import pydantic

from weft.cases.schema import Section, option, section
from weft.cases.shared import ElementCase


class SolverSection(Section):
    """The solver: a fixed number of iterations (the benchmark), or a solve to a tolerance."""

    iterations: int = option(100, "number of iterations of the benchmark (if solver.tolerance is 0)", ge=1)
    tolerance: float = option(
        0.0, "stop when |r| <= tolerance |b|, and fail if that is not reached; 0: run the benchmark", ge=0.0, lt=1.0
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
    warmup: int = option(2, "iterations run before the clock starts", unit="iterations", ge=0)


class PoissonCase(ElementCase):
    """hipBone's benchmark (Nekbone's problem) on a box or on any hexahedral mesh."""

    workload: Literal["poisson"] = option("poisson", "the command this file is for")
    lambda_: float = option(0.1, "screening parameter lambda of Eq. 1", alias="lambda", ge=0.0, sets="lam")
    boundary: Literal["natural", "dirichlet"] = option("natural", "condition on every boundary face")
    rhs: Literal["random", "unit", "manufactured"] = option(
        "random",
        "right-hand side: random; f = 1; or that of a smooth exact solution on a box, which prints the error",
    )
    seed: int = option(1, "seed of the random right-hand side", ge=0)
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

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> PoissonCase:
        kind = self.solver.preconditioner
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
        if self.lambda_ == 0.0 and self.boundary == "natural" and kind != "multigrid":
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
