"""CPU cores needed per GPU: fits of Eqs. 5 and 6, and of T = alpha + beta exp(-lambda c) (sections 4.3, 6).

"The report" is ECP-HIHE01-35 (2021). Its T_inf = t_MPI + t_OMP is an error: the limit of Eq. 6 is t_mpi + c_seq.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from weft.model.result import (
    Inputs,
    ModelError,
    Result,
    exact,
    percentiles,
    require_finite,
    require_positive,
    resample,
    rounded_result,
)

METHOD = "ratio"
Fit = TypeVar("Fit")
TERMS = ("c_seq", "c_MPI", "c_OMP", "c_hybrid")
FEWER = "--terms c_seq,c_hybrid takes processes and threads as alike (Amdahl's law)"
WORST_CONDITION = 1e6  # of columns scaled to unit length; above it, the fit does not determine the single terms


@dataclass(frozen=True)
class Run:
    """One timed job: processes per GPU, threads per process, run time and time in MPI (s)."""

    processes: int
    threads: int
    t_total: float
    t_mpi: float = 0.0

    def __post_init__(self) -> None:
        require_positive(processes=self.processes, threads=self.threads, t_total=self.t_total)
        require_finite(t_mpi=self.t_mpi)
        if not 0 <= self.t_mpi < self.t_total:
            raise ModelError(
                f"t_mpi is {self.t_mpi:g} s, but must be between zero and t_total, which is {self.t_total:g} s"
            )


@dataclass(frozen=True)
class Scaling:
    """Eq. 6: t_mpi and the terms c of Eq. 5, in seconds. Terms that were not fitted are zero."""

    t_mpi: float
    c_seq: float
    c_MPI: float = 0.0  # noqa: N815 (the report's names)
    c_OMP: float = 0.0  # noqa: N815
    c_hybrid: float = 0.0

    def time(self, processes: float, threads: float) -> float:
        """T_model(n_MPI, n_OMP) of Eq. 6."""
        return (
            self.t_mpi + self.c_seq + self.c_MPI / processes + self.c_OMP / threads
            + self.c_hybrid / (processes * threads)
        )  # fmt: skip

    @property
    def limit(self) -> float:
        """T_inf, the limit of Eq. 6 for infinitely many processes and threads."""
        return self.t_mpi + self.c_seq


def design(runs: Sequence[Run], terms: Sequence[str]) -> NDArray[np.float64]:
    """The columns of Eq. 5 named by `terms`, with one row per run."""
    columns = {
        "c_seq": [1.0 for _ in runs],
        "c_MPI": [1.0 / r.processes for r in runs],
        "c_OMP": [1.0 / r.threads for r in runs],
        "c_hybrid": [1.0 / (r.processes * r.threads) for r in runs],
    }
    unknown = set(terms) - set(columns)
    if unknown:
        raise ModelError(f"unknown term {', '.join(sorted(unknown))}; the terms are {', '.join(TERMS)}")
    return np.array([columns[t] for t in terms]).T


def condition(matrix: NDArray[np.float64]) -> float:
    """The condition number of the columns scaled to unit length."""
    return float(np.linalg.cond(matrix / np.linalg.norm(matrix, axis=0)))


def determined_terms(runs: Sequence[Run]) -> tuple[str, ...]:
    """The terms of Eq. 5 that the runs can tell apart, because they vary the numbers of processes or threads."""
    several_processes = len({r.processes for r in runs}) > 1
    several_threads = len({r.threads for r in runs}) > 1
    if several_processes and several_threads:
        return TERMS
    if several_processes:
        return ("c_seq", "c_MPI")
    if several_threads:
        return ("c_seq", "c_OMP")
    raise ModelError(
        "under-determined: all runs have the same number of processes and of threads; vary at least one of them"
    )


def fit(runs: Sequence[Run], terms: Sequence[str] | None = None) -> Scaling:
    """A fit of Eq. 5 by least squares with non-negative terms; t_mpi is the mean over the runs.

    Without `terms`, fits all terms that the runs can tell apart. Raises ModelError if the data under-determine them.
    """
    if not runs:
        raise ModelError("no run is given: name the ratio.json of 'weft bench ratio' or run records, or give --point")
    chosen = tuple(terms) if terms is not None else determined_terms(runs)
    matrix = design(runs, chosen)
    points = {(r.processes, r.threads) for r in runs}
    if len(points) < len(chosen):
        raise ModelError(
            f"under-determined: the runs have {len(points)} combinations of processes and threads, but {len(chosen)} "
            f"terms ({', '.join(chosen)}) need at least {len(chosen)}; add runs, or fit fewer terms: {FEWER}"
        )
    if np.linalg.matrix_rank(matrix) < len(chosen) or condition(matrix) > WORST_CONDITION:
        raise ModelError(
            f"under-determined: the runs cannot tell {', '.join(chosen)} apart; vary processes and threads "
            f"independently (e.g. 1, 2, 4 of each), or fit fewer terms: {FEWER}"
        )
    return solve(runs, chosen, [r.t_total - r.t_mpi for r in runs])


def solve(runs: Sequence[Run], terms: Sequence[str], outside_mpi: Sequence[float]) -> Scaling:
    """The terms of Eq. 5 for runs that spend these times (s) outside MPI."""
    values, _ = optimize.nnls(design(runs, terms), np.array(outside_mpi))
    t_mpi = math.fsum(r.t_mpi for r in runs) / len(runs)
    found = dict(zip(terms, (float(v) for v in values), strict=True))
    return Scaling(t_mpi, found.pop("c_seq", 0.0), **found)


def rms_error(scaling: Scaling, runs: Sequence[Run]) -> float:
    """The root-mean-square difference between Eq. 6 and the runs, in seconds."""
    return math.sqrt(
        math.fsum((scaling.time(r.processes, r.threads) - scaling.t_mpi - (r.t_total - r.t_mpi)) ** 2 for r in runs)
        / len(runs)
    )


def require_efficiency(efficiency: float) -> None:
    """Raises ModelError unless the efficiency is strictly between 0 and 1."""
    if not 0 < efficiency < 1:
        raise ModelError(f"efficiency is {efficiency:g}, but must be between 0 and 1 (exclusive), such as 0.9")


@dataclass(frozen=True)
class Cores:
    """An optimum of Eq. 6. The numbers are not rounded up to whole processes and threads."""

    processes: float
    threads: float

    @property
    def count(self) -> float:
        """The cores per GPU, n_core = n_MPI n_OMP."""
        return self.processes * self.threads


def cores_needed(scaling: Scaling, efficiency: float = 0.9, *, least_threads: float = 1.0) -> Cores:
    """The smallest n_MPI n_OMP with T_inf / T_model >= efficiency and both at least 1, in closed form.

    `least_threads` is a larger lower bound on n_OMP, as section 6.2 sets for Sigma. With q = T_inf (1/efficiency - 1)
    the constraint is c_MPI / p + c_OMP / t + c_hybrid / (p t) <= q. On its boundary p = (c_MPI + c_hybrid / t) /
    (q - c_OMP / t), and p t has one minimum, at t = (c_OMP + sqrt(c_OMP^2 + q c_hybrid c_OMP / c_MPI)) / q.
    """
    require_efficiency(efficiency)
    if not 1 <= least_threads < math.inf:
        raise ModelError(f"least_threads is {least_threads:g}, but must be at least 1")
    if scaling.limit <= 0:
        raise ModelError(
            "t_mpi + c_seq is zero: the runs scale perfectly, so there is no limit of which "
            f"{100 * efficiency:g} % could be reached"
        )
    slack = scaling.limit * (1 / efficiency - 1)
    if slack > scaling.c_MPI:
        alone = max(least_threads, (scaling.c_OMP + scaling.c_hybrid) / (slack - scaling.c_MPI))
        if scaling.c_MPI == 0:
            return Cores(1.0, alone)  # p t decreases with t until one process suffices
    else:
        alone = math.inf
    root = math.sqrt(scaling.c_OMP**2 + slack * scaling.c_hybrid * scaling.c_OMP / scaling.c_MPI)
    threads = max(least_threads, (scaling.c_OMP + root) / slack)
    if threads >= alone:
        return Cores(1.0, alone)
    processes = (scaling.c_MPI + scaling.c_hybrid / threads) / (slack - scaling.c_OMP / threads)
    return Cores(max(1.0, processes), threads)


def scaling_results(
    runs: Sequence[Run], efficiency: float = 0.9, terms: Sequence[str] | None = None, least_threads: float = 1.0
) -> list[Result]:
    """The fitted terms of Eq. 5 and the cores needed per GPU (Eq. 6), each with its bootstrap range."""
    scaling = fit(runs, terms)
    chosen = tuple(terms) if terms is not None else determined_terms(runs)
    inputs = {"runs": len(runs), "terms": ", ".join(chosen), "RMS error (s)": rms_error(scaling, runs)}
    quantities: list[Quantity[Scaling]] = [(name, "s", attrgetter(name), "Eq. 5") for name in ("t_mpi", *chosen)]
    quantities.append(("T_inf = t_mpi + c_seq", "s", lambda s: s.limit, "limit of Eq. 6"))

    def cores(found: Scaling) -> float:
        return cores_needed(found, efficiency, least_threads=least_threads).count

    quantity = f"cores per GPU for {100 * efficiency:g} % of the asymptotic performance"
    quantities.append((quantity, "cores", cores, "Eq. 6"))
    fitted = [scaling.time(r.processes, r.threads) - scaling.t_mpi for r in runs]
    residuals = [r.t_total - r.t_mpi - f for r, f in zip(runs, fitted, strict=True)]

    def refit(some: Sequence[float]) -> Scaling:
        return solve(runs, chosen, [f + e for f, e in zip(fitted, some, strict=True)])

    spare = len(runs) > len(chosen)
    return fit_results(quantities, scaling, residuals if spare else [], len(chosen), refit, inputs)


Quantity = tuple[str, str, Callable[[Fit], float], str]  # name, unit, function of a fit, equation


def fit_results(
    quantities: Sequence[Quantity[Fit]],
    fitted: Fit,
    residuals: Sequence[float],
    parameters: int,
    refit: Callable[[Sequence[float]], Fit],
    inputs: Inputs,
) -> list[Result]:
    """Functions of a fit with their bootstrap ranges over its residuals, or without ranges if there are no residuals.

    Resampling residuals instead of runs keeps one run per combination (Efron and Tibshirani 1993, section 9.5). The
    residuals of a fit of p parameters to n points are too small by sqrt((n - p) / n), which is corrected.
    """
    if not residuals:
        return [
            exact(METHOD, q, function(fitted), unit, inputs, equation) for q, unit, function, equation in quantities
        ]
    centre = math.fsum(residuals) / len(residuals)
    swell = math.sqrt(len(residuals) / max(1, len(residuals) - parameters))
    fits = resample([swell * (r - centre) for r in residuals], refit, resamples=300)
    range_is = f"95 % bootstrap over {len(residuals)} residuals"
    results = []
    for quantity, unit, function, equation in quantities:
        value = function(fitted)
        values = [v for v in (defined(function, f) for f in fits) if v is not None]
        if len(values) < len(fits) / 2:  # most fits have no limit, so there is no meaningful range
            results.append(exact(METHOD, quantity, value, unit, inputs, equation))
            continue
        low, high = percentiles(values)
        results.append(
            Result(METHOD, quantity, value, unit, min(low, value), max(high, value), inputs, equation, range_is)
        )
    return results


def defined(function: Callable[[Fit], float], fit: Fit) -> float | None:
    """The function of a fit, or None if this fit does not determine it, as when scaling is perfect."""
    try:
        return function(fit)
    except ModelError:
        return None


# --- the decaying exponential ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decay:
    """Section 4.3.2: T = alpha + beta exp(-lambda c), in seconds for c cores per GPU; `decay` is lambda, in 1/core."""

    alpha: float
    beta: float
    decay: float

    def __post_init__(self) -> None:
        require_positive(alpha=self.alpha, decay=self.decay)
        require_finite(beta=self.beta)
        if self.beta < 0:
            raise ModelError(f"beta is negative ({self.beta:g}): more cores would increase the run time")

    def time(self, cores: float) -> float:
        """T(c) in seconds."""
        return self.alpha + self.beta * math.exp(-self.decay * cores)

    def efficiency(self, cores: float) -> float:
        """T(infinity) / T(c)."""
        return self.alpha / self.time(cores)


def decay_cores(decay: Decay, efficiency: float = 0.9) -> float:
    """The cores per GPU at which alpha / T(c) reaches `efficiency`: ln(beta / (alpha (1/efficiency - 1))) / lambda."""
    require_efficiency(efficiency)
    if decay.beta <= decay.alpha * (1 / efficiency - 1):
        return 0.0  # reached without any cores
    return math.log(decay.beta / (decay.alpha * (1 / efficiency - 1))) / decay.decay


def fit_decay(points: Sequence[tuple[float, float]]) -> Decay:
    """A fit of alpha, beta and lambda to (cores, seconds); for each lambda, alpha and beta are linear least squares.

    Raises ModelError for fewer than three different numbers of cores, or if the times do not fall and level off.
    """
    for count, elapsed in points:
        require_positive(cores=count, seconds=elapsed)
    different = len({c for c, _ in points})
    if different < 3:
        raise ModelError(
            "under-determined: alpha, beta and lambda need runs on at least 3 different numbers of cores, ideally 5, "
            f"but there are {different}"
        )
    cores = np.array([c for c, _ in points])
    seconds = np.array([t for _, t in points])
    span = float(cores.max() - cores.min())

    def linear(log_decay: float) -> tuple[float, NDArray[np.float64]]:
        matrix = np.stack([np.ones_like(cores), np.exp(-math.exp(log_decay) * (cores - cores.min()))], axis=1)
        values, *_ = np.linalg.lstsq(matrix, seconds, rcond=None)
        return float(np.sum((matrix @ values - seconds) ** 2)), values

    # From a decay that is linear over all points to one that ends before the second point.
    step = float(np.diff(np.unique(cores)).min())
    lowest, highest = math.log(1e-3 / span), math.log(30 / step)
    grid = np.linspace(lowest, highest, 80)
    best = int(np.argmin([linear(x)[0] for x in grid]))
    if best == 0:
        raise ModelError("the times do not level off, so alpha is not determined: add runs on more cores")
    if best == len(grid) - 1:
        raise ModelError(
            "the times level off at the second number of cores already, so lambda is not determined: add runs on fewer "
            "cores"
        )
    bounds = (grid[best - 1], grid[best + 1])
    found = optimize.minimize_scalar(lambda x: linear(x)[0], bounds=bounds, method="bounded", options={"xatol": 1e-12})
    rate = math.exp(found.x)
    alpha, scaled = (float(v) for v in linear(found.x)[1])
    if alpha <= 0 or scaled < 0:
        raise ModelError(
            f"the times do not fall towards a limit above zero (alpha {alpha:.3g} s, decaying part {scaled:.3g} s)"
        )
    return Decay(alpha, scaled * math.exp(rate * float(cores.min())), rate)


def decay_results(points: Sequence[tuple[float, float]], efficiency: float = 0.9) -> list[Result]:
    """The fit of section 4.3.2 and the cores needed per GPU, with bootstrap ranges if there are more than 3 points."""
    decay = fit_decay(points)
    inputs = {"points": len(points)}
    section = "section 4.3.2"
    cores = f"cores per GPU for {100 * efficiency:g} % of the asymptotic performance"
    quantities: list[Quantity[Decay]] = [
        ("alpha", "s", lambda d: d.alpha, section),
        ("beta", "s", lambda d: d.beta, section),
        ("lambda", "1/core", lambda d: d.decay, section),
        (cores, "cores", lambda d: decay_cores(d, efficiency), section),
    ]
    fitted = [decay.time(c) for c, _ in points]
    residuals = [t - f for (_, t), f in zip(points, fitted, strict=True)]

    def refit(some: Sequence[float]) -> Decay:
        return fit_decay([(c, f + e) for (c, _), f, e in zip(points, fitted, some, strict=True)])

    spare = len(points) > 3
    return fit_results(quantities, decay, residuals if spare else [], 3, refit, inputs)


def printed_decay_cores(alpha: str, beta: str, decay: str, efficiency: float = 0.9) -> Result:
    """The cores needed per GPU for printed parameters (the report's Table 6), with the range of their rounding."""

    def cores(alpha: float, beta: float, decay: float) -> float:
        return decay_cores(Decay(alpha, beta, decay), efficiency)

    inputs = {"alpha": alpha, "beta": beta, "decay": decay}
    return rounded_result(METHOD, f"cores per GPU for {100 * efficiency:g} %", "cores", inputs, cores, "section 4.3.2")


# --- points given as text ------------------------------------------------------------------------------------------


def _numbers(text: str, least: int, most: int, form: str) -> list[float]:
    parts = text.split(",")
    try:
        values = [float(p) for p in parts]
    except ValueError:
        values = []
    if not least <= len(values) <= most:
        raise ModelError(f"'{text}' is not of the form {form}")
    return values


def parse_run(text: str) -> Run:
    """A run given as '2,4,10.5' or '2,4,10.5,0.3': processes, threads, run time, time in MPI."""
    processes, threads, t_total, *t_mpi = _numbers(
        text, 3, 4, "PROCESSES,THREADS,SECONDS[,MPI SECONDS], such as 2,4,10.5,0.3"
    )
    if processes != int(processes) or threads != int(threads):
        raise ModelError(f"'{text}': the numbers of processes and threads must be whole numbers")
    return Run(int(processes), int(threads), t_total, *t_mpi)


def parse_cores(text: str) -> tuple[float, float]:
    """A run given as '4,10.5': cores per GPU, run time."""
    cores, elapsed = _numbers(text, 2, 2, "CORES,SECONDS, such as 4,10.5")
    return cores, elapsed


def notes(runs: Sequence[Run], terms: Sequence[str] | None = None) -> list[str]:
    """Notes on quantities that the runs do not determine, and on how well the fit of these terms describes them."""
    found = []
    varied = {"processes": len({r.processes for r in runs}), "threads": len({r.threads for r in runs})}
    for what in (name for name, different in varied.items() if different == 1):
        found.append(
            f"the number of {what} was not varied: the terms that depend on it are contained in the fitted ones"
        )
    scaling = fit(runs, terms)
    share = rms_error(scaling, runs) / (math.fsum(r.t_total - r.t_mpi for r in runs) / len(runs))
    if share > 0.1:
        found.append(
            f"the runs deviate from Eq. 5 by {100 * share:.0f} % (RMS): the fitted terms do not describe their scaling"
        )
    if not any(r.t_mpi for r in runs):
        found.append("no run gives its time in MPI, which is therefore contained in the other terms")
    return found
