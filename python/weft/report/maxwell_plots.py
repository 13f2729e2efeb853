"""Plots of Maxwell runs: energy in time, fields on a plane, rate against size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from weft.report.plots import COLOURS, STYLE, style


def energy(statistics: Mapping[str, Sequence[float]]) -> Figure:
    """Electric, magnetic and whole energy of the fields against time."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.4, 3.8))
        time = statistics["time"]
        electric, magnetic = (np.array(statistics[f"{kind}_energy"]) for kind in ("electric", "magnetic"))
        for index, (label, values) in enumerate(
            (("electric", electric), ("magnetic", magnetic), ("both", electric + magnetic))
        ):
            axes.plot(time, values, color=COLOURS[index], label=label)
        axes.set_xlabel("time (length / speed of light)")
        axes.set_ylabel("energy of the fields")
        axes.set_ylim(bottom=0)
        axes.legend(loc="best", fontsize=9)
        axes.margins(x=0.01)
    return figure


def plane(picture: Any, extent: Sequence[float], axes_names: str, at: float, component: str, time: float) -> Figure:
    """A component of the fields on a plane; components that change sign with white in the middle."""
    with plt.rc_context({**STYLE, "axes.grid": False}):
        figure, axes = plt.subplots(figsize=(6.4, 5.4))
        largest = float(np.nanmax(np.abs(picture))) if np.isfinite(picture).any() else 1.0
        signed = len(component) == 2
        image = axes.imshow(
            picture,
            origin="lower",
            extent=tuple(extent),  # type: ignore[arg-type]
            cmap="RdBu_r" if signed else "viridis",
            vmin=-largest if signed else 0.0,
            vmax=largest,
            interpolation="nearest",
        )
        name = component[0].upper() + component[1:] if signed else f"|{component.upper()}|"
        normal = next(a for a in "xyz" if a not in axes_names)
        axes.set_xlabel(f"{axes_names[0]} (length)")
        axes.set_ylabel(f"{axes_names[1]} (length)")
        axes.set_title(f"{name} at {normal} = {at:.4g}, time {time:.6g}", fontsize=10, loc="left")
        figure.colorbar(image, label=name)
    return figure


def half_rate(rows: Sequence[Mapping[str, Any]], fits: Sequence[Mapping[str, Any]], machine: str) -> Figure:
    """NekCEM's Fig. 7 and Figs. 5, 6: GFLOP/s on one rank, and seconds a step on all, against the number of points."""
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
                right.loglog(n, [r["seconds_per_step"] for r in mine], label=label, **style(lines))
                lines += 1
                if ranks == min(r["ranks"] for r in rows):
                    left.plot(n, [r["gflops"] for r in mine], label=label, **style(number))
            for fit in fits:
                if fit["half_rate_points"] and fit["order"] == order and fit["ranks"] == min(r["ranks"] for r in rows):
                    left.axvline(fit["half_rate_points"], color=style(number)["color"], linestyle=":", linewidth=1.2)
        left.set_xscale("log")
        left.set_ylim(bottom=0)
        for axes, y in ((left, "GFLOP/s (Eq. 16); dotted: $n_{1/2}$"), (right, "seconds a time step")):
            axes.set_xlabel("points n = E (N+1)$^3$")
            axes.set_ylabel(y)
            axes.legend(loc="best", fontsize=9)
        figure.suptitle(machine, fontsize=10, x=0.01, ha="left")
        figure.tight_layout()
    return figure
