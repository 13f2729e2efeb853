"""Formatting of numbers and of aligned lines."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest


def rate(value: float, unit: str) -> str:
    """A value with a decimal prefix: 35.1 GB/s."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{short(value / factor)} {prefix}{unit}"
    return f"{short(value)} {unit}"


def seconds(value: float) -> str:
    """A time with a prefix: 3.21 ms."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor:
            return f"{short(value / factor)} {unit}"
    return f"{short(value / 1e-9)} ns"


def size_text(size: float) -> str:
    """Bytes with a binary prefix: 64 KiB."""
    for factor, prefix in ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki")):
        if size >= factor:
            return f"{short(size / factor)} {prefix}B"
    return f"{short(size)} B"


def short(value: float) -> str:
    """Three significant digits, or all digits before the point: 0.0123, 12.3, 12345."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def gigabytes(bytes_per_second: float, digits: int = 3) -> str:
    """GB/s for a narrow column."""
    value = bytes_per_second / 1e9
    return f"{value:.{digits}g}" if value >= 0.001 else "<.001"


def table(rows: Sequence[Sequence[str]], width: int = 0) -> str:
    """Lines with aligned columns; the last column wraps within itself where a line would be longer than ``width``.

    ``width`` 0: lines are not wrapped. Words longer than the column, such as paths, are not broken.
    """
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]) - 1)]
    before = sum(widths) + 2 * len(widths)
    lines = []
    for row in rows:
        head = "".join(f"{cell.ljust(w)}  " for cell, w in zip(row, widths, strict=False))
        room = max(20, width - before)
        parts = textwrap.wrap(row[-1], room, break_long_words=False, break_on_hyphens=False) if width else [row[-1]]
        lines += [f"{left}{part}".rstrip() for left, part in zip_longest([head], parts, fillvalue=" " * before)]
    return "\n".join(lines)


def middle(text: str, length: int = 60) -> str:
    """The text, with "…" in place of its middle if it is longer than `length`: names often differ only at the end."""
    if len(text) <= length:
        return text
    start = (length - 1) // 2
    return f"{text[:start]}…{text[len(text) - (length - 1 - start) :]}"


def table_of_names(rows: Sequence[Sequence[str]], width: int, least: int = 24) -> str:
    """A table whose first column, below its heading, is shortened (`middle`) so that lines are `width` long at most.

    At least `least` characters of a name remain, even if lines become longer than `width`.
    """
    others = sum(2 + max(len(row[c]) for row in rows) for c in range(1, len(rows[0])))
    room = max(least, width - others)
    return table([rows[0], *([middle(row[0], room), *row[1:]] for row in rows[1:])])
