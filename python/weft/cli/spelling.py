"""Output to terminals without UTF-8: 'µs' becomes 'us', and a character with no ASCII spelling becomes '?'."""

from __future__ import annotations

import codecs
import io
import sys

PLAIN = {"µ": "u", "…": "...", "²": "2", "³": "3", "×": "x"}


def plainly(error: UnicodeError) -> tuple[str, int]:
    """Respells characters that an encoding lacks; an error handler for `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end


def spell_as_the_terminal_can() -> None:
    """Makes stdout and stderr accept any text, whatever their encoding."""
    codecs.register_error("weft", plainly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="weft")
