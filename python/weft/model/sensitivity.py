"""The effect of assumed numbers: each of a machine's description is halved and doubled, with all others unchanged.

A constant that a workload takes from other machines, because none is calibrated, goes to either end of its range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from weft.model import comparison, project
from weft.model.machine import CONSTANTS, WORKLOADS, Machine, Share, load, numbers_of, with_number

NODES = 64  # numbers of nodes of the jobs at default sizes, if the machine has as many


@dataclass(frozen=True)
class Change:
    """The largest relative change of times, if a number has another value `to`.

    `published` is over the published rows of the machine, `mean_error` their mean error then; None without such rows.
    `default` is over weft's workloads at their default sizes on one node and on 64, or on all if there are fewer.
    """

    machine: str
    key: str
    value: float
    to: float
    published: float | None
    mean_error: float | None
    default: float
    at: str  # the workload at default size that changes most


def assumed(machine: Machine) -> dict[str, float]:
    """The numbers of a description whose source says that they are assumed, by key."""
    return {key: value for key, (value, source) in numbers_of(machine).items() if "assumed" in source}


def changes(name: str) -> Iterator[Change]:
    """The changes by each assumed number of a machine, and by each constant that is not calibrated for a workload."""
    machine = load(name)
    rows = comparison.rows_of(name, machine) if name in comparison.MACHINES else []
    jobs = dict(_default_jobs(machine))
    for key, value, to, other in _others(machine):
        moved = {job: abs(seconds / jobs[job] - 1) for job, seconds in _default_jobs(other) if job in jobs}
        at = max(moved, key=lambda job: moved[job])
        change = Change(name, key, value, to, None, None, moved[at], at)
        if rows:
            again = comparison.rows_of(name, other)
            shift = max(abs(a.projected / b.projected - 1) for a, b in zip(again, rows, strict=True))
            change = replace(change, published=shift, mean_error=float(np.mean(comparison.errors(again))))
        yield change


def _others(machine: Machine) -> Iterator[tuple[str, float, float, Machine]]:
    """The key of a number, its value, another one, and the machine with the other one."""
    for key, value in assumed(machine).items():
        ends = [0.5 * value, 2 * value]
        if key.endswith("usable_share"):
            ends[1] = min(ends[1], 1.0)
        if value == 0:  # half and twice of it say nothing
            ends = [end for end in CONSTANTS.get(key.rpartition(".")[2], ()) if end > 0][-1:]
        for to in ends:
            yield key, value, to, with_number(machine, key, to)
    for workload in WORKLOADS:
        for name in project.constants_of(machine, workload):
            if machine.key(name, workload) is None:
                key, value = f"{workload}.{name}", machine.constant(name, workload)
                for to in machine.constant_range(name, workload):
                    if to != value:
                        # A copy is not validated: a machine may not have more constants that are calibrated.
                        constants = {**machine.constants, key: Share(value=to, source="range")}
                        yield f"{key} (start value)", value, to, machine.model_copy(update={"constants": constants})


def _default_jobs(machine: Machine) -> Iterator[tuple[str, float]]:
    for nodes in sorted({1, min(NODES, int(machine.nodes.value))}):
        ranks = nodes * machine.ranks_per_node
        made = [project.poisson(machine, ranks), project.maxwell(machine, ranks), project.flow(machine, ranks)]
        grid = 2 ** int(np.log2((ranks * machine.device.memory_bytes.value / 42) ** (1 / 3)))
        made.append(project.turbulence(machine, ranks, grid=max(grid, ranks)) if grid >= ranks else made[0])
        for one in made:
            yield f"{one.workload} on {nodes} node{'s' * (nodes > 1)}", one.seconds
