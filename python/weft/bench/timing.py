"""Timing of communication: warm-up, repetitions chosen by duration, alternating rounds, medians and quartiles.

The loops themselves are in C++ (``weft._weft.bench``); this module only controls them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from weft import mpi
from weft.device import open as open_device
from weft.report.measured import Rounds

if TYPE_CHECKING:
    from weft.device import Device

K = TypeVar("K")


class RefusedError(ValueError):
    """A requested measurement that is impossible here; nothing was allocated or sent for it."""


class Timed(Protocol):
    """An operation that is timed by itself; all calls are collective."""

    def check(self) -> None:
        """Raises CollectiveError unless known values are received correctly."""

    def run(self, repetitions: int, /) -> float:
        """Seconds per repetition, averaged over ``repetitions``, on this rank; 0 if it takes no part."""


@dataclass(frozen=True)
class Samples:
    """``seconds[rank, round]`` of one repetition (0 on ranks that took no part), each round of ``repetitions``."""

    seconds: npt.NDArray[np.float64]
    repetitions: int

    def fastest(self) -> float:
        """The median over the rounds of the rank whose median is smallest, of those that took part."""
        medians = np.median(self.seconds, axis=1)
        return float(medians[medians > 0].min())

    def record(self, scale: float = 1.0) -> Rounds:
        """Median and quartiles over the rounds of the rank whose median is largest, times ``scale``."""
        low, median, high = np.percentile(scale * self.seconds, (25, 50, 75), axis=1)
        slowest = int(np.argmax(median))
        return {
            "seconds": float(median[slowest]),
            "seconds_low": float(low[slowest]),
            "seconds_high": float(high[slowest]),
            "rounds": self.seconds.shape[1],
            "repetitions": self.repetitions,
        }


@dataclass(frozen=True)
class Effort:
    """How long to measure: ``rounds`` rounds of about ``seconds`` each, of at most ``most`` repetitions."""

    rounds: int = 15
    seconds: float = 0.002
    most: int = 10000


def repetitions(timed: Timed, comm: MPI.Intracomm, effort: Effort) -> int:
    """The number of repetitions for a round of ``effort.seconds``; finding it is also the warm-up. (collective)"""
    timed.run(1)
    count = 1
    while True:
        taken = comm.allreduce(count * timed.run(count), MPI.MAX)
        wanted = int(count * effort.seconds / taken) if taken > 0 else effort.most
        if taken >= 0.3 * effort.seconds or count >= effort.most:
            return min(max(1, wanted), effort.most)
        count = min(max(2 * count, wanted // 2), effort.most)


def alternate(cases: Mapping[K, Timed], comm: MPI.Intracomm, effort: Effort) -> dict[K, Samples]:
    """Times all cases in turn, in reverse order every other round; first checks that each delivers its data.

    Disturbances by other work on the machine thus affect all cases alike. All ranks get the same result. (collective)
    """
    for timed in cases.values():
        timed.check()
    counts = {key: repetitions(timed, comm, effort) for key, timed in cases.items()}
    samples: dict[K, list[float]] = {key: [] for key in cases}
    for turn in range(effort.rounds):
        for key in list(cases)[:: 1 if turn % 2 == 0 else -1]:
            comm.Barrier()
            samples[key].append(cases[key].run(counts[key]))
    return {key: Samples(np.array(comm.allgather(values)), counts[key]) for key, values in samples.items()}


def budget(device: Device, comm: MPI.Intracomm, share: float = 0.8) -> tuple[int, int]:
    """Bytes of host and device memory that each rank may use: a share of what is free on its node and GPU, divided by
    the ranks that use them; the minimum over all ranks. A host device has no memory of its own: 0. (collective)"""
    host = int(share * mpi.free_bytes_per_rank(open_device("host"), comm))
    own = 0 if device.is_host else int(share * mpi.free_bytes_per_rank(device, comm))
    return host, own


def choices(comm: MPI.Intracomm, device: Device, texts: Sequence[str], sizes: Sequence[int] = ()) -> list[str]:
    """The exchange layer's choices that any of ``texts`` allows ("auto", "schedule" or "schedule:path"), for messages
    of such sizes. Raises RefusedError for a name that is not known and a path that does not work here. (collective)"""
    from weft import _weft
    from weft.mpi import CollectiveError

    try:
        found = [c for text in texts for c in _weft.bench.candidates(comm, device, text, list(sizes))]
    except CollectiveError as error:
        raise RefusedError(str(error)) from None
    return list(dict.fromkeys(found))


def require(what: str, needs: tuple[int, int], has: tuple[int, int], advice: str) -> None:
    """Raises RefusedError unless (host, device) bytes per rank are available.

    The error is the same on all ranks if the numbers are.
    """
    for need, limit, memory in zip(needs, has, ("host", "device"), strict=True):
        if need > limit > 0 or (need > 0 and limit == 0 and memory == "host"):
            raise RefusedError(
                f"{what} takes {need / 2**20:.0f} MiB of {memory} memory per rank, but {limit / 2**20:.0f} MiB are "
                "available: "
                f"{advice}"
            )
