"""Errors that more than one floor must know, and how they are told. This module needs nothing, so that the command line
starts fast."""

from __future__ import annotations

import contextlib
import sys


class CaseError(ValueError):
    """A case that cannot be run; the text says which key is wrong and what is allowed."""


def tell(text: str) -> None:
    """Writes a line to stderr, after what stdout still holds.

    In one write, also where Python does not buffer: lines of ranks that share a terminal or a file do not mix.
    """
    with contextlib.suppress(OSError):  # nobody reads it any more
        sys.stdout.flush()
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
