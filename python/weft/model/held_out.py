"""The errors of a calibrated machine for runs that were not used for calibration: each problem is held out in turn.

Of n problems that are like the next one, the k-th smallest error holds the next one with probability k / (n + 1),
whatever the errors' distribution (conformal prediction; Vovk, Gammerman and Shafer 2005). A share of 90 % takes nine
problems. Of fewer, the range is that of Student's t for errors around zero, or the largest error, whichever is wider.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from scipy.stats import t as student

from weft.model import project
from weft.model.evidence import Evidence
from weft.model.machine import Accuracy, Machine
from weft.model.recorded_run import Run
from weft.model.result import ModelError

LEAST = 3  # least number of held-out problems: fewer say nothing about others
LEVEL = 0.9  # share of other problems that a range should hold
ENOUGH = 9  # held-out problems of which one has an error that holds this share of others
SMALLEST = 1e-6  # an accuracy is above zero


def accuracies(
    evidence: Sequence[Evidence], runs: Sequence[Run], calibrated: Callable[[Sequence[Evidence], str], Machine]
) -> dict[str, Accuracy]:
    """By workload, the error that holds 90 % of other problems, from problems that are predicted by the others.

    All runs of the same size are held out together, on any number of ranks, because a new size has been run on none of
    them; the largest of their errors counts. If there are fewer than three sizes, runs on other numbers of ranks stay.
    The error of one outside the sizes of the others is divided by the factor by which its range would be wider.
    Workloads of which fewer than three problems can be held out are left out: without a run on one rank, for example,
    nothing predicts the others. `calibrated` makes a machine for projections of a workload from measurements.
    """
    found = {}
    for workload in dict.fromkeys(run.workload for run in runs):
        of = [run for run in runs if run.workload == workload]
        distances, sizes = [], []
        several = len({_size(run) for run in of}) >= LEAST
        kinds = [_size(run) + (() if several else (run.ranks,)) for run in of]
        for kind in dict.fromkeys(kinds):
            out = [run for run, its in zip(of, kinds, strict=True) if its == kind]
            skipped = {id(run.evidence) for run in out}
            try:
                machine = calibrated([e for e in evidence if id(e) not in skipped], workload)
                made = [run.on(machine) for run in out]
                known = project.tested(run.on(machine).size for run in of if run not in out)
            except ModelError:
                continue
            sizes += [m.size for m in made]
            distances.append(max(
                abs(math.log(m.seconds / run.seconds)) / project.widening(m.size, known)
                for m, run in zip(made, out, strict=True)
            ))  # fmt: skip
        if (count := len(distances)) >= LEAST:
            few = ", which are few" if count < ENOUGH else ""
            precisions = {run.options["precision"] for run in of}
            found[workload] = Accuracy(
                precision=precisions.pop() if len(precisions) == 1 else None,
                value=max(math.expm1(half_width(distances)), SMALLEST), basis="held-out runs",
                tested=project.tested(sizes),
                source=f"for {100 * LEVEL:.0f} % of others, from {count} problems, each predicted by the others{few}",
            )  # fmt: skip
    return found


def half_width(distances: Sequence[float]) -> float:
    """The distance from zero that holds a share LEVEL of others like these, which are not below zero."""
    count = len(distances)
    place = math.ceil((count + 1) * LEVEL - 1e-9)
    if place <= count:
        return sorted(distances)[place - 1]
    spread = math.sqrt(math.fsum(d * d for d in distances) / count)
    return max(*distances, float(student.ppf((1 + LEVEL) / 2, count)) * spread)


def _size(run: Run) -> tuple[object, ...]:
    """What two runs of the same problem have in common, whatever their ranks."""
    order = run.options.get("order")
    number = run.options["grid"] if order is None else run.evidence.content["figures"]["elements"]
    return (order, number, run.options["precision"])
