"""Plots of `weft bench pingpong`, `exchange` and `alltoall`."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from weft.format import size_text
from weft.report.measured import AllToAll, Exchange, Message
from weft.report.plots import COLOURS, MARKERS, STYLE, style

LINES = ["-", "--", ":", "-."]


def size_axis(axes: Axes, sizes: Sequence[int]) -> None:
    """Message sizes: logarithmic to base 2, labelled in B, KiB and MiB."""
    axes.set_xscale("log", base=2)
    low, high = min(sizes), max(sizes)
    step = max(1, round((high.bit_length() - low.bit_length()) / 7))
    axes.set_xticks([2**k for k in range(low.bit_length() - 1, high.bit_length(), step)])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: size_text(x)))
    axes.tick_params(axis="x", labelsize=8.5, rotation=30)
    axes.set_xlabel("message size")


def ping_pong(rows: Sequence[Message], scope: str, machine: str) -> Figure:
    """Latency and bandwidth against message size, with one line and its quartiles for each memory and path.

    The plot follows the figures for Alvis in Wahlgren's slides. It marks sizes from 1 to 64 KiB, at which they found
    device memory slow within a node.
    """
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.4))
        kinds = list(dict.fromkeys((r["memory"], r["path"]) for r in rows))
        sizes = sorted({r["bytes"] for r in rows})
        for axes in (left, right):
            if sizes[0] < 65536 and sizes[-1] > 1024:
                axes.axvspan(1024, 65536, color="#EEEEEE", zorder=0, label="1 to 64 KiB" if axes is right else None)
        for index, (memory, path) in enumerate(kinds):
            mine = [r for r in rows if (r["memory"], r["path"]) == (memory, path)]
            x, how = [r["bytes"] for r in mine], {"markersize": 4, **style(index)}
            if memory != "host":
                how["linestyle"] = "--"
            left.plot(x, [1e6 * r["seconds"] for r in mine], label=f"{memory} {path}", **how)
            left.fill_between(
                x,
                [1e6 * r["seconds_low"] for r in mine],
                [1e6 * r["seconds_high"] for r in mine],
                color=how["color"],
                alpha=0.2,
                linewidth=0,
            )
            right.plot(x, [r["bandwidth_bytes_per_second"] / 1e9 for r in mine], label=f"{memory} {path}", **how)
        for axes, name in ((left, "time one way (µs), quartiles shaded"), (right, "bandwidth one way (GB/s)")):
            size_axis(axes, sizes)
            axes.set_yscale("decades")
            axes.set_ylabel(name)
            axes.legend(loc="upper left", fontsize=9)
        figure.suptitle(f"ping-pong {scope}; {machine}", fontsize=10, x=0.01, ha="left")
        figure.tight_layout()
    return figure


def exchange(rows: Sequence[Exchange], machine: str) -> Figure:
    """Time against order: a column per operation, a row per number of fields, a line per choice."""
    operations = list(dict.fromkeys(r["operation"] for r in rows))
    fields = sorted({r["fields"] for r in rows})
    schedules = list(dict.fromkeys(r["schedule"] for r in rows))
    paths = list(dict.fromkeys(r["path"] for r in rows))
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            len(fields),
            len(operations),
            figsize=(4.0 * len(operations) + 2.2, 2.6 * len(fields) + 0.8),
            sharex=True,
            squeeze=False,
        )
        for i, count in enumerate(fields):
            for j, operation in enumerate(operations):
                axes = grid[i][j]
                mine = [r for r in rows if r["fields"] == count and r["operation"] == operation]
                for choice in dict.fromkeys(r["choice"] for r in mine):
                    points = sorted((r for r in mine if r["choice"] == choice), key=lambda r: r["order"])
                    axes.plot(
                        [r["order"] for r in points],
                        [1e6 * r["seconds"] for r in points],
                        label=choice,
                        color=COLOURS[schedules.index(points[0]["schedule"]) % len(COLOURS)],
                        marker=MARKERS[paths.index(points[0]["path"]) % len(MARKERS)],
                        linestyle=LINES[paths.index(points[0]["path"]) % len(LINES)],
                        markersize=4,
                    )
                bound = dict(sorted({r["order"]: r["bound_seconds"] for r in mine}.items()))
                axes.plot(
                    list(bound), [1e6 * b for b in bound.values()], color="black", linewidth=1.2, label="lower bound"
                )
                axes.set_yscale("decades")
                axes.set_xticks(list(bound))
                axes.set_title(f"{operation}, {count} field{'s' if count > 1 else ''}", fontsize=10, loc="left")
        for axes in grid[-1]:
            axes.set_xlabel("polynomial order N")
        for line in grid:
            line[0].set_ylabel("time (µs)")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.suptitle(machine, fontsize=10, x=0.01, ha="left")
        figure.tight_layout()
        figure.legend(handles, labels, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
    return figure


def all_to_all(rows: Sequence[AllToAll], machine: str) -> Figure:
    """Effective bandwidth of Eq. 13 against message size, with one panel per communicator."""
    kinds = list(dict.fromkeys((r["communicator"], r["ranks"]) for r in rows))
    lines = list(dict.fromkeys((r["memory"], r["method"]) for r in rows))
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(1, len(kinds), figsize=(4.6 * len(kinds) + 2.2, 4.2), sharey=True, squeeze=False)
        for axes, (communicator, ranks) in zip(panels[0], kinds, strict=True):
            here = [r for r in rows if (r["communicator"], r["ranks"]) == (communicator, ranks)]
            for index, (memory, method) in enumerate(lines):
                mine = sorted(
                    (r for r in here if (r["memory"], r["method"]) == (memory, method)),
                    key=lambda r: r["message_bytes"],
                )
                axes.plot(
                    [r["message_bytes"] for r in mine],
                    [r["bandwidth_bytes_per_second"] / 1e9 for r in mine],
                    label=f"{memory} {method}",
                    linestyle="-" if memory == "host" else "--",
                    markersize=4,
                    **style(index),
                )
            size_axis(axes, [r["message_bytes"] for r in here])
            axes.set_yscale("decades")
            axes.set_title(f"{communicator} communicator of {ranks}", fontsize=10, loc="left")
        panels[0][0].set_ylabel("bandwidth per rank (GB/s, GESTS Eq. 13)")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.suptitle(machine, fontsize=10, x=0.01, ha="left")
        figure.tight_layout()
        figure.legend(handles, labels, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
    return figure
