"""One trace from files of several ranks: recognises ranks, and aligns their clocks by the collectives that they share.

Each rank records on its own clock. The ranks leave a collective in which all wait for all (`messages.JOINING`) at about
the same time, so the differences of their ends are the differences of the clocks. With e[r, k] the end of collective k
on rank r, the offsets o[r] and the common ends c[k] minimise |e[r, k] - o[r] - c[k]|, by alternating medians, which are
robust to single late records. A note states the residual.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha1
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.format import seconds
from weft.traces import messages
from weft.traces.table import COLUMNS, Line, Trace

MOST_OFFSET = 60 * 10**9  # ns; clocks of one cluster differ by less
# Share of the collectives that may end on a rank before they began on another, or differ in size; and of the time
# between two collectives by which the ends of one may be apart.
IMPOSSIBLE = 0.1
SMALL = 50_000  # ns; ends of one collective may always be as far apart
DRIFT = 1e-4  # clocks of processors drift by less, relative to each other
_TURNS = 20
_SHIFTS = 64  # collectives by which the recordings of two ranks may begin and end apart
_IN_NAME = re.compile(r"(?:rank|worker|proc|mpi|pe)s?[-_.:]?0*(\d{1,6})(?!\d)", re.IGNORECASE)
Ints = NDArray[np.int64]


def settled(trace: Trace) -> Trace:
    """The trace with each column in memory pages of its own.

    The pages return to the system when a column is freed. Arrays on the heap would leave gaps that are too small for
    the columns of a joined table.
    """
    columns: dict[str, Any] = {c: _in_pages(getattr(trace, c)) for c in COLUMNS}
    return replace(trace, **columns)


def _in_pages(column: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = np.frombuffer(mmap(-1, column.nbytes), dtype=column.dtype)
    found[:] = column
    return found


def join(traces: list[Trace], path: str, wanted: Sequence[int] = ()) -> Trace:
    """The traces of the ranks of one run as one trace, on one clock. Empties the list, to hold all events only once.

    The rank of a file is stated in it or follows from its name; otherwise it is the position among the names, and a
    note says so. `wanted` are the ranks to keep; without it, all ranks of the run must be present. Raises ValueError if
    a rank is missing or given twice, or if the files cannot be of one run: formats, numbers of ranks, clocks or
    collectives that disagree.
    """
    notes: list[str] = []
    _check_different(traces, path)
    _numbered(traces, path, wanted, notes)
    shared = _shared(traces)
    offsets = _aligned(traces, shared, path, notes)
    zero = min(t.began - o for t, o in zip(traces, offsets, strict=True))
    shifts = [t.began - o - zero for t, o in zip(traces, offsets, strict=True)]
    return _table(traces, shifts, shared, path, notes)


def _check_different(traces: list[Trace], path: str) -> None:
    first: dict[bytes, str] = {}
    for trace in traces:
        # Graphs without times may be the same on all ranks, but for the rank.
        times = sha1(trace.start.tobytes() + trace.process.tobytes() + str(trace.began).encode()).digest()
        if times in first:
            raise ValueError(f"{path}: {first[times]} and {trace.path} have the same events; give each rank once")
        first[times] = trace.path


# --- ranks ---------------------------------------------------------------------------------------------------------


def _numbered(traces: list[Trace], path: str, wanted: Sequence[int], notes: list[str]) -> None:
    """Numbers the processes of the traces by their ranks, and drops ranks that are not wanted."""
    formats = {t.format: Path(t.path).name for t in reversed(traces)}
    if len(formats) > 1:
        found = ", ".join(f"{name} ({formats[name]})" for name in sorted(formats))
        raise ValueError(f"{path}: files of several formats are not of one run: {found}; give those of one")
    worlds = sorted({t.world for t in traces if t.world >= 0})
    if len(worlds) > 1:
        counts = " and ".join(map(str, worlds))
        raise ValueError(f"{path}: files of different runs, which had {counts} ranks; give those of one run")
    ranks = [t.rank for t in traces]
    if min(ranks) < 0 and all(len(t.processes) == 1 for t in traces):
        ranks = _by_name([Path(t.path) for t in traces])
        if not ranks:
            ranks = list(range(len(traces)))
            notes.append(
                "neither the files nor their names say to which rank each belongs: ranks follow the order of the names"
            )
    for k, rank in enumerate(ranks):
        if rank >= 0 and len(traces[k].processes) == 1:
            traces[k] = _renumbered(traces[k], rank)
    first: dict[int, str] = {}
    for trace in traces:
        for process in trace.processes:
            if process in first:
                files = [Path(first[process]), Path(trace.path)]
                shown = " and ".join(str(f) if files[0].name == files[1].name else f.name for f in files)
                raise ValueError(f"{path}: two files are of rank {process}: {shown}; give each rank of one run once")
            first[process] = trace.path
    if wanted:
        traces[:] = [t for t in traces if set(t.processes) & set(wanted)] or traces
        return
    if min(ranks) < 0:
        return  # processes of the operating system, which have gaps
    count = max([max(first) + 1, *worlds])
    missing = [r for r in range(count) if r not in first]
    if missing:
        have = ",".join(map(str, sorted(first)))
        have = have if len(have) < 60 else f"{have[:56]}..."
        some = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise ValueError(f"{path}: the run had {count} ranks, but there is no file of rank {some}; add what is "
                         f"missing, or read the others alone (--rank {have})")  # fmt: skip


def _by_name(paths: list[Path]) -> list[int]:
    """The ranks from the names of the files: 'rank3', or else the only number in which the names differ.

    That number must count from 0 or 1. The result is empty if the names do not give the ranks."""
    said = [_IN_NAME.findall(p.name) for p in paths]
    if all(said):
        return [int(s[-1]) for s in said]
    numbers = [re.findall(r"\d+", p.name) for p in paths]
    if len({re.sub(r"\d+", "#", p.name) for p in paths}) > 1 or not numbers[0]:
        return []
    differ = [k for k in range(len(numbers[0])) if len({n[k] for n in numbers}) > 1]
    found = [int(n[differ[0]]) for n in numbers] if len(differ) == 1 else []
    low = min(found, default=0)
    return [f - low for f in found] if low <= 1 and sorted(found) == list(range(low, low + len(found))) else []


def _renumbered(trace: Trace, rank: int) -> Trace:
    lines = tuple(replace(line, process=rank) for line in trace.lines)
    return replace(trace, lines=lines, process=np.full(len(trace), rank, dtype=np.int32))


# --- collectives that ranks share ----------------------------------------------------------------------------------


@dataclass
class Shared:
    """Collectives that several files have, in order: for each file, its events (-1: not recorded there)."""

    files: list[int]
    events: Ints  # (collectives, files)


def _shared(traces: list[Trace]) -> list[Shared]:
    """Matches the n-th collective of a name in a communicator on all ranks.

    Recordings that begin or end at different collectives are shifted so that the ends agree."""
    rows: dict[tuple[int, str], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for file, trace in enumerate(traces):
        kinds = [messages.kind(n) for n in trace.names]
        if len(trace.processes) > 1:
            continue  # a file of several ranks has one clock for them, and its collectives are matched by process
        for row in messages.calls(trace, kinds).values():
            columns = (row, trace.name[row], trace.group[row])
            for event, name, group in zip(*(c.tolist() for c in columns), strict=True):
                if kinds[name] in messages.COLLECTIVES:
                    rows[group, kinds[name]][file].append(event)
    found = []
    for (_, kind), by_file in rows.items():
        if len(by_file) < 2:
            continue
        files = sorted(by_file, key=lambda f: (-len(by_file[f]), f))
        first = np.array(by_file[files[0]], dtype=np.int64)
        events = np.full((len(first), len(files)), -1, dtype=np.int64)
        events[:, 0] = first
        for k, file in enumerate(files[1:], 1):
            mine = np.array(by_file[file], dtype=np.int64)
            shift = _shift(traces[files[0]], first, traces[file], mine, kind == "allreduce")
            begin, end = max(0, shift), min(len(first), shift + len(mine))
            here = slice(begin - shift, end - shift)
            events[begin:end, k] = mine[here]
            rest = np.delete(mine, np.r_[here])
            alone = np.full((len(rest), len(files)), -1, dtype=np.int64)
            alone[:, k] = rest
            events = np.concatenate([events, alone])
        found.append(Shared(files, events))
    return found


def _shift(a: Trace, first: Ints, b: Trace, mine: Ints, alike: bool) -> int:
    """The index, among the `first` collectives of trace a, of the first of `mine` in trace b.

    If their sizes must be `alike`, ValueError is raised if no shift makes them so. The right shift is the one with the
    smallest spread of the differences of ends. Among shifts that are about as good, the one that leaves the fewest
    collectives unmatched is taken, then the one with the smallest difference of clocks.
    """
    ends, other = a.end[first] + a.began, b.end[mine] + b.began
    size, others = a.bytes[first], b.bytes[mine]
    least, most = min(0, len(first) - len(mine)), max(0, len(first) - len(mine))
    cut = min(_SHIFTS, len(mine) // 2)
    rated = []
    for shift in range(least - cut, most + cut + 1):
        begin, end = max(0, shift), min(len(first), shift + len(mine))
        here = slice(begin - shift, end - shift)
        if end - begin < 1 or (alike and (size[begin:end] != others[here]).mean() > IMPOSSIBLE):
            continue
        apart = other[here] - ends[begin:end]
        middle = np.median(apart)
        rated.append((float(np.median(np.abs(apart - middle))), begin - end, abs(float(middle)), shift))
    if not rated:
        raise ValueError(f"{b.path}: the sizes of its collectives differ from those in {a.path}: the files are of "
                         "different runs")  # fmt: skip
    good = 2 * min(r[0] for r in rated) + 10_000
    return min(r[1:] for r in rated if r[0] <= good)[2]


# --- clocks --------------------------------------------------------------------------------------------------------


def _aligned(traces: list[Trace], shared: list[Shared], path: str, notes: list[str]) -> list[int]:
    """The offset (ns) of the clock of each trace from the common clock."""
    kinds = [[messages.kind(n) for n in t.names] for t in traces]
    waits = []  # (collective, file), ns: the ends, NaN where not recorded
    starts = []
    zero = min(t.began for t in traces)
    for group in shared:
        of = traces[group.files[0]]
        if kinds[group.files[0]][of.name[group.events[0, 0]]] not in messages.JOINING:
            continue
        began, ended = np.full((2, len(group.events), len(traces)), np.nan)
        for k, file in enumerate(group.files):
            here = group.events[:, k] >= 0
            event, trace = group.events[here, k], traces[file]
            began[here, file] = trace.start[event] + float(trace.began - zero)
            ended[here, file] = trace.end[event] + float(trace.began - zero)
        several = (~np.isnan(ended)).sum(axis=1) > 1
        waits.append(ended[several])
        starts.append(began[several])
    ends = np.concatenate(waits) if waits else np.zeros((0, len(traces)))
    offset = _offsets(ends)
    if np.isnan(offset).any():
        low = max(t.began for t in traces)
        if low > min(t.began + int(t.end.max()) for t in traces) + MOST_OFFSET:
            raise ValueError(f"{path}: one file ends {_apart(traces)} before another begins, and they share no "
                             "collectives: they are of different runs")  # fmt: skip
        notes.append("the clocks of the ranks are taken as they are: no collectives connect all of them")
        return [0] * len(traces)
    worst = int(np.argmax(np.abs(offset - np.median(offset))))
    largest = abs(float(offset[worst] - np.median(offset)))
    if largest > MOST_OFFSET:
        raise ValueError(f"{path}: the clock of {Path(traces[worst].path).name} is {seconds(largest * 1e-9)} away from "
                         "the others: the files are of different runs, or clocks are not synchronised")  # fmt: skip
    corrected = ends - offset
    rest = np.abs(corrected - np.nanmedian(corrected, axis=1, keepdims=True))
    # Ends of two ranks are on both sides of their median.
    middle, high = (2 * float(q) for q in np.nanquantile(rest, (0.5, 0.95)))
    every = float(np.median(np.abs(np.diff(np.sort(np.nanmedian(corrected, axis=1)))))) if len(ends) > 1 else np.inf
    _check_each(traces, corrected, every, path, notes)
    if middle > max(SMALL, IMPOSSIBLE * every):
        raise ValueError(
            f"{path}: the n-th collectives of the ranks end {seconds(middle * 1e-9)} apart (median), and "
            f"follow each other every {seconds(every * 1e-9)}: the files are of different runs"
        )
    before = np.nanmin(corrected, axis=1) + middle + SMALL < np.nanmax(np.concatenate(starts) - offset, axis=1)
    if before.mean() > IMPOSSIBLE:
        raise ValueError(f"{path}: {int(before.sum())} of {len(before)} collectives would end on a rank before they "
                         "began on another: the files are of different runs")  # fmt: skip
    notes.append(
        f"the clocks of {len(traces)} ranks are aligned by {len(ends)} collectives, by at most "
        f"{seconds(largest * 1e-9)}; the ends then agree to {seconds(middle * 1e-9)} (median) and "
        f"{seconds(high * 1e-9)} (95 %)"
    )
    return [int(o) for o in np.rint(offset)]


def _check_each(
    traces: list[Trace], ends: NDArray[np.float64], every: float, path: str, notes: list[str]
) -> None:  # fmt: skip
    """Looks for a file whose collectives end far from those of most ranks: it may be of another run of the program.

    Collectives follow each other every `every` ns. A clock may drift."""
    if len(traces) < 3:
        return  # either may be the wrong one
    common = np.nanmedian(ends, axis=1)
    apart = np.zeros(len(traces))
    for file in range(len(traces)):
        here = ~np.isnan(ends[:, file])
        time, late = common[here], ends[here, file] - common[here]
        drift = np.polyfit(time - time[0], late, 1) if len(time) > 3 else np.zeros(2)
        if abs(drift[0]) < DRIFT:
            late = late - np.polyval(drift, time - time[0])
        apart[file] = np.median(np.abs(late))
    worst = int(np.argmax(apart))
    if apart[worst] <= SMALL:
        return
    what = f"the collectives of {Path(traces[worst].path).name} end {seconds(apart[worst] * 1e-9)} (median) away from "
    if apart[worst] > IMPOSSIBLE * every:
        raise ValueError(f"{path}: {what}those of the other ranks, and follow each other every "
                         f"{seconds(every * 1e-9)}: the file is of a different run")  # fmt: skip
    notes.append(f"{what}those of the other ranks: the file may be of a different run")


def _apart(traces: list[Trace]) -> str:
    return seconds((max(t.began for t in traces) - min(t.began + int(t.end.max()) for t in traces)) * 1e-9)


def _offsets(ends: NDArray[np.float64]) -> NDArray[np.float64]:
    """The offsets (ns) of clocks from ends of collectives, of shape (collectives, clocks); NaN if not connected."""
    count = ends.shape[1]
    offset = np.full(count, np.nan)
    offset[0] = 0.0
    known = ~np.isnan(ends)
    while np.isnan(offset).any():  # from clock to clock: next the one with the most collectives in common
        inside = known & ~np.isnan(offset)
        common = known & inside.any(axis=1)[:, None] & np.isnan(offset)
        if not common.any():
            return offset
        new = int(np.argmax(common.sum(axis=0)))
        rows = common[:, new]
        middle = np.nanmedian(np.where(inside, ends - offset, np.nan)[rows], axis=1)
        offset[new] = np.median(ends[rows, new] - middle)
    for _ in range(_TURNS):
        middle = np.nanmedian(ends - offset, axis=1, keepdims=True)
        step = np.nanmedian(ends - offset - middle, axis=0)
        offset = offset + step
        if np.abs(step).max() < 1:
            break
    return offset - np.median(offset)


# --- the table -----------------------------------------------------------------------------------------------------


def _table(traces: list[Trace], shifts: list[int], shared: list[Shared], path: str, notes: list[str]) -> Trace:
    """The joined table. Collectives that some of their ranks did not record get a name of their own."""
    names: dict[str, int] = {}
    lines: dict[Line, int] = {}
    alone = _alone(len(traces), shared)
    format_, world = traces[0].format, traces[0].world
    notes += _merged([(t.processes, t.notes) for t in traces])
    if cut := sum(len(a) for a in alone):
        notes.append(f"{cut} collectives at the edges of the recordings are not in the files of all their ranks; they "
                     "keep their time")  # fmt: skip
    offsets = np.cumsum([0, *map(len, traces)]).tolist()
    requires = [t.requires + at for t, at in zip(traces, offsets, strict=False) if t.requires is not None]
    numbers = [
        {
            "name": np.array([names.setdefault(n, len(names)) for n in t.names], dtype=np.int32),
            "line": np.array([lines.setdefault(x, len(lines)) for x in t.lines], dtype=np.int32),
        }
        for t in traces
    ]
    cuts = [{e: names.setdefault(f"cut {t.names[t.name[e]]}", len(names)) for e in mine}
            for t, mine in zip(traces, alone, strict=True)]  # fmt: skip
    parts = [{c: getattr(t, c) for c in COLUMNS} for t in traces]
    traces.clear()
    # Column by column, so that at most one exists twice. Each part is in order, and an order within a line stays: a
    # stable sort by start is `in_time`.
    columns: dict[str, Any] = {}
    order = np.zeros(0, dtype=np.int64)
    for column in ("start", *(c for c in COLUMNS if c != "start")):
        whole = np.empty(offsets[-1], dtype=parts[0][column].dtype)
        for k, (part, begin, end) in enumerate(zip(parts, offsets[:-1], offsets[1:], strict=True)):
            mine = part.pop(column)
            if column in ("start", "end"):
                mine = mine + shifts[k]
            elif column in ("name", "line"):
                mine = numbers[k][column][mine]
            whole[begin:end] = mine
            if column == "name":
                for event, number in cuts[k].items():
                    whole[begin + event] = number
        if column == "start":
            order = np.argsort(whole, kind="stable").astype(np.int32 if len(whole) < 2**31 else np.int64)
        columns[column] = whole[order]
    wanted = None
    if requires:
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        wanted = place[np.concatenate(requires)]
    return Trace(format_, path, names=tuple(names), lines=tuple(lines), requires=wanted, notes=tuple(notes),
                 world=world, **columns)  # fmt: skip


def _alone(files: int, shared: list[Shared]) -> list[list[int]]:
    """For each file, the collectives that the files of other ranks in the communicator lack."""
    found: list[list[int]] = [[] for _ in range(files)]
    for group in shared:
        lacking = (group.events < 0).any(axis=1)
        for k, file in enumerate(group.files):
            found[file] += [e for e in group.events[lacking, k].tolist() if e >= 0]
    return found


def _merged(notes: list[tuple[list[int], tuple[str, ...]]]) -> list[str]:
    """The notes of all files; only the first of those that differ only in their numbers."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for processes, texts in notes:
        for text in texts:
            found[re.sub(r"\d+(\.\d+)?(e-?\d+)?", "#", text)].append((processes[0], text))
    return [
        f"rank {group[0][0]}: {group[0][1]}" + (f" (and the like on {len(group) - 1} other ranks)" * (len(group) > 1))
        for group in found.values()
    ]
