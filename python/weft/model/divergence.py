"""MDM, the memory divergence model of GPU kernels: Eq. 7, after Wang et al., MICRO 2020 (the report's section 4.4.2).

"The report" is ECP-HIHE01-35 (2021).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from weft.model.result import ModelError, Result, exact, require_not_negative, require_positive

METHOD = "divergence"


@dataclass(frozen=True)
class Interval:
    """A stretch of a warp's instructions up to one that stalls it: how many, their cycles, and three kinds of stall."""

    instructions: float
    cycles: float  # C_i: issuing them, without contention
    mshr: float = 0.0  # S_i^MSHR: waiting for a miss status holding register
    noc: float = 0.0  # S_i^NoC: queueing in the network on chip
    dram: float = 0.0  # S_i^DRAM: queueing at the memory

    def __post_init__(self) -> None:
        require_not_negative("counts of instructions and cycles are needed", **asdict(self))
        require_positive(instructions=self.instructions)


def ipc(warps: float, intervals: Sequence[Interval]) -> float:
    """Eq. 7: instructions a cycle of one multiprocessor that runs `warps` warps, each through `intervals`."""
    require_positive(warps=warps)
    if not intervals:
        raise ModelError("no interval given: Eq. 7 sums over at least one")
    cycles = math.fsum(i.cycles + i.mshr + i.noc + i.dram for i in intervals)
    if cycles <= 0:
        raise ModelError("the intervals take no cycles at all")
    return warps * math.fsum(i.instructions for i in intervals) / cycles


def kernel_time(instructions: float, ipc_per_sm: float, multiprocessors: int, clock: float) -> float:
    """Seconds of a kernel of `instructions` warp instructions at the IPC of Eq. 7 on all SMs; clock in Hz."""
    require_positive(instructions=instructions, ipc=ipc_per_sm, multiprocessors=multiprocessors, clock=clock)
    return instructions / (ipc_per_sm * multiprocessors * clock)


def implied_clock(instructions: float, ipc_per_sm: float, multiprocessors: int, seconds: float) -> float:
    """The clock in Hz at which `kernel_time` gives `seconds`."""
    require_positive(instructions=instructions, ipc=ipc_per_sm, multiprocessors=multiprocessors, seconds=seconds)
    return instructions / (ipc_per_sm * multiprocessors * seconds)


def relative_error(measured: float, modelled: float) -> float:
    """(modelled - measured) / measured."""
    require_positive(measured=measured, modelled=modelled)
    return modelled / measured - 1


def results(
    warps: float, intervals: Sequence[Interval], instructions: float | None, multiprocessors: int, clock: float
) -> list[Result]:
    """IPC, where its cycles go, and with `instructions` the kernel's time."""
    inputs = {"warps": warps, "intervals": len(intervals)}
    value = ipc(warps, intervals)
    cycles = math.fsum(i.cycles + i.mshr + i.noc + i.dram for i in intervals)
    found = [exact(METHOD, "IPC of a multiprocessor", value, "instructions/cycle", inputs, "Eq. 7")]
    for name, label in (("mshr", "MSHRs"), ("noc", "the network on chip"), ("dram", "DRAM")):
        share = 100 * math.fsum(getattr(i, name) for i in intervals) / cycles
        found.append(exact(METHOD, f"cycles stalled by {label}", share, "%", inputs, "terms of Eq. 7"))
    if instructions is not None:
        inputs = {**inputs, "instructions": instructions, "multiprocessors": multiprocessors, "clock (Hz)": clock}
        time = kernel_time(instructions, value, multiprocessors, clock)
        found.append(exact(METHOD, "kernel time", time, "s", inputs, "Eq. 7, section 4.4.2"))
    return found


def read_intervals(path: str | Path) -> list[Interval]:
    """Intervals from CSV with a header: instructions,cycles and, where known, mshr,noc,dram; cycles each."""
    known = [f.name for f in fields(Interval)]
    with Path(path).open(newline="", encoding="utf-8") as lines:
        reader = csv.DictReader(lines)
        columns = [c.strip() for c in reader.fieldnames or []]
        unknown = [c for c in columns if c not in known]
        missing = [c for c in known[:2] if c not in columns]
        if unknown or missing:
            what = f"unknown column {unknown[0]}" if unknown else f"column {missing[0]} is missing"
            raise ModelError(f"{path}: {what}; the header is {','.join(known)}, the last three optional")
        reader.fieldnames = columns
        found = []
        for number, row in enumerate(reader, 2):
            try:
                found.append(Interval(**{k: float(v) for k, v in row.items()}))
            except (TypeError, ValueError) as error:
                raise ModelError(f"{path}, line {number}: {error}") from None
    if not found:
        raise ModelError(f"{path}: no interval below the header")
    return found
