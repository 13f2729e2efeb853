"""Plots of turbulence: spectra, histories, distributions, a slice of enstrophy, and scaling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from weft.record import Distribution, Reference
from weft.report.measured import SweepRow
from weft.report.plots import COLOURS, STYLE, style

KOLMOGOROV = 1.6  # C of E(k) = C eps^(2/3) k^(-5/3); Sreenivasan, Phys. Fluids 7, 2778 (1995): 1.62 +- 0.17


def spectrum(
    wavenumbers: ArrayLike, energy: ArrayLike, dissipation_rate: float, kolmogorov_scale: float | None
) -> Figure:
    """E(k) in Kolmogorov units, with C k^-5/3; in the units of the run if there is no dissipation."""
    k, e = np.asarray(wavenumbers)[1:], np.asarray(energy)[1:]
    scaled = bool(kolmogorov_scale)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.4, 4.4))
        x, y = k, e
        if scaled and kolmogorov_scale:
            x = k * kolmogorov_scale
            y = e / (dissipation_rate ** (2 / 3) * kolmogorov_scale ** (5 / 3))
            axes.plot(x, KOLMOGOROV * x ** (-5 / 3), color="black", linestyle="--", linewidth=1.2,
                      label=f"{KOLMOGOROV} $(k\\eta)^{{-5/3}}$")  # fmt: skip
        shown = y > 1e-16 * y.max() if y.size and y.max() > 0 else y > 0
        axes.plot(x[shown], y[shown], color=COLOURS[0], marker="o", markersize=3, label="$E(k)$")
        axes.set_xscale("decades")
        axes.set_yscale("decades")
        if shown.any():
            axes.set_ylim(bottom=0.5 * y[shown].min())
        axes.set_xlabel("wavenumber $k\\eta$" if scaled else "wavenumber $k$")
        axes.set_ylabel("$E(k) / (\\epsilon^{2/3} \\eta^{5/3})$" if scaled else "$E(k)$")
        axes.legend()
    return figure


def transfer(wavenumbers: ArrayLike, values: ArrayLike, dissipation: ArrayLike) -> Figure:
    """k T(k) and k D(k), whose areas on the logarithmic axis are the energy moved."""
    k = np.asarray(wavenumbers)[1:]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.4, 3.8))
        axes.plot(k, k * np.asarray(values)[1:], color=COLOURS[0], label="transfer $k\\,T(k)$")
        axes.plot(k, -k * np.asarray(dissipation)[1:], color=COLOURS[1], label="dissipation $-k\\,D(k)$")
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set_xscale("decades")
        axes.set_xlabel("wavenumber $k$")
        axes.set_ylabel("energy per time and $\\ln k$")
        axes.legend()
    return figure


def history(
    times: Sequence[float | None],
    dissipation: Sequence[float | None],
    energy: Sequence[float | None],
    reference: Reference | None,
) -> Figure:
    """Dissipation and energy against time, compared with a reference if there is one."""
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.0))
        others = (None, None) if reference is None else (reference["dissipation"], reference["energy"])
        for axes, values, other, label in (
            (left, dissipation, others[0], "dissipation $\\epsilon$"),
            (right, energy, others[1], "kinetic energy"),
        ):
            if reference is not None and other is not None:
                axes.plot(reference["time"], other, color="black", linewidth=1.0, label=reference["name"])
            axes.plot(times, values, color=COLOURS[0], linestyle="--" if reference is not None else "-", label="weft")
            axes.set_xlabel("time")
            axes.set_ylabel(label)
            axes.set_ylim(0, 1.15 * axes.dataLim.y1)  # room for the legend
            axes.legend()
        figure.tight_layout()
    return figure


def distributions(found: Mapping[str, Distribution]) -> Figure:
    """Probability densities of the named quantities on a logarithmic axis; per decade for dissipation and enstrophy."""
    decades = [n for n in found if n in ("dissipation", "enstrophy")]
    signed = [n for n in found if n not in decades]
    panels = [names for names in (decades, signed) if names]
    with plt.rc_context(STYLE):
        figure, all_axes = plt.subplots(1, len(panels), figsize=(5.2 * len(panels), 4.0), squeeze=False)
        for axes, names in zip(all_axes[0], panels, strict=True):
            for index, name in enumerate(names):
                lower, upper, density = (np.asarray(found[name][k]) for k in ("lower", "upper", "density"))
                middle = np.sqrt(lower * upper) if names is decades else (lower + upper) / 2
                axes.plot(middle, density, label=name, color=style(index)["color"])
            if names is decades:
                axes.set_xscale("decades")
            else:
                x = np.linspace(-5, 5, 101)
                axes.plot(x, np.exp(-x * x / 2) / np.sqrt(2 * np.pi), color="black", linestyle="--", linewidth=1.0,
                          label="normal")  # fmt: skip
            axes.set_yscale("decades")
            axes.set_xlabel("value / mean" if names is decades else "value / root mean square")
            axes.set_ylabel("density, per decade" if names is decades else "density")
            axes.legend(fontsize=9)
        figure.tight_layout()
    return figure


def table3(runs: Mapping[str, Mapping[str, float]], title: str) -> Figure:
    """One bar per run: seconds of a step by part (GESTS, Tables 2 and 3)."""
    parts = list(next(iter(runs.values())))
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 1.4 + 0.45 * len(runs)))
        left = np.zeros(len(runs))
        for index, part in enumerate(parts):
            values = np.array([spent[part] for spent in runs.values()])
            axes.barh(list(runs), values, left=left, color=COLOURS[index % len(COLOURS)], label=part)
            left += values
        axes.invert_yaxis()
        axes.set_xlabel("seconds per step")
        axes.grid(axis="y", visible=False)
        axes.set_title(title, fontsize=10, loc="left", pad=28)
        axes.legend(ncols=len(parts), loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2, fontsize=9)
    return figure


def scaling(rows: Sequence[SweepRow], machine: str) -> Figure:
    """GESTS, Fig. 7: seconds per step over N^3 log2 N against ranks, compared with the slope of perfect scaling."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.8, 4.6))
        for index, grid in enumerate(sorted({r["grid"] for r in rows})):
            mine = sorted((r for r in rows if r["grid"] == grid), key=lambda r: r["ranks"])
            best: dict[int, float] = {}
            for r in mine:
                best[r["ranks"]] = min(best.get(r["ranks"], np.inf), r["seconds_per_step"])
            axes.plot(list(best), list(best.values()), label=f"${grid}^3$", **style(index))
            first = min(best)
            axes.plot(list(best), [best[first] * first / p for p in best], color="#888888", linestyle=":",
                      linewidth=1.0)  # fmt: skip
        axes.set_xscale("decades")
        axes.set_yscale("decades")
        axes.set_xlabel("ranks")
        axes.set_ylabel("seconds per step")
        axes.set_xticks(sorted({r["ranks"] for r in rows}), labels=[str(p) for p in sorted({r["ranks"] for r in rows})])
        axes.minorticks_off()
        axes.set_title(f"{machine}; dotted: perfect strong scaling", fontsize=9, loc="left")
        axes.legend()
    return figure
