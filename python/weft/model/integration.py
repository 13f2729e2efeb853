"""CPU-GPU integration and disaggregation, Eqs. 3 and 4, and GPU-GPU integration, sections 8.1 to 8.3.

Equation and section numbers are of "Hardware Evaluation Analytical Modeling and Node Simulation: Benefits of Tighter
GPU Integration" (ECP-HIHE01-35, 2021), here "the report".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace

from weft.model.result import (
    ModelError,
    Result,
    exact,
    over_runs,
    require_finite,
    require_not_negative,
    require_positive,
    rounded_result,
)
from weft.traces import attribution

METHOD = "integration"


@dataclass(frozen=True)
class Terms(attribution.Terms):
    """Those that can be modelled: none is negative, not all are zero."""

    def __post_init__(self) -> None:
        require_not_negative(
            "times of overlapping calls were added up; give exclusive times (from a trace), which cannot overlap",
            **asdict(self),
        )
        if self.t_total <= 0:
            raise ModelError("all five terms of Eq. 3 are zero: nothing was measured")


def terms_of_total(t_total: float, t_gpu: float, t_mpi: float, t_cg_data: float, t_cg_control: float) -> Terms:
    """The terms with t_cpu as what is left of the total (section 4.2). Raises ModelError where less than nothing is."""
    require_positive(t_total=t_total)
    t_cpu = t_total - (t_gpu + t_mpi + t_cg_data + t_cg_control)
    if -1e-9 * t_total < t_cpu < 0:
        t_cpu = 0.0  # the rounding of the sum
    if t_cpu < 0:
        raise ModelError(
            f"the terms exceed t_total = {t_total:g} by {-t_cpu:g}: they overlap; give exclusive times (from a trace)"
        )
    return Terms(t_cpu, t_gpu, t_mpi, t_cg_data, t_cg_control)


def integrated(terms: Terms, lambda_data: float, lambda_control: float) -> float:
    """Eq. 4: t_total with CPU-GPU data transfers lambda_data, control lambda_control times faster (below 1: slower)."""
    require_positive(lambda_data=lambda_data, lambda_control=lambda_control)
    faster = replace(terms, t_cg_data=terms.t_cg_data / lambda_data, t_cg_control=terms.t_cg_control / lambda_control)
    return faster.t_total


def benefit(terms: Terms, lambda_data: float, lambda_control: float) -> float:
    """How many times faster the coupled machine is: t_total / t_integrated (Eqs. 3 and 4)."""
    return terms.t_total / integrated(terms, lambda_data, lambda_control)


def penalty(terms: Terms, lambda_data: float, lambda_control: float) -> float:
    """How many times slower the looser machine is: t_integrated / t_total (Eqs. 3 and 4)."""
    return integrated(terms, lambda_data, lambda_control) / terms.t_total


def mean(runs: Sequence[Terms]) -> Terms:
    """The mean of each term over runs."""
    if not runs:
        raise ModelError("no run to model: give a run record, a trace, or the terms")
    return Terms(*(math.fsum(getattr(r, f.name) for r in runs) / len(runs) for f in fields(Terms)))


def _change(lambda_data: float, lambda_control: float) -> tuple[str, Callable[[Terms, float, float], float]]:
    """What Eq. 4 says of these factors: a benefit where something gets faster, else a penalty."""
    require_positive(lambda_data=lambda_data, lambda_control=lambda_control)
    factors = f"data x{lambda_data:g}, control x{lambda_control:g}"
    if lambda_data <= 1 and lambda_control <= 1:
        return f"disaggregation penalty, {factors}", penalty
    return f"CPU-GPU integration benefit, {factors}", benefit


def coupling(runs: Sequence[Terms], lambda_data: float, lambda_control: float) -> Result:
    """Benefit (speed-up) of a tighter or penalty (slowdown) of a looser coupling; its range by bootstrap over `runs`.

    lambda_data and lambda_control are how many times faster transfers and control get: 10 in section 5, 0.1 in 7.
    """
    quantity, function = _change(lambda_data, lambda_control)
    inputs = {f"{f.name} (s)": getattr(mean(runs), f.name) for f in fields(Terms)} | {"runs": len(runs)}
    return over_runs(
        METHOD, quantity, "x", runs, lambda chosen: function(mean(chosen), lambda_data, lambda_control),
        {**inputs, "lambda_CGdata": lambda_data, "lambda_CGcontrol": lambda_control}, "Eqs. 3, 4",
    )  # fmt: skip


def printed_coupling(
    printed: Mapping[str, str | float], lambda_data: float, lambda_control: float, t_total: str | float | None = None
) -> Result:
    """The same from printed terms (keys t_cpu, t_gpu, t_mpi, t_cg_data, t_cg_control; absent ones are zero).

    With t_total, t_cpu is what the others leave of it. Texts were printed and vary by their rounding, numbers
    are exact.
    """
    unknown = set(printed) - {f.name for f in fields(Terms)}
    if unknown:
        allowed = ", ".join(f.name for f in fields(Terms))
        raise ModelError(f"unknown term {', '.join(sorted(unknown))}; allowed: {allowed}")
    if t_total is not None and "t_cpu" in printed:
        raise ModelError("t_cpu and t_total say the same thing: give one")
    quantity, function = _change(lambda_data, lambda_control)

    def value(**given: float) -> float:
        total = given.pop("t_total", None)
        # Half a unit below a printed 0.0 is not a time.
        terms = {f.name: max(0.0, given.get(f.name, 0.0)) for f in fields(Terms)}
        if total is not None:
            del terms["t_cpu"]
        return function(
            Terms(**terms) if total is None else terms_of_total(total, **terms), lambda_data, lambda_control
        )

    for name, text in printed.items():
        require_time_or_share(name, text)
    inputs = dict(printed) if t_total is None else {**printed, "t_total": t_total}
    result = rounded_result(METHOD, quantity, "x", inputs, value, "Eqs. 3, 4")
    return replace(result, inputs={**inputs, "lambda_CGdata": lambda_data, "lambda_CGcontrol": lambda_control})


def require_time_or_share(name: str, value: str | float) -> None:
    """Raises ModelError where a printed number is negative or none."""
    try:
        number = float(value)
    except ValueError:
        raise ModelError(f"{name} is '{value}', not a number") from None
    require_not_negative("a time or share is needed", **{name: number})


# --- GPU-GPU integration -------------------------------------------------------------------------------------------


def require_share(**shares: float) -> None:
    """Raises ModelError naming the first that is not a share between 0 and 1."""
    require_finite(**shares)
    for name, value in shares.items():
        if not 0 <= value <= 1:
            raise ModelError(f"{name} is {value:g}: a share between 0 and 1 (0 % and 100 %) is needed")


def accelerated(share: float, factor: float) -> float:
    """Amdahl's law: the speed-up of a whole of which `share` gets `factor` times faster."""
    require_share(share=share)
    require_positive(factor=factor)
    return 1.0 / (1.0 - share + share / factor)


