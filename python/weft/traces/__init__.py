"""Traces of weft's own and of other programs' runs, read into one event table.

    from weft.traces import attribute, load

    trace = load("report.sqlite")
    print(attribute(trace).mean())

A format is one module here with `DESCRIPTION`, `probe(head)` and `read(path)`, and its name in `READERS`; a module is
imported only when a file is probed for its format.
"""

from __future__ import annotations

import gzip
import zlib
from importlib import import_module
from pathlib import Path
from types import ModuleType

from weft.traces.attribution import Attribution, Terms, attribute, exclusive
from weft.traces.head import look
from weft.traces.table import Builder, Category, Line, Trace

__all__ = [
    "Attribution",
    "Builder",
    "Category",
    "Line",
    "Terms",
    "Trace",
    "attribute",
    "exclusive",
    "formats",
    "load",
]

# In the order in which a file is offered to them: what is told by a few certain bytes first.
READERS = ("weft", "nsys", "otf2", "rocprof", "kineto", "collectives", "goal", "tables")


def reader(name: str) -> ModuleType:
    """The module that reads a format."""
    if name not in READERS:
        raise ValueError(f"unknown trace format '{name}': weft reads {', '.join(READERS)}")
    return import_module(f"weft.traces.{name}")


def formats() -> dict[str, str]:
    """Every format by name, with a line that describes it."""
    return {name: str(reader(name).DESCRIPTION) for name in READERS}


def load(path: str | Path, format: str | None = None) -> Trace:
    """Read a trace; the format is found by looking into the file unless it is named.

    Raises OSError where the file cannot be opened; ValueError, in a sentence that says what the file does contain,
    where it is of no known format, damaged, cut short, without events, or where its clock runs backwards.
    """
    head = look(path)
    chosen = [format] if format is not None else READERS
    for name in chosen:
        module = reader(name)
        if format is None and not module.probe(head):
            continue
        try:
            trace: Trace = module.read(Path(path))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: compressed data are damaged or end early ({error})") from None
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not text where {module.DESCRIPTION} has text ({error})") from None
        return trace
    raise ValueError(f"{path}: no trace format that weft reads ({', '.join(READERS)}); {head.describe()}")
