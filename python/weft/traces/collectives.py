"""Reader of MPI collectives recorded by FENATE's tracer (VISUS): a .tgz archive with a file per rank and function.

Each folder of the archive is a run. `trace_MPI<function>_<number>.ct` has lines `id,rank,root,bytes,count,start,end,`
with times in ns on the clock of the rank's node; `skew_<rank>.ct` has the times at which the rank left three barriers.
The clocks of nodes differ by tens of seconds, so each is shifted such that all ranks leave the last barrier together.
"""

from __future__ import annotations

import re
import tarfile
from collections import defaultdict
from pathlib import Path

import numpy as np

from weft.traces.head import Head
from weft.traces.table import Builder, Category, Trace

DESCRIPTION = "FENATE's archive of MPI collectives (.tgz)"

_TRACE = re.compile(r"trace_MPI_?(\w+)_\d+\.ct$")
_SKEW = re.compile(r"skew_(\d+)\.ct$")
_COLUMNS = 7


def probe(head: Head) -> bool:
    return head.data[257:262] == b"ustar"


def read(path: Path) -> Trace:
    """Reads every run of the archive, each starting at time zero.

    Ranks are numbered consecutively over all runs, so that no two runs share a process. `FILE.tgz/FOLDER` reads a
    single run.
    """
    only = None
    if not path.exists():
        path, only = path.parent, path.name
    builder = Builder("collectives", path)
    try:
        runs, foreign = _members(path)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{path}: the archive is damaged or truncated ({error})") from None
    if only is not None:
        if only not in runs:
            raise ValueError(f"{path}: the archive has no run '{only}'; its runs are {', '.join(runs) or 'none'}")
        runs = {only: runs[only]}
    if not any(files for files, _ in runs.values()):
        inside = ", ".join(foreign[:8]) or "nothing"
        raise ValueError(f"{path}: the archive has no trace_MPI*.ct files, but {inside}; unpack traces of other kinds")
    first = 0
    for run, (files, skews) in runs.items():
        first = _add_run(builder, run, files, skews, first)
    return builder.build()


def _members(path: Path) -> tuple[dict[str, tuple[dict[str, list[bytes]], dict[int, bytes]]], list[str]]:
    runs: dict[str, tuple[dict[str, list[bytes]], dict[int, bytes]]] = {}
    foreign = []
    with tarfile.open(path) as archive:
        for member in archive:
            name = Path(member.name)
            trace, skew = _TRACE.match(name.name), _SKEW.match(name.name)
            if not member.isfile() or not (trace or skew):
                foreign += [member.name] if member.isfile() else []
                continue
            file = archive.extractfile(member)
            content = file.read() if file else b""
            files, skews = runs.setdefault(name.parent.name, (defaultdict(list), {}))
            if trace:
                files[f"MPI_{trace[1]}"].append(content)
            elif skew:
                skews[int(skew[1])] = content
    return dict(sorted(runs.items(), key=lambda r: len(r[1][1]))), foreign


def _numbers(path: str, text: bytes, columns: int) -> np.ndarray:
    try:
        values = np.array(text.replace(b",", b" ").split(), dtype=np.int64)
        return values.reshape(-1, columns)
    except (ValueError, OverflowError):
        raise ValueError(f"{path}: a file of the archive does not consist of rows of {columns} integers") from None


def _add_run(builder: Builder, run: str, files: dict[str, list[bytes]], skews: dict[int, bytes], first: int) -> int:
    rows = {name: _numbers(builder.path, b"\n".join(texts), _COLUMNS) for name, texts in files.items()}
    ranks = np.unique(np.concatenate([r[:, 1] for r in rows.values()]))
    if len(ranks) == 0:
        return first
    if ranks[0] < 0 or ranks[-1] >= 2**24:
        wrong = ranks[0] if ranks[0] < 0 else ranks[-1]
        raise ValueError(f"{builder.path}: run '{run}' has rank {wrong}, but ranks must be between 0 and {2**24 - 1}")
    offset = np.zeros(int(ranks[-1]) + 1, dtype=np.int64)
    if set(ranks.tolist()) <= set(skews):
        left = {r: _numbers(builder.path, skews[r], 1) for r in ranks.tolist()}
        short = [r for r, times in left.items() if len(times) == 0]
        if short:
            raise ValueError(f"{builder.path}: skew_{short[0]}.ct of run '{run}' is empty")
        offset[ranks] = np.array([int(left[r][-1, 0]) - int(left[int(ranks[0])][-1, 0]) for r in ranks.tolist()])
    else:
        missing = sorted(set(ranks.tolist()) - set(skews))
        builder.notes.append(f"run '{run}' has no skew file for {len(missing)} ranks, so its clocks are not corrected")
    start_of_run = min(int((r[:, 5] - offset[r[:, 1]]).min()) for r in rows.values() if len(r))
    lines = np.zeros(len(offset), dtype=np.int64)
    lines[ranks] = [builder.line(first + r, f"{run} rank {r}", "host") for r in ranks.tolist()]
    for name, r in rows.items():
        shift = offset[r[:, 1]] + start_of_run
        start, end = r[:, 5] - shift, r[:, 6] - shift
        builder.add(
            line=lines[r[:, 1]],
            start=start,
            end=end,
            category=int(Category.mpi),
            name=builder.name(name),
            bytes=r[:, 3],
            peer=np.where(r[:, 2] >= 0, first + r[:, 2], -1),
        )
        if name == "MPI_Allreduce":
            _check_clocks(builder, run, r[:, 4], start, end)
    return first + len(offset)


def _check_clocks(builder: Builder, run: str, count: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
    """Adds a note if the clocks let a rank leave an all-reduce before all ranks have entered it."""
    _, which = np.unique(count, return_inverse=True)
    entered = np.full(which.max() + 1, np.iinfo(np.int64).min)
    left = np.full(which.max() + 1, np.iinfo(np.int64).max)
    np.maximum.at(entered, which, start)
    np.minimum.at(left, which, end)
    wrong = int((entered - left).max())
    if wrong > 0:
        builder.notes.append(f"the all-reduces of run '{run}' show that its clocks differ by {wrong / 1e6:.3g} ms")
