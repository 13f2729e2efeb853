"""The errors of a calibrated machine for runs that were not used for calibration: each problem is held out in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from weft.model import project
from weft.model.evidence import Evidence
from weft.model.machine import Accuracy, Machine
from weft.model.recorded_run import Run
from weft.model.result import ModelError

LEAST = 3  # least number of held-out problems: fewer say nothing about others
SMALLEST = 1e-6  # an accuracy is above zero


def accuracies(
    evidence: Sequence[Evidence], runs: Sequence[Run], calibrated: Callable[[Sequence[Evidence]], Machine]
) -> dict[str, Accuracy]:
    """By workload, the largest error of a problem that is predicted by the other measurements.

    All runs of the same problem are held out together. The error of one outside the sizes of the others is divided by
    the factor by which its range would be wider. Workloads of which fewer than three problems can be held out are left
    out: without a run on one rank, for example, nothing predicts the others.
    """
    found = {}
    for workload in dict.fromkeys(run.workload for run in runs):
        of = [run for run in runs if run.workload == workload]
        other = {id(run.evidence) for run in runs if run.workload != workload}
        distances, sizes = [], []
        for problem in dict.fromkeys(_problem(run) for run in of):
            out = [run for run in of if _problem(run) == problem]
            skipped = other | {id(run.evidence) for run in out}
            try:
                machine = calibrated([e for e in evidence if id(e) not in skipped])
                made = [run.on(machine) for run in out]
                known = project.tested(run.on(machine).size for run in of if run not in out)
            except ModelError:
                continue
            sizes.append(made[0].size)
            width = project.widening(made[0].size, known)
            distances += [abs(math.log(m.seconds / run.seconds)) / width for m, run in zip(made, out, strict=True)]
        if len(sizes) >= LEAST:
            found[workload] = Accuracy(
                value=max(math.expm1(max(distances)), SMALLEST), basis="held-out runs", tested=project.tested(sizes),
                source=f"largest error of {len(sizes)} problems, each predicted by the others",
            )  # fmt: skip
    return found


def _problem(run: Run) -> tuple[object, ...]:
    return (run.ranks, *sorted(run.options.items()))
