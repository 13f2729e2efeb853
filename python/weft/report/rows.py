"""The rows of tables that all workloads share: machine, exchanges, where the time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from weft.format import seconds
from weft.record import Choices, Limit, Record, Reference, Spread, Timing, Tuning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = list[tuple[str, str]]
Parts = tuple[float, Mapping[str, Spread]]  # total seconds, and seconds by category
Plot = tuple[str, str, "Figure"]  # heading, file name, figure


def machine_rows(record: Record) -> Rows:
    """Ranks, device and MPI."""
    machine = record["machine"]
    device = machine["device"]
    cores = machine.get("microarchitecture", "generic")
    kind = f"{cores}, " if device["backend"] == "host" and cores != "generic" else ""
    return [
        (
            "ranks",
            f"{machine['ranks']}, {machine['threads_per_rank']} thread(s) each, {machine['ranks_per_node']} per node",
        ),
        ("device", f"{device['backend']}: {device['name']} ({kind}{device['architecture']})"),
        ("MPI", record["versions"]["mpi"]),
    ]


def limit_rows(limits: Sequence[Limit], of: str = "") -> Rows:
    """Which limit binds, and the share of each that was reached (`weft.model.limits`). `of`: what they
    are limits of, in front of the line."""
    if not limits:  # a record of an older version
        return []
    first, *others = [(limit["name"], f"{100 * limit['share']:.0f} %", limit["what"]) for limit in limits]
    held = ", of which caches hold a part" if first[0] == "bandwidth" and limits[0]["share"] > 1 else ""
    return [("limit", f"{of}{first[0]} binds, {first[1]} reached: {first[2]}{held}")] + [
        ("  then", f"{name}, {share}: {what}") for name, share, what in others
    ]


def limit_tiles(limits: Sequence[Limit]) -> Rows:
    """The limit that binds, for the top of a page."""
    return [(f"{100 * limit['share']:.0f} %", f"of the limit that binds: {limit['name']}") for limit in limits[:1]]


def choice_rows(choices: Choices, verbose: bool = False) -> Rows:
    """What was chosen and why, one line per option; with `verbose`, also choices that users cannot make."""
    lines = [(name, why) for name, why in choices.items() if isinstance(why, str)]
    hidden = ("algorithm",) if verbose else ("algorithm", "access")
    return [(f"  {name}", why) for name, why in lines if name not in hidden]


def exchange_rows(tunings: Mapping[str, Tuning], timings: bool) -> Rows:
    """What was chosen for every exchange and why; with `timings`, also every candidate that was tried for it."""
    rows = []
    for use, tuning in tunings.items():
        reused = tuning.get("reused", False)  # which older records lack
        took = "from the cache" if tuning["cached"] else f"timed in {seconds(tuning['tuning_seconds'])}"
        if reused:
            took += " for an equal exchange"
        rows.append(
            (
                "  exchange",
                f"{use.replace('_', '-')} {tuning['chosen']}: {tuning['reason']}"
                + (f" ({took})" if tuning["timings"] else ""),
            )
        )
        if timings and not reused:
            rows += [(f"    {row['exchange']}", timing_in_words(row)) for row in tuning["timings"]]
    return rows


def timing_in_words(row: Timing) -> str:
    """One line of the table of timings."""
    if row["failure"]:
        return f"not usable: {row['failure']}"
    if row["repetitions"] == 0:
        return "not timed: the others cannot be used"
    stopped = ", stopped early" if row["stopped_early"] else ""
    return f"{seconds(row['median_seconds'])}, median of {row['repetitions']}{stopped}"


def reference_rows(reference: Reference) -> Rows:
    """The difference of a run from a reference."""
    errors = {"energy": reference["largest_energy_error"], "dissipation": reference["largest_dissipation_error"]}
    return [
        (f"  {key}", f"largest difference from {reference['name']}: {100 * error:.3g} % of its largest value")
        for key, error in errors.items()
        if error is not None
    ]


def breakdown_rows(spent: Parts) -> Rows:
    """Where the time went; none if no step was profiled."""
    total, parts = spent
    if not any(value["max_seconds"] > 0 for value in parts.values()):
        return []
    rows = [("time in", "mean over ranks, slowest rank")]
    for category, value in parts.items():
        share = 100 * value["mean_seconds"] / total if total > 0 else 0.0
        rows.append(
            (f"  {category}", f"{seconds(value['mean_seconds'])} ({share:.1f} %), {seconds(value['max_seconds'])}")
        )
    return rows
