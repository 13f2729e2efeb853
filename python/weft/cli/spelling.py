"""Output where UTF-8 is not understood: 'µs' becomes 'us', and what has no such spelling '?', instead of a failure."""

from __future__ import annotations

import codecs
import io
import sys

PLAIN = {"µ": "u", "…": "...", "²": "2", "³": "3", "×": "x"}


def plainly(error: UnicodeError) -> tuple[str, int]:
    """The characters an encoding lacks, spelled with others: a handler for `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end


def spell_as_the_terminal_can() -> None:
    """From now on stdout and stderr write anything, whatever their encoding is."""
    codecs.register_error("weft", plainly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="weft")
