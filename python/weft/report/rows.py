"""Rows of a run's tables that every workload has: machine, exchanges, where the time went."""

from __future__ import annotations

from typing import Any

from weft.format import seconds

Record = dict[str, Any]
Rows = list[tuple[str, str]]


def machine_rows(record: Record) -> Rows:
    """Ranks, device and MPI."""
    machine = record["machine"]
    device = machine["device"]
    return [
        (
            "ranks",
            f"{machine['ranks']}, {machine['threads_per_rank']} thread(s) each, {machine['ranks_per_node']} per node",
        ),
        ("device", f"{device['backend']}: {device['name']} ({device['architecture']})"),
        ("MPI", record["versions"]["mpi"]),
    ]


def exchange_rows(tunings: Record | str, timings: bool) -> Rows:
    """What was chosen for every exchange and why; `timings`: and what was tried."""
    if isinstance(tunings, str):  # a record of before exchanges were tuned
        return [("  exchange", tunings)]
    rows = []
    for use, tuning in tunings.items():
        took = "from the cache" if tuning["cached"] else f"timed in {seconds(tuning['tuning_seconds'])}"
        rows.append(
            (
                "  exchange",
                f"{use.replace('_', '-')} {tuning['chosen']}: {tuning['reason']}"
                + (f" ({took})" if tuning["timings"] else ""),
            )
        )
        if timings:
            rows += [(f"    {row['exchange']}", timing_in_words(row)) for row in tuning["timings"]]
    return rows


def timing_in_words(row: Record) -> str:
    """One line of the table of timings."""
    if row["failure"]:
        return f"not usable: {row['failure']}"
    if row["repetitions"] == 0:
        return "not timed: the others cannot be used"
    stopped = ", stopped early" if row["stopped_early"] else ""
    return f"{seconds(row['median_seconds'])}, median of {row['repetitions']}{stopped}"


def breakdown_rows(record: Record, whole: str, parts: str) -> Rows:
    """Where the time of the timing named `whole` went, by what the timing named `parts` tells apart."""
    timings = record["timings"]
    total = timings[whole]
    rows = [("time in", "mean over ranks, slowest rank")]
    for category, value in timings[parts].items():
        share = 100 * value["mean_seconds"] / total if total > 0 else 0.0
        rows.append(
            (f"  {category}", f"{seconds(value['mean_seconds'])} ({share:.1f} %), {seconds(value['max_seconds'])}")
        )
    return rows
