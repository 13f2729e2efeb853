"""Ctrl-C, SIGTERM and SIGUSR1 end the process at once, or ask a run that can write a checkpoint to stop."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Signals that follow the first within this time belong to it: on Ctrl-C, the terminal and mpiexec both signal the
# ranks.
SAME_WISH_SECONDS = 3.0
# SIGUSR1 is what batch systems are often asked to send shortly before the time limit.
WORDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGUSR1: "told to stop (SIGUSR1)",
}


class Asked:
    """Whether a signal has asked this rank to stop: `number` is that of the signal (0: none), `at` its time."""

    def __init__(self) -> None:
        self.number = 0
        self.at = 0.0


_asked: Asked | None = None  # set by a run that stops by itself


@contextmanager
def stops_by_itself() -> Iterator[None]:
    """Inside this context, the first signal is noted for `asked_to_stop`; a later one ends the process, as it does
    elsewhere."""
    global _asked
    _asked = asked = Asked()
    try:
        yield
    finally:
        if asked.number == 0:  # otherwise a repeat of the same signal could interrupt the run while it finishes
            _asked = None


def asked_to_stop() -> int:
    """The number of the signal that has asked this rank to stop; 0 if none has."""
    return _asked.number if _asked is not None else 0


def exit_on_interrupt() -> None:
    """The signals of WORDS end the process at once with one line, also inside a long call of the C++ core.

    A Python handler would wait for that call to return. Instead, the C-level handler writes the signal's number to a
    pipe, and a thread reads it; the thread can run because long calls release the GIL. mpiexec forwards Ctrl-C to every
    rank, and ends the remaining ones as soon as one rank has exited.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def watch() -> None:
        while True:
            number = os.read(reader, 1)[0]
            if _asked is None or (_asked.number != 0 and time.monotonic() - _asked.at > SAME_WISH_SECONDS):
                break
            if _asked.number == 0:
                _asked.at, _asked.number = time.monotonic(), number
        if first_of_ranks():
            if sys.stdout.isatty():
                print("\x1b[?25h", end="", flush=True)  # show the cursor again, which a progress bar hides
            # In one write: the launcher may end all ranks at any time.
            os.write(sys.stderr.fileno(), f"\nweft: {word(number)}\n".encode())
        launched = sys.modules.get("weft.run.launch")
        if launched is not None and launched.stop(number):
            time.sleep(10)  # the main thread has exited first
        remove_shared_memory()
        if first_of_ranks():
            abort_under_hydra(128 + number)
        else:
            time.sleep(10)  # when a rank exits, the launcher ends rank 0, perhaps before it has printed its message
        os._exit(128 + number)

    for number in WORDS:
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()


def abort_under_hydra(code: int) -> None:
    """Ends all ranks by MPI_Abort if MPICH's launcher has started them; returns if that does not work.

    When a rank exits without MPI_Finalize, Hydra kills the others and then exits with 9, the number of SIGKILL.
    """
    abort = getattr(sys.modules.get("weft.mpi"), "abort", None)  # loaded by what has initialized MPI
    if "HYDI_CONTROL_FD" in os.environ and abort is not None:
        threading.Thread(target=abort, kwargs={"code": code}, daemon=True).start()
        time.sleep(5)


def remove_shared_memory() -> None:
    """Unlinks MPICH's shared memory, which would otherwise outlive ranks that exit without MPI_Finalize.

    All ranks of the node already have it open, so the name is no longer needed.
    """
    with contextlib.suppress(OSError):
        for name in set(re.findall(r"/dev/shm/mpich_shm_\w+$", Path("/proc/self/maps").read_text(), re.MULTILINE)):
            os.unlink(name)


def word(number: int) -> str:
    """The message for a run ended by a signal."""
    return WORDS[signal.Signals(number)]


def first_of_ranks() -> bool:
    """Whether this process prints for all ranks (MPI may not be initialized yet)."""
    ranks = (os.environ.get(n) for n in ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"))
    return next((r for r in ranks if r is not None), "0") == "0"
