"""Standard streams that are closed (``weft ... >&-``) or cannot be written (a full disk)."""

from __future__ import annotations

import contextlib
import os
import sys

from weft.errors import OUTPUT


def open_closed_streams() -> None:
    """Opens the null device in place of standard streams that are closed.

    Python then has no ``sys.stdout`` at all, and the next file that is opened gets the number of the stream, so that
    what C prints would go into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def flush_output() -> None:
    """Writes what stdout still holds; raises an OSError that names the stream if that fails."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader has seen enough
            drop_output()
            raise SystemExit(1) from None
        raise OSError(error.errno, error.strerror, OUTPUT) from None


def drop_output() -> None:
    """Drops what stdout still holds: Python would try once more when it exits, and print an error of its own."""
    with contextlib.suppress(OSError, ValueError):  # a stream that a test has replaced has no number
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def is_of_output(error: OSError) -> bool:
    """Whether an error is that of writing to stdout: if it names no file, whether that fails again."""
    if error.filename is not None:
        return bool(error.filename == OUTPUT)
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except OSError as again:
        return again.errno == error.errno
    except ValueError:
        pass
    return False
