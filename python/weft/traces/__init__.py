"""Readers of traces, those of weft and those of other tools, into one event table.

    from weft.traces import attribute, load

    trace = load("report.sqlite")
    print(attribute(trace).mean())

A format is one module of this package with `DESCRIPTION`, `probe(head)` and `read(path)`, and its name in `READERS`. A
module is imported only when a file is probed for its format.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

from weft.traces.attribution import Attribution, Terms, attribute, exclusive
from weft.traces.caveats import caveats
from weft.traces.head import look
from weft.traces.overlaps import clip
from weft.traces.ranks import join, settled
from weft.traces.table import Builder, Category, Line, Trace
from weft.traces.waiting import recognise
from weft.traces.window import WHOLE, Window

__all__ = [
    "Attribution",
    "Builder",
    "Category",
    "Line",
    "Terms",
    "Trace",
    "Window",
    "attribute",
    "detect",
    "exclusive",
    "formats",
    "inside",
    "load",
]

# In the order in which a file is probed: formats that a few bytes identify reliably come first.
READERS = (
    "weft", "rocpd", "nsys", "otf2", "rocprof", "kineto", "xplane", "perfetto", "chakra", "collectives", "goal",
    "tables",
)  # fmt: skip

MOST_FILES = 1000  # number of files that are searched for the trace in a folder


def reader(name: str) -> ModuleType:
    """The module that reads a format."""
    if name not in READERS:
        raise ValueError(f"unknown trace format '{name}'; known: {', '.join(READERS)}")
    return import_module(f"weft.traces.{name}")


def formats() -> dict[str, str]:
    """All formats by name, with a description of each."""
    return {name: str(reader(name).DESCRIPTION) for name in READERS}


def inside(path: Path) -> list[Path]:
    """The trace in a folder: `trace.json` of a run, the anchor of an OTF2 archive, or else all traces in the folder.

    Several traces are then those of the ranks of one run. A path that is not a folder is returned unchanged. Raises
    ValueError if the folder has no trace.
    """
    if not path.is_dir():
        return [path]
    for name in ("trace.json", "traces.otf2"):
        if (path / name).is_file():
            return [path / name]
    files = sorted(p for p in path.rglob("*") if p.is_file())
    if len(files) > MOST_FILES:
        raise ValueError(f"{path}: this folder has {len(files)} files; give the trace itself")
    found = [p for p in files if detect(p)]
    if found:
        return found
    names = ", ".join(p.name for p in files[:8]) or "nothing"
    raise ValueError(f"{path}: this folder has no trace in a format that weft reads; it contains {names}")


def detect(path: Path) -> str:
    """The format of a trace, detected from the content of the file; '' if weft cannot read it."""
    try:
        head = look(path)
    except (OSError, ValueError):
        return ""
    return next((name for name in READERS if reader(name).probe(head)), "")


def load(path: str | Path | Sequence[str | Path], format: str | None = None, window: Window = WHOLE) -> Trace:
    """Reads a trace, or a window of it. Without `format`, the format is detected from the content of the file.

    A folder stands for the trace in it. Several traces, in a folder or as a list, are those of the ranks of one run:
    they become one trace on one clock (`weft.traces.ranks`), except that rocprofv3's tables of one process are already
    a single trace. A few overlapping events are clipped (`weft.traces.overlaps`), events in which threads only wait are
    recognised (`weft.traces.waiting`), and notes say what the file does not record.

    Raises OSError if a file cannot be opened. Raises ValueError, with a message that says what the file contains, if
    its format is unknown, if it is damaged, cut short or has no events, if its clock runs backwards, if files are not
    those of the ranks of one run, or if nothing is in the window.
    """
    given = [Path(path)] if isinstance(path, str | Path) else [Path(p) for p in path]
    found = [file for one in given for file in inside(one)]
    # The tables of rocprofv3 belong to one process, not to one rank each.
    files = reader("tables").of_processes(found) if format in (None, "tables") else [[file] for file in found]
    if len(files) == 1:
        trace = _read(files[0], format)
        if files[0][0] != given[0] and trace.world > 1:
            note = f"the folder has only the trace of rank {trace.rank}, but the run had {trace.world} ranks"
            trace = replace(trace, notes=(*trace.notes, note))
    else:
        where = given[0] if len(given) == 1 else Path(os.path.commonpath([p.absolute().parent for p in given]))
        trace = join([settled(_read(parts, format)) for parts in files], str(where), window.ranks)
    trace = window.cut(trace)
    return replace(trace, notes=(*trace.notes, *caveats(trace)))


def _read(files: list[Path], format: str | None) -> Trace:
    """The trace of one file, or of several tables of one process, tidied."""
    path, *others = files
    head = look(path)
    if others:
        format = "tables"
    for name in [format] if format is not None else READERS:
        module = reader(name)
        if format is None and not module.probe(head):
            continue
        try:
            trace: Trace = module.read(path, *others)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: the compressed data are damaged or end early ({error})") from None
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: {module.DESCRIPTION} with text that is not UTF-8 ({error})") from None
        return recognise(clip(trace))
    raise ValueError(f"{path}: not in a trace format that weft reads ({', '.join(READERS)}); {head.describe()}")
