"""Compares rates of all-to-alls, read in several ways from GESTS, for its time steps.

Writes into docs/model-project.md.

    python benchmarks/all_to_all_readings.py

Tables 10 to 14 time single all-to-alls, and the time steps of the other tables are projected from them. Each reading is
a law for the rate per rank between 64 and 4096 nodes. Each is judged twice: by the all-to-alls alone, with one table at
a time held out, and by the time steps on Frontier that were not used for calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from published_tables import PAGE, written_between
from scipy.optimize import minimize_scalar, nnls

from weft.files import write_json
from weft.model import comparison, published
from weft.model.calibration import all_to_all_rate
from weft.model.comparison import Row
from weft.model.comparison_tables import markdown_table, percent
from weft.model.machine import load, with_number
from weft.model.published import AllToAll

RESULTS = Path(__file__).parent / "results" / "all_to_all_readings.json"
RATE = "links.network.all_to_all_bytes_per_second"
FEWEST, MOST = 64, 4096  # nodes of the all-to-alls between groups whose global links are not full
OUTLIER = "16: 8192^3, 512 nodes, 1 x 4096"
# Byte/s per rank, of the number of nodes, the bytes of a message, and the rows of the process grid.
Law = Callable[[float, float, int], float]


def measured() -> list[AllToAll]:
    """The all-to-alls between nodes from which a rate is read."""
    return [r for r in published.GESTS_ALL_TO_ALLS if not r.in_row and FEWEST <= r.nodes <= MOST]


def rate_of(row: AllToAll) -> float:
    """Byte/s of the messages to all other ranks."""
    return row.message * 2**20 * (row.members - 1) / row.seconds


def _fastest(rows: Sequence[AllToAll]) -> Law:
    value = all_to_all_rate(rows)
    return lambda nodes, message, count: value


def _median(rows: Sequence[AllToAll]) -> Law:
    value = float(np.median([rate_of(r) for r in rows]))
    return lambda nodes, message, count: value


def _power(rows: Sequence[AllToAll]) -> Law:
    nodes = np.log([r.nodes for r in rows])
    slope, start = np.polyfit(nodes, np.log([rate_of(r) for r in rows]), 1)
    return lambda nodes, message, count: float(np.exp(start + slope * np.log(nodes)))


def _at_nodes(rows: Sequence[AllToAll]) -> Law:
    """The fastest at each number of nodes; between them, and beyond the ends, by the logarithm of the number."""
    fastest: dict[int, float] = {}
    for r in sorted(rows, key=lambda r: r.nodes):
        fastest[r.nodes] = max(rate_of(r), fastest.get(r.nodes, 0.0))
    at, rates = np.log(list(fastest)), list(fastest.values())
    return lambda nodes, message, count: float(np.interp(np.log(nodes), at, rates))


def _by_rows(reading: Callable[[Sequence[AllToAll]], Law]) -> Callable[[Sequence[AllToAll]], Law]:
    """One law for process grids of one row (Tables 10 and 14), and one for several rows (Tables 12 and 13)."""

    def made(rows: Sequence[AllToAll]) -> Law:
        one, several = (reading([r for r in rows if (r.rows == 1) == single]) for single in (True, False))
        return lambda nodes, message, count: (one if count == 1 else several)(nodes, message, count)

    return made


def _inverse(rows: Sequence[AllToAll], terms: Callable[[float, float], list[float]]) -> Law:
    """Seconds per byte as a sum of terms with coefficients not below zero, by least squares of relative errors."""
    rates = np.array([rate_of(r) for r in rows])
    design: NDArray[np.float64] = np.array([terms(r.nodes, r.message * 2**20) for r in rows])
    found, _ = nnls(design * rates[:, None], np.ones(len(rows)))
    return lambda nodes, message, count: float(1 / (found @ np.array(terms(nodes, message))))


READINGS: dict[str, Callable[[Sequence[AllToAll]], Law]] = {
    "one rate: fastest of each message size, median of these (used)": _fastest,
    "one rate: median of all": _median,
    "power of the number of nodes": _power,
    "latency and rate (Hockney)": lambda rows: _inverse(rows, lambda nodes, message: [1, 1 / message]),
    "latency and rate, and the logarithm of the nodes": lambda rows: _inverse(
        rows, lambda nodes, message: [1, 1 / message, np.log2(nodes / FEWEST)]
    ),
    "two rates, for one row and for several: as the first line": _by_rows(_fastest),
    "one row and several apart: fastest at each number of nodes, between them by its logarithm": _by_rows(_at_nodes),
}


def held_out(reading: Callable[[Sequence[AllToAll]], Law]) -> float:
    """Mean absolute error of the all-to-alls of each table from those of the other tables."""
    rows, errors = measured(), []
    for table in {r.table for r in rows}:
        law = reading([r for r in rows if r.table != table])
        errors += [abs(law(r.nodes, r.message * 2**20, r.rows) / rate_of(r) - 1) for r in rows if r.table == table]
    return float(np.mean(errors))


def projected(law: Law) -> list[Row]:
    """The time steps on Frontier's GPUs, each with the rate that a law gives for its nodes and its messages."""
    machine = load("frontier")
    gests = {r.ranks_and_shape: r for n in (2, 3, 5, 6, 7) for r in getattr(published, f"GESTS_TABLE_{n}")}
    shapes = [(r.nodes, r.grid, r.rows, r.columns) for r in gests.values()]
    shapes += [(nodes, grid, 1, 8 * nodes) for grid, nodes in published.GESTS_SLABS_STRONG]
    found = []
    for place, (nodes, grid, count, columns) in enumerate(shapes):
        message = 4 * grid**3 / (8 * nodes) / columns
        value = law(min(max(nodes, FEWEST), MOST), message, count)
        found.append(comparison.gests_rows("frontier", with_number(machine, RATE, value))[place])
    return comparison.predicted(found)


def _largest(rows: Sequence[Row]) -> float:
    return max(abs(r.error) for r in rows)


def main() -> None:
    """Writes the results and the table."""
    head = ("rate of all-to-alls", "other tables' all-to-alls, mean", "steps, mean", "largest", "Table 5, case 16")
    body, results = [], {}

    def add(name: str, alone: float | None, law: Law) -> None:
        rows = projected(law)
        mean, (case,) = float(np.mean([abs(r.error) for r in rows])), [r.error for r in rows if r.row == OUTLIER]
        results[name] = {"held_out": alone, "mean": mean, "largest": _largest(rows), "case_16": case}
        shown = "" if alone is None else f"{100 * alone:.1f} %"
        body.append((name, shown, f"{100 * mean:.1f} %", f"{100 * _largest(rows):.1f} %", percent(case)))

    for name, reading in READINGS.items():
        add(name, held_out(reading), reading(measured()))
    best = minimize_scalar(
        lambda rate: _largest(projected(lambda nodes, message, count: rate)), bounds=(6e9, 9e9), options={"xatol": 1e7}
    ).x
    add(f"{best / 1e9:.2f} GB/s, fitted to the largest error of the steps themselves", None, lambda n, m, c: best)
    text = markdown_table(head, body)
    print(text)
    write_json(RESULTS, results)
    PAGE.write_text(
        written_between(PAGE.read_text(encoding="utf-8"), "readings", "all_to_all_readings.py", text), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
