"""Plots of flows: monitored quantities against time, iterations and seconds of the steps, phases, a plane, scaling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from weft.record import Profile, Reference, Row
from weft.report.measured import SweepRow
from weft.report.plots import COLOURS, STYLE, style

Rows = Sequence[Row]


def column(rows: Rows, key: str) -> NDArray[np.float64]:
    """A column of rows as numbers; NaN where a row has no value."""
    return np.array([np.nan if row.get(key) is None else row[key] for row in rows], float)


def histories(rows: Rows, panels: Mapping[str, Sequence[str]], reference: Reference | None) -> Figure:
    """Plots quantities against time, one panel per label of `panels`, which lists its columns.

    A reference is drawn in the panels for which it has data.
    """
    with plt.rc_context(STYLE):
        figure, all_axes = plt.subplots(1, len(panels), figsize=(5.2 * len(panels), 3.9), squeeze=False)
        time = column(rows, "time")
        for axes, (label, keys) in zip(all_axes[0], panels.items(), strict=True):
            curves = {"energy": reference["energy"], "dissipation": reference["dissipation"]} if reference else {}
            known = len(keys) == 1 and keys[0] in curves
            if known and reference is not None:
                axes.plot(reference["time"], curves[keys[0]], color="black", linewidth=1.0, label=reference["name"])
            for index, key in enumerate(keys):
                told = "weft" if known else key
                axes.plot(time, column(rows, key), color=COLOURS[index], linestyle="--" if known else "-", label=told)
            axes.set_xlabel("time")
            axes.set_ylabel(label)
            axes.margins(x=0.01)
            if len(keys) > 1:  # above the curves, of which several would cross it
                axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2, fontsize=9)
            elif known:
                axes.legend(fontsize=9)
        figure.tight_layout()
    return figure


def profile(found: Profile) -> Figure:
    """Mean velocity and fluctuations along the coordinate that is not averaged over.

    If the ends are walls, the plot is in wall units and includes u+ = y+ and the logarithmic law with kappa = 0.41 and
    B = 5.2.
    """
    columns = {name: np.array(values) for name, values in found["columns"].items()}
    walls = "distance_plus" in columns
    plus = "_plus" if walls else ""
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.8, 4.2))
        place = columns["distance_plus" if walls else found["coordinate"]]
        inside = place > 0 if walls else np.ones(place.shape, bool)
        means = ["velocity_plus"] if walls else ["u", "v", "w"]
        marks = {"linestyle": "none", "marker": "."} if walls else {}  # both halves of a channel in one plot
        for index, name in enumerate(means):
            left.plot(place[inside], columns[name][inside], color=COLOURS[index], label=name, **marks)
        if walls:
            near, far = np.geomspace(0.5, 11, 50), np.geomspace(10, max(30.0, place.max()), 50)
            left.plot(near, near, color="black", linewidth=1.0, label="$y^+$")
            left.plot(far, np.log(far) / 0.41 + 5.2, color="#888888", linestyle="--", linewidth=1.0,
                      label=r"$\ln y^+ / 0.41 + 5.2$")  # fmt: skip
            left.set_xscale("decades")
        for index, name in enumerate(("uu", "vv", "ww", "uv")):
            right.plot(place, columns[name + plus], color=COLOURS[index], label=name + plus, **marks)
        for axes, label in ((left, "mean velocity"), (right, "covariances")):
            axes.set_xlabel("distance from the wall in wall units" if walls else found["coordinate"])
            axes.set_ylabel(label)
            axes.legend(fontsize=9)
        figure.tight_layout()
    return figure


def solves(rows: Rows) -> Figure:
    """Iterations of the solves and seconds of each step, against the step."""
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 3.9))
        step = column(rows, "step")
        for index, key in enumerate(k for k in rows[0] if k.endswith("_iterations")):
            left.plot(step, column(rows, key), color=COLOURS[index], label=key.removesuffix("_iterations"))
        left.set_ylabel("iterations")
        left.legend(fontsize=9)
        left.yaxis.set_major_locator(MaxNLocator(integer=True))
        right.plot(step, 1e3 * column(rows, "seconds"), color=COLOURS[0])
        right.set_ylabel("time per step (ms)")
        for axes in (left, right):
            axes.set_xlabel("step")
            axes.set_ylim(bottom=0)
            axes.margins(x=0.01)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.tight_layout()
    return figure


def phases(found: Mapping[str, Mapping[str, float]], steps: int) -> Figure:
    """One bar per phase: milliseconds of a step by category."""
    categories = [c for c in dict.fromkeys(c for spent in found.values() for c in spent)]
    shown = [c for c in categories if any(spent.get(c, 0.0) > 0 for spent in found.values())]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.8, 1.2 + 0.4 * len(found)))
        left = np.zeros(len(found))
        for index, category in enumerate(shown):
            values = np.array([1e3 * spent.get(category, 0.0) / max(1, steps) for spent in found.values()])
            axes.barh(list(found), values, left=left, color=COLOURS[index % len(COLOURS)], label=category)
            left += values
        axes.invert_yaxis()
        axes.set_xlabel("time per step, mean over ranks (ms)")
        axes.grid(axis="y", visible=False)
        axes.legend(ncols=max(1, len(shown)), loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2, fontsize=9)
    return figure


def scaling(rows: Sequence[SweepRow], machine: str) -> Figure:
    """Seconds per step against ranks, one line per size, with perfect strong scaling; and the share of the exchange."""
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.8, 4.4))
        ticks = sorted({r["ranks"] for r in rows})
        for index, (order, elements) in enumerate(sorted({(r["order"], r["elements"]) for r in rows})):
            mine = sorted(
                (r for r in rows if (r["order"], r["elements"]) == (order, elements)), key=lambda r: r["ranks"]
            )
            ranks = [r["ranks"] for r in mine]
            label = f"N = {order}, {elements} elements"
            left.plot(ranks, [r["seconds_per_step"] for r in mine], label=label, **style(index))
            first = mine[0]
            perfect = [first["seconds_per_step"] * first["ranks"] / p for p in ranks]
            left.plot(ranks, perfect, color="#888888", linestyle=":", linewidth=1.0)
            right.plot(ranks, [100 * r["exchange_share"] for r in mine], label=label, **style(index))
        left.set_xscale("decades")
        left.set_yscale("decades")
        right.set_xscale("decades")
        left.set_ylabel("seconds per step; dotted: ideal")
        right.set_ylabel("share of the exchange (%)")
        right.set_ylim(bottom=0)
        for axes in (left, right):
            axes.set_xlabel("ranks")
            axes.set_xticks(ticks, labels=[str(p) for p in ticks])
            axes.minorticks_off()
        left.legend(fontsize=9)
        figure.suptitle(machine, fontsize=10, x=0.01, ha="left")
        figure.tight_layout()
    return figure
