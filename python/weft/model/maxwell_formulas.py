"""The formulas behind the figures of `weft run maxwell`, each with its source.

NekCEM is Otten et al., "An MPI/OpenACC implementation of a high-order electromagnetics solver with GPUDirect
communication". n = E (N + 1)^3 points.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.model.formulas import Formula
from weft.model.project.elements import MAXWELL_STAGES, maxwell_step_flops


def step_flops(order: int, points: int, applications: float = MAXWELL_STAGES) -> Formula:
    """Operations per time step with this many applications of the operator, counted as in NekCEM (without faces)."""
    if applications == MAXWELL_STAGES:
        return Formula(maxwell_step_flops(order, points), "[180 (N+1) + 420] n", "NekCEM Eq. 16")
    value = maxwell_step_flops(order, points) * applications / MAXWELL_STAGES
    return Formula(value, f"{applications:.3g} x [36 (N+1) + 84] n", "NekCEM Eq. 16, per application")


def gradient_flops(order: int, points: int) -> Formula:
    """Operations of NekCEM's ``local_curl_grad3``, nine derivatives of three fields, counted as in its Table 1."""
    return Formula(18.0 * (order + 1) * points, "18 (N+1) n", "NekCEM, text on Table 1")


def face_words(order: int, elements: int) -> Formula:
    """Values that one stage adds up on the faces of all elements: six fields at (N+1)^2 points on each of six faces."""
    value = 6.0 * 6 * elements * (order + 1) ** 2
    return Formula(value, "6 x 6 E (N+1)^2 per stage", "NekCEM, text after Eq. 15")


STAGES = MAXWELL_STAGES


def half_rate_size(points: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """n_1/2 and the saturated rate (points/s), fitted by t(n) = (n + n_1/2) / rate with relative errors.

    n_1/2 is the size that reaches half the rate of a large problem (Hockney's definition, NekCEM's Fig. 7). It is never
    negative. Raises ValueError for fewer than two different sizes.
    """
    n, t = np.asarray(points, float), np.asarray(seconds, float)
    if len(np.unique(n)) < 2:
        raise ValueError("n_1/2 needs runs of at least two sizes")
    # t = a + b n with weights 1 / t, so that relative errors count the same at every size.
    from scipy.optimize import nnls

    (a, b), _ = nnls(np.stack([1 / t, n / t], axis=1), np.ones(len(t)))
    return (float(a / b), float(1 / b)) if b > 0 else (float("inf"), float("inf"))
