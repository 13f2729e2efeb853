"""MPI: one library for mpi4py and the extension, and errors that end every rank with one message.

Importing this module checks that mpi4py and weft's extension use the same MPI library, and raises ``ImportError`` with
both names if they do not (the first MPI call of the extension would otherwise abort the process).
"""

from __future__ import annotations

import math
import os
import sys
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, TypeVar

from mpi4py import MPI

from weft import _weft
from weft.errors import tell

if TYPE_CHECKING:
    from weft.device import Device

CollectiveError = _weft.mpi.CollectiveError
library_version = _weft.mpi.library_version

__all__ = ["CollectiveError", "abort", "fail", "gpu_aware", "install_excepthook", "library_version", "together"]

_T = TypeVar("_T")

# Seconds that ranks with a collective error wait for each other: all arrive, but a busy machine may delay one.
AGREE_SECONDS = 60.0
ALONE_SECONDS = 2.0  # seconds that a rank with an error of its own waits to see whether all ranks have one
TURN_SECONDS = 2.0  # extra seconds, per rank number, so that the lowest failed rank prints first
CLAIM_SECONDS = 0.3  # seconds in which the claims of ranks that want to print at once reach each other


def _check_same_library() -> None:
    ours, theirs = _weft.mpi.library_text(), MPI.Get_library_version()
    same = (
        _weft.mpi.handle_bytes() == MPI._sizeof(MPI.Comm)
        and _weft.mpi.is_initialized() == MPI.Is_initialized()
        and ours == theirs
    )
    if not same:

        def first(text: str) -> str:
            return " ".join(text.split("\n")[0].split(",")[0].split())

        raise ImportError(
            f"mpi4py and weft use different MPI libraries: mpi4py is on '{first(theirs)}' ({MPI.__file__}), weft was "
            f"built with '{first(ours)}' ({_weft.__file__}). Rebuild weft with the mpicxx of mpi4py's "
            f"MPI first on PATH, or make mpi4py use weft's MPI (its wheel reads MPI4PY_MPIABI and MPI4PY_LIBMPI)."
        )


_check_same_library()

_agreement: MPI.Intracomm | None = None  # used only by the hook, so that its messages match no others


def together(comm: MPI.Intracomm, work: Callable[[], _T], long: bool = False) -> _T:
    """Run ``work`` on every rank; if it raises on any, every rank raises ``CollectiveError`` with the same text.

    For steps that can fail on some ranks only, such as reading a file: the other ranks must not wait for a failed one.
    ``work`` itself must not communicate. With a single rank, its exception is passed on. ``long``: some ranks have much
    more to do than others, which then sleep until it is done, where MPI would keep a processor busy. (collective)
    """
    result, failure = None, None
    try:
        result = work()
    except Exception as error:
        if comm.size == 1:
            raise
        failure = message(error)
    if long:
        _all_arrive(comm)
    _weft.mpi.agree(comm, failure)
    return result  # type: ignore[return-value]


def gpu_aware(device: Device) -> _weft.mpi.GpuAware:
    """Whether MPI may be given the memory of ``device``: ``usable``, ``asked`` and ``reason``.

    ``asked`` is what the library reports (``yes``, ``no``, ``does not say``). Unless it reports no, a transfer in a
    child process tests it, once per process and GPU; if the library crashes on device memory, only the child ends.
    """
    return _weft.mpi.gpu_aware(device)


def free_bytes_per_rank(device: Device, comm: MPI.Intracomm) -> int:
    """Free bytes of the memory that ``device`` uses, of a GPU or of the host (within the limit of its container),
    divided by the number of ranks of ``comm`` that share it; the minimum over all ranks. (collective)"""
    return _weft.mpi.free_bytes_per_rank(device, comm)


def install_excepthook() -> None:
    """Let an uncaught exception end all ranks with one readable message and an exit code other than 0. (collective)

    A ``CollectiveError`` (or any exception that every rank raised) is printed once, by rank 0, and every rank exits
    normally with code 1. An exception on some ranks only is printed with the rank's number, and all ranks are aborted
    (``MPI_Abort``): those waiting for the failed rank would wait forever. ``WEFT_TRACEBACK=1`` adds the traceback.
    """
    global _agreement
    if _agreement is None and MPI.COMM_WORLD.size > 1:
        _agreement = MPI.COMM_WORLD.Dup()
    sys.excepthook = _excepthook


def _excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    fail(error.with_traceback(trace))
    # Returning lets the interpreter exit with code 1, MPI_Finalize included: every rank is here.


def message(error: BaseException) -> str:
    """One line for the user; the whole traceback if WEFT_TRACEBACK is set."""
    if os.environ.get("WEFT_TRACEBACK", "0") not in ("", "0"):
        return "".join(traceback.format_exception(error)).rstrip()
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    plain = isinstance(error, (ValueError, RuntimeError, OSError)) and str(error)
    return str(error) if plain else f"{type(error).__name__}: {error} (WEFT_TRACEBACK=1 shows where)"


def fail(error: BaseException) -> None:
    """Print ``error`` once for all ranks; return if every rank failed, else abort them all.

    For callers that catch exceptions themselves; they must exit with a code other than 0 when this returns.
    """
    if _agreement is None or MPI.Is_finalized():
        tell(f"weft: {message(error)}")
        return
    agreed = isinstance(error, CollectiveError)
    if _all_arrive(_agreement, AGREE_SECONDS if agreed else ALONE_SECONDS):
        if _agreement.rank == 0:
            tell(f"weft: {message(error)}")
        return
    if _prints_for_all(_agreement):
        abort(f"weft: rank {_agreement.rank} of {_agreement.size}: {message(error)}")
    time.sleep(AGREE_SECONDS)  # the rank that prints ends this one
    abort()


def _all_arrive(comm: MPI.Intracomm, seconds: float = math.inf) -> bool:
    """Sleeps until all ranks are here, or some seconds are over; returns whether they are."""
    request = comm.Ibarrier()
    limit = time.monotonic() + seconds
    while not request.Test():
        if time.monotonic() > limit:
            return False
        time.sleep(0.002)
    return True


def _prints_for_all(comm: MPI.Intracomm) -> bool:
    """Whether this rank, of those that failed, prints: the first to claim it, or the lowest if several claim at once.

    Ranks that have not failed never answer, so that only failed ones send and probe.
    """
    turn = TURN_SECONDS * (min(comm.rank, 3) + comm.rank / comm.size)  # usually, the lowest rank claims first
    if _claimed_by_rank_below(comm, comm.size, turn):
        return False
    for rank in range(comm.size):
        if rank != comm.rank:
            comm.isend(None, rank)
    return not _claimed_by_rank_below(comm, comm.rank, CLAIM_SECONDS)


def _claimed_by_rank_below(comm: MPI.Intracomm, limit: int, seconds: float) -> bool:
    """Whether the claim of a rank below ``limit`` arrives within some seconds."""
    end = time.monotonic() + seconds
    status = MPI.Status()
    while time.monotonic() < end:
        if comm.iprobe(status=status):
            comm.recv(source=status.source)
            if status.source < limit:
                return True
        time.sleep(0.002)
    return False


def abort(text: str = "", code: int = 1) -> NoReturn:
    """Print a line and end all ranks at once, so that the launcher exits with this code."""
    if text:
        tell(text)
    time.sleep(0.2)  # MPI_Abort may end the launcher before it has forwarded the line
    # Hide the library's own message about the abort, which adds nothing to our line.
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    MPI.COMM_WORLD.Abort(code)
    raise SystemExit(code)
