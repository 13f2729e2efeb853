"""Numbers and aligned lines for people."""

from __future__ import annotations

from collections.abc import Sequence


def rate(value: float, unit: str) -> str:
    """A value with a decimal prefix: 35.1 GB/s."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def seconds(value: float) -> str:
    """A time with a prefix: 3.21 ms."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Lines with aligned columns; the last column is left as long as it is."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]).rstrip() for row in rows
    )
