"""MDM, the memory divergence model of GPU kernels (Eq. 7; Wang et al., MICRO 2020; section 4.4.2 of the report).

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
    """An interval of a warp's instructions, up to one that stalls it, with the cycles of three kinds of stall."""

    instructions: float
    cycles: float  # C_i: issuing the instructions, without contention
    mshr: float = 0.0  # S_i^MSHR: waiting for a miss status holding register
    noc: float = 0.0  # S_i^NoC: queueing in the network on chip
    dram: float = 0.0  # S_i^DRAM: queueing at the memory

    def __post_init__(self) -> None:
        require_not_negative("give counts of instructions and cycles", **asdict(self))
        require_positive(instructions=self.instructions)


def ipc(warps: float, intervals: Sequence[Interval]) -> float:
    """Eq. 7: instructions per cycle of a multiprocessor with `warps` warps, each of which executes `intervals`."""
    require_positive(warps=warps)
    if not intervals:
        raise ModelError("no interval is given, but Eq. 7 needs at least one")
    cycles = math.fsum(i.cycles + i.mshr + i.noc + i.dram for i in intervals)
    if cycles <= 0:
        raise ModelError("the intervals take zero cycles in total")
    return warps * math.fsum(i.instructions for i in intervals) / cycles


def kernel_time(instructions: float, ipc_per_sm: float, multiprocessors: int, clock: float) -> float:
    """Time (s) of a kernel of `instructions` warp instructions at the IPC of Eq. 7 on all SMs; `clock` is in Hz."""
    require_positive(instructions=instructions, ipc=ipc_per_sm, multiprocessors=multiprocessors, clock=clock)
    return instructions / (ipc_per_sm * multiprocessors * clock)


def implied_clock(instructions: float, ipc_per_sm: float, multiprocessors: int, seconds: float) -> float:
    """The clock in Hz at which `kernel_time` gives `seconds`."""
    require_positive(instructions=instructions, ipc=ipc_per_sm, multiprocessors=multiprocessors, seconds=seconds)
    return instructions / (ipc_per_sm * multiprocessors * seconds)


def relative_error(measured: float, modelled: float) -> float:
    """The relative error (modelled - measured) / measured."""
    require_positive(measured=measured, modelled=modelled)
    return modelled / measured - 1


def results(
    warps: float, intervals: Sequence[Interval], instructions: float | None, multiprocessors: int, clock: float
) -> list[Result]:
    """The IPC, the shares of stalled cycles, and with `instructions` the time of the kernel."""
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
    """Intervals from a CSV file with the columns instructions, cycles and, optionally, mshr, noc and dram (cycles)."""
    known = [f.name for f in fields(Interval)]
    with Path(path).open(newline="", encoding="utf-8") as lines:
        reader = csv.DictReader(lines)
        columns = [c.strip() for c in reader.fieldnames or []]
        unknown = [c for c in columns if c not in known]
        missing = [c for c in known[:2] if c not in columns]
        if unknown or missing:
            what = f"unknown column '{unknown[0]}'" if unknown else f"column '{missing[0]}' is missing"
            raise ModelError(
                f"{path}: {what}; the header must be {','.join(known)}, of which the last three are optional"
            )
        reader.fieldnames = columns
        found = []
        for number, row in enumerate(reader, 2):
            try:
                found.append(Interval(**{k: float(v) for k, v in row.items()}))
            except (TypeError, ValueError) as error:
                raise ModelError(f"{path}, line {number}: {error}") from None
    if not found:
        raise ModelError(f"{path}: the file has no intervals below its header")
    return found
