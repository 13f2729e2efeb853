"""Plots of Maxwell runs: energy and error in time, rate against size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from weft.record import Statistics
from weft.report.measured import Fit, SweepRow
from weft.report.plots import COLOURS, MARKERS, STYLE, style


def energy(statistics: Statistics, conserved: bool) -> Figure:
    """Energies of the fields against time, with those of the exact solution, and the error of their sum.

    The error is relative to the energy of the exact solution or, if none is known and energy is ``conserved``, to the
    initial energy.
    """
    time = np.array(statistics["time"])
    found = {
        "electric": np.array(statistics["electric_energy"]),
        "magnetic": np.array(statistics["magnetic_energy"]),
    }
    exact = statistics.get("exact") or {}
    given = [np.array(exact[f"{kind}_energy"]) for kind in found] if exact else []
    given += [given[0] + given[1]] if exact else []
    sums = found["electric"] + found["magnetic"]
    expected = np.interp(time, exact["time"], given[2]) if exact else np.full(len(time), sums[0])
    right = (bool(exact) or conserved) and expected[0] > 0
    with plt.rc_context(STYLE):
        figure, all_axes = plt.subplots(1, 1 + right, figsize=(5.6 + 5.2 * right, 3.9), squeeze=False)
        axes = all_axes[0, 0]
        for index, (label, values) in enumerate((*found.items(), ("both", sums))):
            axes.plot(time, values, color=COLOURS[index], marker=MARKERS[index] if exact else None,
                      linestyle="none" if exact else "-", markersize=4, label=label)  # fmt: skip
        for index, values in enumerate(given):
            axes.plot(exact["time"], values, color=COLOURS[index], linewidth=1.0, label="exact" if index == 2 else None)
        axes.set_ylabel("energy of the fields")
        axes.set_ylim(0, 1.25 * axes.dataLim.y1 or 1.0)  # room for the legend
        axes.legend(loc="upper left", ncols=4, fontsize=9)
        if right:
            all_axes[0, 1].plot(time, sums / expected - 1, color=COLOURS[2], marker=MARKERS[2], markersize=4)
            all_axes[0, 1].axhline(0.0, color="black", linewidth=1.0)
            all_axes[0, 1].set_ylabel("both over the exact energy, less 1" if exact else "both over the first, less 1")
        for axes in all_axes[0]:
            axes.set_xlabel("time (length / speed of light)")
            axes.margins(x=0.02)
        figure.tight_layout()
    return figure


def error(found: Mapping[str, Sequence[float]]) -> Figure:
    """The energy norm of the difference from the exact solution, over that of the solution, against time."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.4, 3.8))
        axes.plot(found["time"], found["relative"], **style(0))
        axes.set_yscale("decades")
        axes.set_xlabel("time (length / speed of light)")
        axes.set_ylabel("relative error, energy norm")
        axes.margins(x=0.02)
    return figure


def half_rate(rows: Sequence[SweepRow], fits: Sequence[Fit], machine: str) -> Figure:
    """NekCEM's Fig. 7 and Figs. 5, 6: GFLOP/s on one rank and seconds per step on all, against number of points."""
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.8, 4.4))
        orders = sorted({r["order"] for r in rows})
        lines = 0
        for number, order in enumerate(orders):
            for ranks in sorted({r["ranks"] for r in rows}):
                mine = [r for r in rows if (r["order"], r["ranks"]) == (order, ranks)]
                mine.sort(key=lambda r: r["points"])
                if not mine:
                    continue
                n = [r["points"] for r in mine]
                label = f"N = {order}, {ranks} rank{'s' if ranks > 1 else ''}"
                right.plot(n, [r["seconds_per_step"] for r in mine], label=label, **style(lines))
                lines += 1
                if ranks == min(r["ranks"] for r in rows):
                    left.plot(n, [r["gflops"] for r in mine], label=label, **style(number))
            for fit in fits:
                if fit["half_rate_points"] and fit["order"] == order and fit["ranks"] == min(r["ranks"] for r in rows):
                    left.axvline(fit["half_rate_points"], color=style(number)["color"], linestyle=":", linewidth=1.2)
        left.set_xscale("decades")
        right.set_xscale("decades")
        right.set_yscale("decades")
        left.set_ylim(bottom=0)
        for axes, y in ((left, "GFLOP/s (Eq. 16); dotted: $n_{1/2}$"), (right, "seconds per time step")):
            axes.set_xlabel("points n = E (N+1)$^3$")
            axes.set_ylabel(y)
            axes.legend(loc="best", fontsize=9)
        figure.suptitle(machine, fontsize=10, x=0.01, ha="left")
        figure.tight_layout()
    return figure
