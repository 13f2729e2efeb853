"""The formulas behind the limits of `weft run flow`: least bytes and operations of two phases of a step on a host.

Convection and the solve of the velocities are counted, with SIMD kernels. The solve of the pressure is not: nothing
counts what the cycles of multigrid move. N_G is the number of unknowns of a field.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.model import formulas
from weft.model.formulas import Formula, Method, Size
from weft.model.project.elements import SUBTRACTION_WORDS, VELOCITIES, extrapolation_words

SOURCE = "docs/figures.md"


@dataclass(frozen=True)
class Phase:
    """Least bytes and operations of a phase of a step, on all ranks."""

    bytes: Formula
    flops: Formula


def convection(size: Size, term: tuple[float, float], components: int, time_order: int) -> Phase:
    """The convective terms, with bytes and operations `term`, and their extrapolation with that of the fields."""
    words = extrapolation_words(components, time_order)
    products = 4 * time_order * components  # a sum over the levels of each, and their combination
    return Phase(
        Formula(term[0] + words * size.word * size.dofs, f"convection + {words * size.word} N_G", SOURCE),
        Formula(term[1] + products * size.dofs, f"convection + {products} N_G", SOURCE),
    )


def velocity(size: Size, method: Method, gradient: tuple[float, float], iterations: float) -> Phase:
    """The gradient of the pressure, with bytes and operations `gradient`, and the solve for the three velocities.

    The first residual takes an application of the operator and a pass over vectors, each of the `iterations` one pass
    over memory, and the last update of the velocities another. Masks of boundary conditions are not counted.
    """
    k, w, n = VELOCITIES, size.word, size.dofs
    common = 2  # the mass and the preconditioner
    # The operator on k fields reads x and writes A x; geometry and indices are read once.
    operator = formulas.weft_operator_bytes(size, method).value + (k - 1) * 2 * w * n
    # Beyond that, the first residual reads x, A x and r, and writes r and p; an iteration reads and writes x, r, p and
    # A p, of which the operator's count has two.
    words = SUBTRACTION_WORDS + 5 * k + common + iterations * ((8 - 2) * k + common) + (3 * k if iterations > 0 else 0)
    moved = gradient[0] + (1 + iterations) * operator + words * w * n
    # The metric of trilinear elements is computed once for all fields; for the others it is like one that is stored.
    known = replace(method, geometry="mixed", stored_elements=size.elements - method.parallelepipeds)
    lambdas = 2 * n  # the count of the operator includes a term that is not used here
    applied = formulas.weft_operator_flops(size, method).value - lambdas
    applied += (k - 1) * (formulas.weft_operator_flops(size, known).value - lambdas)
    # Per field: subtraction 1; the first residual and its two sums 10; in an iteration x, r and p 7, the mass 3, and
    # seven sums 14; the last update 2.
    vectors = k * (1 + 10 + 24 * iterations + (2 if iterations > 0 else 0))
    done = gradient[1] + (1 + iterations) * applied + vectors * n
    text = f"gradient + {1 + iterations:.3g} operator(3)"
    return Phase(
        Formula(moved, f"{text} + {words * w:.4g} N_G", SOURCE), Formula(done, f"{text} + {vectors:.4g} N_G", SOURCE)
    )
