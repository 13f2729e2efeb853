"""What a workload's ranks take longer beside each other than alone, from runs on several ranks with counted messages.

Three numbers say it. What comes from memory comes at most at the rate that a rank reached beside the others of its node
(`beside_others`). An exchange takes a time that does not depend on the size of the problem (`exchange_seconds`). All
other computation takes longer by a share (`split_overhead`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import least_squares

from weft.model.machine import Machine, with_constants
from weft.model.recorded_run import Run

FROM_MEMORY = 0.5  # share of the data that comes from memory from which on its rate can be seen
NONE = 1e-6  # a share of the time so small stands for zero, which the fit only comes close to


def rate_from_memory(machine: Machine, workload: str, runs: Sequence[Run], reached: Sequence[float]) -> float | None:
    """The largest share of the streaming rate at which a rank beside others got data from memory.

    `reached` is the efficiency of each run. None if no run has most of its data from memory, or none has less.
    """
    if workload not in machine.efficiency:
        return None
    missing = [machine.missing_share(workload, run.options["order"], run.points, run.ranks) for run in runs]
    found = [m * e for m, e in zip(missing, reached, strict=True) if m >= FROM_MEMORY]
    return max(found) if found and min(missing) < FROM_MEMORY else None


def constants(machine: Machine, workload: str, runs: Sequence[Run]) -> tuple[Mapping[str, float], list[float]]:
    """`split_overhead` and `exchange_seconds` by least squares of relative errors, not below zero; and these errors.

    Runs of one size do not tell the two apart: then all is the overhead of the computation.
    """
    names = ["split_overhead", "exchange_seconds"]
    if len({(run.options["order"], run.options["elements_per_rank"], run.ranks) for run in runs}) < len(names):
        names = names[:1]
    kept = {key: constant.value for key, constant in machine.constants.items()}
    shortest = min(run.seconds for run in runs)

    def given(values: Sequence[float]) -> dict[str, float]:
        scaled = dict(zip(names, values, strict=False))
        return {name: value * (shortest if name == "exchange_seconds" else 1.0) for name, value in scaled.items()}

    def errors(values: Sequence[float]) -> list[float]:
        made = with_constants(machine, kept | {f"{workload}.{n}": v for n, v in given(values).items()}, "trial")
        return [run.on(made).seconds / run.seconds - 1 for run in runs]

    start = np.full(len(names), 0.01)
    found = least_squares(errors, start, bounds=(0.0, np.inf), xtol=1e-12, ftol=1e-12, gtol=1e-12)
    best = np.where(found.x < NONE, 0.0, found.x).tolist()
    return given(best), errors(best)
