"""CPU-GPU integration and disaggregation (Eqs. 3, 4), and GPU-GPU integration (sections 8.1 to 8.3).

Equation and section numbers refer to "Hardware Evaluation Analytical Modeling and Node Simulation: Benefits of Tighter
GPU Integration" (ECP-HIHE01-35, 2021), "the report".
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
    """The terms of Eq. 3, checked: none is negative, and not all are zero."""

    def __post_init__(self) -> None:
        require_not_negative(
            "the times of overlapping calls were added up; give exclusive times, for example from a trace",
            **asdict(self),
        )
        if self.t_total <= 0:
            raise ModelError("all five terms of Eq. 3 are zero; at least one must be above zero")


def terms_of_total(t_total: float, t_gpu: float, t_mpi: float, t_cg_data: float, t_cg_control: float) -> Terms:
    """The terms with t_cpu as the remainder of the total (section 4.2). Raises ModelError if it is negative."""
    require_positive(t_total=t_total)
    t_cpu = t_total - (t_gpu + t_mpi + t_cg_data + t_cg_control)
    if -1e-9 * t_total < t_cpu < 0:
        t_cpu = 0.0  # rounding error of the sum
    if t_cpu < 0:
        raise ModelError(
            f"the terms exceed t_total = {t_total:g} by {-t_cpu:g}, so their times overlap; give exclusive times, for "
            "example from a trace"
        )
    return Terms(t_cpu, t_gpu, t_mpi, t_cg_data, t_cg_control)


def integrated(terms: Terms, lambda_data: float, lambda_control: float) -> float:
    """Eq. 4: t_total with CPU-GPU transfers `lambda_data` times and control `lambda_control` times faster.

    Factors below 1 mean slower.
    """
    require_positive(lambda_data=lambda_data, lambda_control=lambda_control)
    faster = replace(terms, t_cg_data=terms.t_cg_data / lambda_data, t_cg_control=terms.t_cg_control / lambda_control)
    return faster.t_total


def benefit(terms: Terms, lambda_data: float, lambda_control: float) -> float:
    """The speed-up by the tighter coupling: t_total / t_integrated (Eqs. 3, 4)."""
    return terms.t_total / integrated(terms, lambda_data, lambda_control)


def penalty(terms: Terms, lambda_data: float, lambda_control: float) -> float:
    """The slowdown by the looser coupling: t_integrated / t_total (Eqs. 3, 4)."""
    return integrated(terms, lambda_data, lambda_control) / terms.t_total


def mean(runs: Sequence[Terms]) -> Terms:
    """The mean of each term over runs."""
    if not runs:
        raise ModelError("no run is given: give a run record, a trace, or the terms")
    return Terms(*(math.fsum(getattr(r, f.name) for r in runs) / len(runs) for f in fields(Terms)))


def _change(lambda_data: float, lambda_control: float) -> tuple[str, Callable[[Terms, float, float], float]]:
    """The name and the function of what these factors cause: a benefit if anything gets faster, else a penalty."""
    require_positive(lambda_data=lambda_data, lambda_control=lambda_control)
    factors = f"data x{lambda_data:g}, control x{lambda_control:g}"
    if lambda_data <= 1 and lambda_control <= 1:
        return f"disaggregation penalty, {factors}", penalty
    return f"CPU-GPU integration benefit, {factors}", benefit


def coupling(runs: Sequence[Terms], lambda_data: float, lambda_control: float) -> Result:
    """The benefit of a tighter or the penalty of a looser coupling, with its bootstrap range over `runs`.

    `lambda_data` and `lambda_control` are the speed-ups of transfers and control: 10 in section 5, 0.1 in section 7.
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
    """Like `coupling`, from printed terms (t_cpu, t_gpu, t_mpi, t_cg_data, t_cg_control; missing terms are zero).

    With t_total, t_cpu is the remainder. Terms given as text were printed, and the result has the range that their
    rounding leaves; terms given as numbers are exact.
    """
    unknown = set(printed) - {f.name for f in fields(Terms)}
    if unknown:
        allowed = ", ".join(f.name for f in fields(Terms))
        raise ModelError(f"unknown term {', '.join(sorted(unknown))}; the terms are {allowed}")
    if t_total is not None and "t_cpu" in printed:
        raise ModelError("t_cpu and t_total determine each other: give only one of them")
    quantity, function = _change(lambda_data, lambda_control)

    def value(**given: float) -> float:
        total = given.pop("t_total", None)
        # Half a unit below a printed 0.0 would be negative.
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
    """Raises ModelError if a printed number is negative or not a number."""
    try:
        number = float(value)
    except ValueError:
        raise ModelError(f"{name} is '{value}', not a number") from None
    require_not_negative("give a time or a share", **{name: number})


