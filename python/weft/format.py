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


def size_text(size: float) -> str:
    """Bytes with a binary prefix: 64 KiB."""
    for factor, prefix in ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki")):
        if size >= factor:
            return f"{size / factor:.3g} {prefix}B"
    return f"{size:.3g} B"


def short(value: float) -> str:
    """Three digits, or all before the point: 0.0123, 12.3, 12345."""
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def gigabytes(bytes_per_second: float, digits: int = 3) -> str:
    """GB/s for a narrow column."""
    value = bytes_per_second / 1e9
    return f"{value:.{digits}g}" if value >= 0.001 else "<.001"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Lines with aligned columns; the last column is left as long as it is."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]).rstrip() for row in rows
    )
