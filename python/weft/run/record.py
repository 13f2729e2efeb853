"""What the runs of all workloads share: where they show what they do, clocks, sums over the ranks for the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, Protocol

from mpi4py import MPI

from weft import mpi
from weft.record import Spread

# A record, or a part of one, while a run adds to it; weft.record.Record is what it comes to.
Record = dict[str, Any]
P = ParamSpec("P")


class Display(Protocol):
    """Where a run shows what it does; rank 0's shows, the others' do nothing."""

    def phase(self, text: str) -> None: ...
    def header(self, record: Record) -> None: ...
    def warn(self, text: str) -> None: ...
    def progress(self, total: int, line: Callable[..., str]) -> Callable[..., None]: ...
    def result(self, record: Record) -> None: ...
    def write(self, text: str) -> None: ...


@dataclass(frozen=True)
class Result:
    """What a run leaves: its record, the same on every rank, and how it ended."""

    record: Record
    problem: str = ""  #: why the run is no success, in one line: it did not converge, its fields blew up
    signal: int = 0  #: the number of the signal that ended it in order
    checkpoint: str = ""  #: what to go on from after a signal, "" where the case asked for none


def open_folder(folder: Path, comm: MPI.Intracomm) -> None:
    """Makes the folder of a run that is about to write its files. (collective)

    The record of an earlier run there goes, as the other files are being replaced: what run.json says is of them.
    CollectiveError where it cannot be written.
    """

    def make() -> None:
        if comm.rank == 0:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "run.json").unlink(missing_ok=True)

    mpi.together(comm, make)


def by_first(comm: MPI.Intracomm, write: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """`write` with these arguments, on rank 0. CollectiveError on all ranks if it fails (a full disk). (collective)"""
    mpi.together(comm, lambda: write(*args, **kwargs) if comm.rank == 0 else None)


class Stopwatch:
    """Seconds of named set-up steps, each the slowest rank's."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.comm.allreduce(time.perf_counter() - start, MPI.MAX)


def breakdown(mine: Mapping[str, float], comm: MPI.Intracomm) -> dict[str, Spread]:
    """Mean over ranks and slowest rank of seconds by category; every rank has the same categories. (collective)"""
    return {
        category: {
            "mean_seconds": comm.allreduce(float(value), MPI.SUM) / comm.size,
            "max_seconds": comm.allreduce(float(value), MPI.MAX),
        }
        for category, value in sorted(mine.items())
    }


def memory_bytes(mine: Mapping[str, int], comm: MPI.Intracomm) -> dict[str, int]:
    """Bytes of all ranks by array. (collective)"""
    names = sorted(set().union(*comm.allgather(list(mine))))
    return {name: comm.allreduce(int(mine.get(name, 0)), MPI.SUM) for name in names}
