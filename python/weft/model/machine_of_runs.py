"""A machine's description from runs of weft on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.model import formulas, project
from weft.model.machine import Machine
from weft.model.result import ModelError, require_positive
from weft.record import Record


@dataclass(frozen=True)
class _PoissonRun:
    """The figures of a run that a calibration uses, per rank where that applies."""

    ranks: int
    per_node: int  # ranks per node
    bytes: float  # per iteration
    seconds: float  # per iteration
    rate: float  # byte/s
    peak: float  # FLOP/s
    memory: float  # bytes
    name: str  # of the device


def machine_of_runs(records: Sequence[Record]) -> Machine:
    """The machine on which these records of `weft run poisson` were made, with constants calibrated on them.

    The runs on one rank determine the streaming efficiency and the launch cost, by a least-squares fit of
    t = kernels x launch + bytes / (efficiency x rate) if their sizes differ, else without the launch cost. The runs on
    several ranks determine the overhead of the split. Links between ranks of a node have half the bandwidth of memory,
    because a copy reads and writes.
    """
    runs: list[_PoissonRun] = []
    for record in records:
        try:
            figures, machine = record["figures"], record["machine"]
            if (workload := record["case"]["workload"]) != "poisson":
                raise ModelError(
                    f"the record is of workload '{workload}', but only poisson runs can calibrate a machine"
                )
            ranks = int(figures["ranks"])
            # Counted as in `project.poisson`, whatever the run moved: the efficiency absorbs the difference.
            size = formulas.large_mesh(int(figures["order"]), int(figures["elements"]))
            runs.append(
                _PoissonRun(
                    ranks=ranks,
                    per_node=int(machine["ranks_per_node"]),
                    bytes=formulas.iteration_bytes(size).value / ranks,
                    seconds=float(record["timings"]["seconds_per_iteration"]),
                    rate=float(figures["bandwidth_bytes_per_second"]) / ranks,
                    peak=float(figures["peak_flops_per_second"]) / ranks,
                    memory=float(machine["device"]["memory_bytes"]),
                    name=str(machine["device"]["name"]),
                )
            )
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(f"not a record of 'weft run poisson': a value is missing or wrong ({error!r})") from None
    alone = [r for r in runs if r.ranks == 1]
    if not alone:
        raise ModelError(
            f"there is no run on 1 rank among the {len(runs)} given; add one, with which the others are compared"
        )
    for r in runs:
        require_positive(**{k: getattr(r, k) for k in ("bytes", "seconds", "rate", "peak", "memory", "per_node")})
    rate = float(np.median([r.rate for r in alone]))
    moved, seconds = np.array([r.bytes for r in alone]), np.array([r.seconds for r in alone])
    kernels = project.POISSON_KERNELS - 4
    launch, inverse = 0.0, float(np.median(seconds / moved))
    if len(set(moved)) > 1:
        slope, offset = np.polyfit(moved, seconds, 1)
        if slope > 0 and offset >= 0:
            launch, inverse = float(offset) / kernels, float(slope)
    constants = {"stream_efficiency": 1.0 / (inverse * rate)}
    several = [r for r in runs if r.ranks > 1]
    if several:
        over = [r.seconds / (r.bytes * inverse + launch * kernels) - 1.0 for r in several]
        constants["split_overhead"] = max(0.0, float(np.median(over)))
        constants["exchange_factor"] = 0.0  # the measured overhead includes what overlap does not hide
    source = f"{len(runs)} run record{'s' * (len(runs) > 1)}"

    def sourced(value: float) -> dict[str, float | str]:
        return {"value": value, "source": source}

    link = {"latency_seconds": sourced(1e-6), "bytes_per_second": sourced(rate / 2)}
    per_node = max(r.per_node for r in runs)
    return Machine.model_validate(
        {
            "title": f"{alone[0].name} (from {source})",
            "nodes": sourced(1_000_000),
            "ranks_per_node": per_node,
            "device": {
                "name": alone[0].name, "stream_bytes_per_second": sourced(rate),
                "flops_per_second": sourced(alone[0].peak), "kernel_seconds": sourced(launch),
                "memory_bytes": sourced(alone[0].memory),
            },
            "links": {"node": link, "network": link},
            "constants": {k: sourced(v) for k, v in constants.items()},
        }
    )  # fmt: skip
