"""Errors used on several levels of weft, and how they are printed. Imports nothing heavy: the command line starts
fast."""

from __future__ import annotations

import contextlib
import sys


class CaseError(ValueError):
    """A case that cannot be run; the message says which key is wrong and what is allowed."""


def reason(error: Exception) -> str:
    """Says why content does not have the expected form, from the exception raised by reading it."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return str(error) if isinstance(error, ValueError) else "a value is of the wrong kind"


def raised(error: BaseException) -> str:
    """Describes an exception raised by a user's code: its type and, if it has one, its text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


OUTPUT = "standard output"  # the name of stdout in errors


def say(text: str) -> None:
    """Writes a line to stdout at once; raises an OSError that names stdout if it cannot be written."""
    try:
        print(text, flush=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, OUTPUT) from None


def tell(text: str) -> None:
    """Writes a line to stderr, after flushing stdout.

    Writes it at once, even if Python does not buffer, so that lines of ranks that share a terminal or file do not mix.
    """
    with contextlib.suppress(OSError):  # the reader closed the pipe
        sys.stdout.flush()
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
