"""The effect of assumed numbers in a machine's description: each is halved and doubled, with all others unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weft.model import comparison, project
from weft.model.machine import Machine, load, numbers_of, with_number
from weft.model.result import ModelError

NODES = 64  # numbers of nodes of the jobs at default sizes, if the machine has as many


@dataclass(frozen=True)
class Change:
    """The largest relative change of times, by halving (`factor` 0.5) or doubling a number.

    `published` is over the published rows of the machine, `mean_error` their mean error then; None without such rows.
    `default` is over weft's workloads at their default sizes on one node and on 64, or on all if there are fewer.
    """

    machine: str
    key: str
    value: float
    factor: float
    published: float | None
    mean_error: float | None
    default: float
    at: str  # the workload at default size that changes most


def assumed(machine: Machine) -> dict[str, float]:
    """The numbers of a description whose source says that they are assumed, by key."""
    return {key: value for key, (value, source) in numbers_of(machine).items() if value and "assumed" in source}


def changes(name: str) -> Iterator[Change]:
    """The changes by each assumed number of a machine, halved and doubled."""
    machine = load(name)
    rows = comparison.rows_of(name, machine) if name in comparison.MACHINES else []
    jobs = dict(_default_jobs(machine))
    for key, value in assumed(machine).items():
        for factor in (0.5, 2.0):
            if key.endswith("usable_share") and value * factor > 1:
                factor = 1 / value
            try:
                other = with_number(machine, key, value * factor)
            except ModelError:
                continue
            moved = {job: abs(seconds / jobs[job] - 1) for job, seconds in _default_jobs(other) if job in jobs}
            at = max(moved, key=lambda job: moved[job])
            if rows:
                again = comparison.rows_of(name, other)
                shift = max(abs(a.projected / b.projected - 1) for a, b in zip(again, rows, strict=True))
                error = float(np.mean(comparison.errors(again)))
                yield Change(name, key, value, factor, shift, error, moved[at], at)
            else:
                yield Change(name, key, value, factor, None, None, moved[at], at)


def _default_jobs(machine: Machine) -> Iterator[tuple[str, float]]:
    for nodes in sorted({1, min(NODES, int(machine.nodes.value))}):
        ranks = nodes * machine.ranks_per_node
        made = [project.poisson(machine, ranks), project.maxwell(machine, ranks), project.flow(machine, ranks)]
        grid = 2 ** int(np.log2((ranks * machine.device.memory_bytes.value / 42) ** (1 / 3)))
        made.append(project.turbulence(machine, ranks, grid=max(grid, ranks)) if grid >= ranks else made[0])
        for one in made:
            yield f"{one.workload} on {nodes} node{'s' * (nodes > 1)}", one.seconds
