"""Common parts of the runs of all workloads: display, clocks, and sums over the ranks for the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, ParamSpec, Protocol

from mpi4py import MPI

from weft import mpi
from weft.cases.shared import SharedCase
from weft.device import Device
from weft.record import Choices, Figures, Record, Spread, Timings
from weft.run.machine import machine, versions

P = ParamSpec("P")


class Display(Protocol):
    """Displays the progress of a run on rank 0; on other ranks its methods do nothing."""

    def phase(self, text: str) -> None: ...
    def header(self, record: Record) -> None: ...
    def warn(self, text: str) -> None: ...
    def progress(self, total: int, line: Callable[..., str]) -> Callable[..., None]: ...
    def result(self, record: Record) -> None: ...
    def write(self, text: str) -> None: ...


@dataclass(frozen=True)
class Result:
    """The result of a run: its record, the same on every rank, and how it ended."""

    record: Record
    problem: str = ""  #: why the run failed, in one line: it did not converge, or its fields blew up
    signal: int = 0  #: the number of the signal that stopped the run
    checkpoint: str = ""  #: the checkpoint to continue from after a signal; "" if there is none


def by_first(comm: MPI.Intracomm, write: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Calls `write` with these arguments on rank 0. Raises CollectiveError on all ranks if it fails, as on a full disk.
    (collective)"""
    mpi.together(comm, lambda: write(*args, **kwargs) if comm.rank == 0 else None)


SetUp = Literal[
    "mesh_seconds",
    "operator_seconds",
    "right_hand_side_seconds",
    "solver_seconds",
    "initial_seconds",
    "machine_seconds",
]


class Stopwatch:
    """Seconds of set-up steps, each on the slowest rank."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm
        self.seconds: Timings = {}

    @contextmanager
    def __call__(self, name: SetUp) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.comm.allreduce(time.perf_counter() - start, MPI.MAX)


def open_record(
    case: SharedCase, device: Device, clock: Stopwatch, choices: Choices, figures: Figures, transforms: bool = False
) -> Record:
    """The record of a run after its set-up. `transforms`: whether it uses Fourier transforms. (collective)"""
    return {
        "case": case.model_dump(by_alias=True),
        "versions": versions(transforms_on=device if transforms else None),
        "machine": machine(device, clock.comm),
        "choices": choices,
        "timings": clock.seconds,
        "figures": figures,
    }


def breakdown(mine: Mapping[str, float], comm: MPI.Intracomm) -> dict[str, Spread]:
    """Seconds by category: mean over ranks and slowest rank. Every rank must have the same categories. (collective)"""
    return {
        category: {
            "mean_seconds": comm.allreduce(float(value), MPI.SUM) / comm.size,
            "max_seconds": comm.allreduce(float(value), MPI.MAX),
        }
        for category, value in sorted(mine.items())
    }


def memory_bytes(mine: Mapping[str, int], comm: MPI.Intracomm) -> dict[str, int]:
    """Bytes of each array, summed over all ranks. (collective)"""
    names = sorted(set().union(*comm.allgather(list(mine))))
    return {name: comm.allreduce(int(mine.get(name, 0)), MPI.SUM) for name in names}
