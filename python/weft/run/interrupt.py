"""Ctrl-C and SIGTERM: they end the process at once, or ask a run that can leave a checkpoint to stop."""

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

# Signals that come sooner after the first are the same wish: of a Ctrl-C the terminal and mpiexec both tell the ranks.
SAME_WISH_SECONDS = 3.0


class Asked:
    """Whether a signal has asked this rank to stop: `number` is the signal's, 0 if none has; `at` is when."""

    def __init__(self) -> None:
        self.number = 0
        self.at = 0.0


_asked: Asked | None = None  # of the run that stops by itself, if there is one


@contextmanager
def stops_by_itself() -> Iterator[None]:
    """Inside, the first signal is noted for `asked_to_stop`; one that comes later ends the process as elsewhere."""
    global _asked
    _asked = asked = Asked()
    try:
        yield
    finally:
        if asked.number == 0:  # else the same wish may still come, while the run that stopped is put in order
            _asked = None


def asked_to_stop() -> int:
    """The number of the signal that has asked this rank to stop; 0 if none has."""
    return _asked.number if _asked is not None else 0


def exit_on_interrupt() -> None:
    """Ctrl-C and SIGTERM end the process at once with one line, also inside a long call of the C++ core.

    A Python handler would wait for that call to return. The C-level handler only writes the signal's number to a pipe;
    a thread reads it, which runs because long calls release the GIL. mpiexec passes Ctrl-C to every rank and ends those
    that are left as soon as one rank is gone.
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
                print("\x1b[?25h", end="", flush=True)  # the cursor, which a progress bar hides
            # Whole: the launcher may end all at any time.
            os.write(sys.stderr.fileno(), f"\nweft: {word(number)}\n".encode())
        launched = sys.modules.get("weft.run.launch")
        if launched is not None and launched.stop(number):
            time.sleep(10)  # the main thread exits before
        remove_shared_memory()
        if not first_of_ranks():
            time.sleep(10)  # a rank that is gone has the launcher end the first one, perhaps before it has spoken
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()


def remove_shared_memory() -> None:
    """Removes the names of MPICH's shared memory, which otherwise stays after ranks that end without MPI_Finalize.

    All ranks of the node have it open, so that nobody needs the name any more.
    """
    with contextlib.suppress(OSError):
        for name in set(re.findall(r"/dev/shm/mpich_shm_\w+$", Path("/proc/self/maps").read_text(), re.MULTILINE)):
            os.unlink(name)


def word(number: int) -> str:
    """What a signal did to a run."""
    return "interrupted" if number == signal.SIGINT else "terminated"


def first_of_ranks() -> bool:
    """Whether this process speaks for all (asked when MPI may not be up)."""
    ranks = (os.environ.get(n) for n in ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"))
    return next((r for r in ranks if r is not None), "0") == "0"