def off_node_acceleration(link_bandwidth: float, gpus: int, off_node_bandwidth: float) -> float:
    """How much faster messages between nodes become on one node (section 8.1): `gpus` links against the shared path.

    Bandwidths in one unit, as GB/s.
    """
    require_positive(link_bandwidth=link_bandwidth, gpus=gpus, off_node_bandwidth=off_node_bandwidth)
    return link_bandwidth * gpus / off_node_bandwidth


def point_to_point_speedup(communication: float, point_to_point: float, off_node: float, acceleration: float) -> float:
    """Section 8.1, Table 12: shares of the time in communication, of that in point-to-point, of that between nodes.

    Only point-to-point messages between nodes get faster, by `acceleration`.
    """
    require_share(communication=communication, point_to_point=point_to_point, off_node=off_node)
    return accelerated(communication * point_to_point * off_node, acceleration)


def tree_stages(ranks: int) -> int:
    """Stages of a binary tree over `ranks` processes."""
    return math.ceil(math.log2(ranks))


def tree_runtime(collective: float, point_to_point: float, ranks: int, ranks_per_node: int, factor: float) -> float:
    """Section 8.2: the share of the run time that is left when links on a node get `factor` times faster.

    `collective` and `point_to_point` are the shares of the run time in large-payload collectives and point-to-point
    calls. Collectives are binary trees: as many stages as it takes to reach all nodes keep their time.
    """
    require_share(collective=collective, point_to_point=point_to_point, both=collective + point_to_point)
    require_positive(factor=factor, ranks_per_node=ranks_per_node)
    if ranks < 2:
        raise ModelError(f"{ranks} rank(s): a tree over at least 2 is needed")
    kept = tree_stages(math.ceil(ranks / ranks_per_node)) / tree_stages(ranks)
    trees = collective * (kept + (1.0 - kept) / factor)
    return 1.0 - collective - point_to_point + trees + point_to_point / factor


def gpu_gpu_point_to_point(
    communication: Sequence[float], point_to_point: float, off_node: float, acceleration: float
) -> Result:
    """Section 8.1 for the communication shares of one or more runs."""
    inputs = {
        "communication": math.fsum(communication) / max(1, len(communication)), "point-to-point": point_to_point,
        "off-node": off_node, "acceleration": acceleration,
    }  # fmt: skip

    def function(chosen: list[float]) -> float:
        return point_to_point_speedup(math.fsum(chosen) / len(chosen), point_to_point, off_node, acceleration)

    name = "GPU-GPU integration, nodes merged"
    return over_runs(METHOD, name, "x", communication, function, inputs, "section 8.1, Table 12")


def gpu_gpu_trees(collective: float, point_to_point: float, ranks: int, ranks_per_node: int, factor: float) -> Result:
    """Section 8.2: the speed-up from links on a node that are `factor` times faster."""
    inputs = {
        "collective": collective, "point-to-point": point_to_point, "ranks": ranks, "ranks per node": ranks_per_node,
        "factor": factor,
    }  # fmt: skip
    value = 1.0 / tree_runtime(collective, point_to_point, ranks, ranks_per_node, factor)
    return exact(METHOD, f"GPU-GPU integration, links on a node x{factor:g}", value, "x", inputs, "section 8.2")
