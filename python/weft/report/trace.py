"""Summaries of the traces weft writes (Chrome's trace events, complete events "X")."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.report.format import rate, seconds, table


@dataclass(frozen=True)
class Event:
    """One span: times in seconds, `line` a time line of a rank (0 host, 1 device)."""

    name: str
    category: str
    rank: int
    line: int
    begin: float
    end: float
    bytes: int


def read(path: str | Path) -> list[Event]:
    """The spans of a trace file. Raises ValueError where it is not one, OSError where it cannot be read."""
    try:
        content = json.loads(Path(path).read_text())
        events = content["traceEvents"] if isinstance(content, dict) else content
        return [_event(e) for e in events if e.get("ph") == "X"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: not a trace that weft wrote ({type(error).__name__}: {error})") from None


def _event(e: dict[str, Any]) -> Event:
    begin, length = float(e["ts"]) / 1e6, float(e["dur"]) / 1e6
    moved = int(e.get("args", {}).get("bytes", 0))
    return Event(e["name"], e.get("cat", ""), int(e["pid"]), int(e["tid"]), begin, begin + length, moved)


def exclusive(events: Iterable[Event]) -> Iterator[tuple[Event, float]]:
    """Each span with the seconds that are its own: less those of the spans that began inside it on its time line."""
    lines: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        lines[event.rank, event.line].append(event)
    for line in lines.values():
        line.sort(key=lambda e: (e.begin, -e.end))
        own = [0.0] * len(line)
        open_: list[int] = []
        now = 0.0

        def advance(until: float, open_: list[int] = open_, line: list[Event] = line, own: list[float] = own) -> None:
            nonlocal now
            while open_ and line[open_[-1]].end <= until:
                last = open_.pop()
                own[last] += max(0.0, line[last].end - now)
                now = max(now, line[last].end)
            if open_ and until > now:
                own[open_[-1]] += until - now
            now = max(now, until)

        for index, event in enumerate(line):
            advance(event.begin)
            open_.append(index)
        advance(max(e.end for e in line))
        yield from zip(line, own, strict=True)


def summarise(events: list[Event], top: int = 15) -> str:
    """Two tables: time by category and by name, means over the ranks, and the bytes the spans name."""
    if not events:
        return "no spans"
    ranks = {e.rank for e in events}
    length = max(e.end for e in events) - min(e.begin for e in events)
    by_category: dict[str, float] = defaultdict(float)
    by_name: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for event, own in exclusive(events):
        by_category[event.category] += own
        entry = by_name[event.name, event.category]
        entry[0] += own
        entry[1] += 1
        entry[2] += event.bytes
    count = len(ranks)

    def share(value: float) -> str:
        return f"{100 * value / count / length:.1f} %" if length > 0 else "-"

    rows = [("CATEGORY", "EXCLUSIVE, MEAN OVER RANKS", "SHARE OF THE SPAN OF TIME")]
    rows += [(c, seconds(v / count), share(v)) for c, v in sorted(by_category.items(), key=lambda i: -i[1])]
    names = [("NAME", "CATEGORY", "EXCLUSIVE, MEAN OVER RANKS", "SHARE", "CALLS", "BYTES A CALL")]
    for (name, category), (own, calls, moved) in sorted(by_name.items(), key=lambda i: -i[1][0])[:top]:
        per_call = rate(moved / calls, "B") if moved else "-"
        names.append((name, category, seconds(own / count), share(own), f"{calls:.0f}", per_call))
    head = f"{len(events)} spans of {count} rank(s) in {seconds(length)}"
    return "\n\n".join([head, table(rows), table(names)])