# --- GPU-GPU integration -------------------------------------------------------------------------------------------


def require_share(**shares: float) -> None:
    """Raises ModelError naming the first value that is not a share between 0 and 1."""
    require_finite(**shares)
    for name, value in shares.items():
        if not 0 <= value <= 1:
            raise ModelError(f"{name} is {value:g}, but must be a share between 0 and 1 (0 % to 100 %)")


def accelerated(share: float, factor: float) -> float:
    """Amdahl's law: the speed-up of a run of which `share` gets `factor` times faster."""
    require_share(share=share)
    require_positive(factor=factor)
    return 1.0 / (1.0 - share + share / factor)


def off_node_acceleration(link_bandwidth: float, gpus: int, off_node_bandwidth: float) -> float:
    """The speed-up of messages between two nodes that become one (section 8.1): links of `gpus` GPUs over the network.

    Both bandwidths must be in the same unit, such as GB/s.
    """
    require_positive(link_bandwidth=link_bandwidth, gpus=gpus, off_node_bandwidth=off_node_bandwidth)
    return link_bandwidth * gpus / off_node_bandwidth


def point_to_point_speedup(communication: float, point_to_point: float, off_node: float, acceleration: float) -> float:
    """The speed-up if point-to-point messages between nodes get `acceleration` times faster (section 8.1, Table 12).

    `communication` is a share of the run time, `point_to_point` a share of the communication, and `off_node` a share of
    the point-to-point messages.
    """
    require_share(communication=communication, point_to_point=point_to_point, off_node=off_node)
    return accelerated(communication * point_to_point * off_node, acceleration)


def tree_stages(ranks: int) -> int:
    """The number of stages of a binary tree over `ranks` processes."""
    return math.ceil(math.log2(ranks))


def tree_runtime(collective: float, point_to_point: float, ranks: int, ranks_per_node: int, factor: float) -> float:
    """The run time, relative to today's, if links inside a node get `factor` times faster (section 8.2).

    `collective` and `point_to_point` are the shares of the run time in collectives with large payloads and in
    point-to-point calls. Collectives are modelled as binary trees, whose stages between nodes keep their time.
    """
    require_share(collective=collective, point_to_point=point_to_point, both=collective + point_to_point)
    require_positive(factor=factor, ranks_per_node=ranks_per_node)
    if ranks < 2:
        raise ModelError(f"the number of ranks is {ranks}, but a tree needs at least 2")
    kept = tree_stages(math.ceil(ranks / ranks_per_node)) / tree_stages(ranks)
    trees = collective * (kept + (1.0 - kept) / factor)
    return 1.0 - collective - point_to_point + trees + point_to_point / factor


def gpu_gpu_point_to_point(
    communication: Sequence[float], point_to_point: float, off_node: float, acceleration: float
) -> Result:
    """The benefit of merging nodes, for the communication shares of one or more runs (section 8.1)."""
    inputs = {
        "communication": math.fsum(communication) / max(1, len(communication)), "point-to-point": point_to_point,
        "off-node": off_node, "acceleration": acceleration,
    }  # fmt: skip

    def function(chosen: list[float]) -> float:
        return point_to_point_speedup(math.fsum(chosen) / len(chosen), point_to_point, off_node, acceleration)

    name = "GPU-GPU integration, nodes merged"
    return over_runs(METHOD, name, "x", communication, function, inputs, "section 8.1, Table 12")


def gpu_gpu_trees(collective: float, point_to_point: float, ranks: int, ranks_per_node: int, factor: float) -> Result:
    """The speed-up by links inside a node that are `factor` times faster (section 8.2)."""
    inputs = {
        "collective": collective, "point-to-point": point_to_point, "ranks": ranks, "ranks per node": ranks_per_node,
        "factor": factor,
    }  # fmt: skip
    value = 1.0 / tree_runtime(collective, point_to_point, ranks, ranks_per_node, factor)
    return exact(METHOD, f"GPU-GPU integration, links inside a node x{factor:g}", value, "x", inputs, "section 8.2")
