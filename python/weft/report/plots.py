"""Plots with labelled axes and units, legible in print.

Lines are distinguished by colour (Okabe and Ito's palette, safe for the colour-blind) and by marker.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import matplotlib

matplotlib.use("Agg")  # no display needed; before pyplot

import matplotlib.pyplot as plt
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.scale import LogScale, register_scale
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, MaxNLocator
from numpy.typing import ArrayLike

from weft.files import whole
from weft.report.measured import OperatorRow, SweepRow

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
CATEGORY_COLOURS = {"cpu": "#0072B2", "gpu": "#009E73", "mpi": "#D55E00", "copy": "#E69F00", "launch": "#CC79A7"}
OTHER = "#BBBBBB"

STYLE: dict[RcKeyType, object] = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "figure.dpi": 150,
    "axes.formatter.useoffset": False,
}


class Line(TypedDict):
    """The style of a line."""

    color: str
    marker: str


def style(index: int) -> Line:
    """Colour and marker of the index-th line of a plot."""
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}


SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Powers(LogFormatterSciNotation):
    """Labels such as 10⁻³ as text. Matplotlib's own are formulas, which take as long as all the rest of a plot."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        formula = super().__call__(x, pos).removeprefix(r"$\mathdefault{").removesuffix("}$")
        return re.sub(r"\^\{(.*)\}", lambda found: found[1].translate(SUPERSCRIPTS), formula).replace(r"\times", "×")


class BetweenPowers(LogLocator):
    """Ticks between the powers of ten, on axes of at most two decades."""

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        return [] if vmax > 100 * vmin else super().tick_values(vmin, vmax)


class Decades(LogScale):
    """The decimal logarithmic scale of plots."""

    name = "decades"

    def __init__(self, *owner: Axis) -> None:  # matplotlib before 3.11 gives the axis
        super().__init__(*owner)

    def set_default_locators_and_formatters(self, axis: Axis) -> None:
        super().set_default_locators_and_formatters(axis)
        axis.set_major_formatter(Powers())
        axis.set_minor_formatter(Powers())
        axis.set_minor_locator(BetweenPowers(subs="auto"))


register_scale(Decades)


def write(figure: Figure, file: Path | io.BytesIO, suffix: str | None = None) -> None:
    """Writes a figure in the format of the suffix, by default that of the file's name, cropped; and closes it."""
    # As with bbox_inches="tight", which draws the whole figure a second time.
    if (layout := figure.get_layout_engine()) is not None:
        layout.execute(figure)
    figure.savefig(file, format=suffix, bbox_inches=figure.get_tightbbox().padded(0.1))
    plt.close(figure)


def save(figure: Figure, path: str | Path) -> None:
    """Writes a figure in the format given by the suffix of the name, and closes it."""
    with whole(path) as place:
        write(figure, place)


def as_html(figure: Figure, alt: str) -> str:
    """The figure inside an <img>, so that a page needs no other file."""
    buffer = io.BytesIO()
    write(figure, buffer, "svg")
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{alt}" src="data:image/svg+xml;base64,{data}">'


def residuals(values: Sequence[float]) -> Figure:
    """The history of the residual norm."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.4, 3.8))
        axes.plot(range(len(values)), values, color=COLOURS[0])
        axes.set_yscale("decades")
        axes.set_xlabel("iteration")
        axes.set_ylabel("residual norm |r|")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(x=0.01)
    return figure


def breakdown(categories: dict[str, float], total: float) -> Figure:
    """One bar: where the time went, in milliseconds by category."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.4, 1.9))
        shown = {k: v for k, v in categories.items() if v > 0}
        rest = total - sum(v for k, v in shown.items() if k != "gpu")
        if rest > 0.005 * total and "other" not in shown:
            shown["other"] = rest
        left: dict[int, float] = {0: 0.0, 1: 0.0}
        for index, (name, value) in enumerate(shown.items()):
            line = 1 if name == "gpu" else 0  # kernels run concurrently with the host
            colour = OTHER if name == "other" else CATEGORY_COLOURS.get(name, COLOURS[index % len(COLOURS)])
            axes.barh(line, 1e3 * value, left=1e3 * left[line], color=colour, label=name)
            left[line] += value
        axes.set_yticks([0, 1] if "gpu" in shown else [0], ["host", "device"] if "gpu" in shown else ["host"])
        axes.set_xlabel("time, mean over ranks (ms)")
        axes.grid(axis="y", visible=False)
        axes.legend(ncols=len(shown), loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2, handlelength=1)
    return figure


def operator(rows: Sequence[OperatorRow], machine: str, bandwidth: float) -> Figure:
    """hipBone's Fig. 3: GFLOP/s of the operator against the order, with the calibrated roofline of Eq. 4."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 4.4))
        # Shapes of thread blocks are distinguished only if several were measured at an order.
        both = len({(r["order"], r["geometry"], r["kernels"]) for r in rows}) < len(rows)
        lines: dict[str, list[OperatorRow]] = {}
        for r in rows:
            shape = f", {r['threads']}" if both else ""
            lines.setdefault(f"{r['geometry']} geometry, {r['kernels']}{shape}", []).append(r)
        for index, (label, mine) in enumerate(lines.items()):
            axes.plot([r["order"] for r in mine], [r["gflops"] for r in mine], label=label, **style(index))
        roof = {r["order"]: r["roofline_gflops"] for r in rows}
        label = f"roofline of Eq. 4 (stored factors), B = {bandwidth / 1e9:.3g} GB/s measured"
        axes.plot(list(roof), list(roof.values()), color="black", linestyle="--", linewidth=1.4, label=label)
        axes.set_xlabel("polynomial order N")
        axes.set_ylabel("operator (GFLOP/s, count of Eq. 4)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=15))
        axes.set_ylim(0, 1.25 * max(r["gflops"] for r in rows))  # room for the legend
        axes.set_title(machine, fontsize=10, loc="left")
        axes.legend(loc="upper left", fontsize=9)
    return figure


def predicted_operator(lines: Mapping[str, Mapping[int, tuple[float, float]]], machine: str) -> Figure:
    """hipBone's Fig. 3 as predicted: GFLOP/s against the order and, dashed, the roofline of the same bytes."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 4.4))
        for index, (name, rates) in enumerate(lines.items()):
            orders = sorted(rates)
            axes.plot(orders, [rates[n][0] for n in orders], label=name, **style(index))
            roof = [rates[n][1] for n in orders]
            axes.plot(orders, roof, color=COLOURS[index % len(COLOURS)], linestyle="--", linewidth=1.2)
        axes.set_xlabel("polynomial order N")
        axes.set_ylabel("operator (GFLOP/s, count of Eq. 4)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=15))
        axes.set_ylim(bottom=0)
        axes.set_title(f"predicted for {machine}; dashed: streaming roofline", fontsize=10, loc="left")
        axes.legend(loc="upper left", fontsize=9)
    return figure


def scaling(rows: Sequence[SweepRow], order: int, machine: str) -> Figure:
    """hipBone's Figs. 4 to 6 for one order: FOM against DOFs, and throughput per rank against DOFs per rank."""
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.2))
        for index, ranks in enumerate(sorted({r["ranks"] for r in rows})):
            mine = sorted((r for r in rows if r["ranks"] == ranks and r["order"] == order), key=lambda r: r["dofs"])
            label = f"{ranks} rank{'s' if ranks > 1 else ''}"
            left.plot([r["dofs"] for r in mine], [r["fom_gflops"] for r in mine], label=label, **style(index))
            right.plot(
                [r["dofs"] / ranks for r in mine],
                [r["throughput_dofs_per_second_per_rank"] / 1e6 for r in mine],
                label=label,
                **style(index),
            )
        for axes, x, y in (
            (left, "degrees of freedom $N_G$", "FOM (GFLOP/s, Nekbone's count, Eq. 3)"),
            (right, "degrees of freedom per rank, $N_G / P$", "throughput per rank (MDOF/s, Eq. 6)"),
        ):
            axes.set_xscale("decades")
            axes.set_xlabel(x)
            axes.set_ylabel(y)
            axes.set_ylim(bottom=0)
            axes.legend(loc="best", fontsize=9)
        figure.suptitle(
            f"N = {order}, 1 to {max(r['ranks'] for r in rows)} ranks; {machine}", fontsize=10, x=0.01, ha="left"
        )
        figure.tight_layout()
    return figure


def surface(latencies: ArrayLike, bandwidths: ArrayLike, speedup: ArrayLike) -> Figure:
    """Speed-up (latencies x bandwidths) over the traced run, against latency (µs) and bandwidth (GB/s)."""
    with plt.rc_context({**STYLE, "axes.grid": False}):
        figure, axes = plt.subplots(figsize=(6.4, 4.8))
        filled = axes.contourf(bandwidths, latencies, speedup, levels=20, cmap="cividis")
        lines = axes.contour(bandwidths, latencies, speedup, levels=8, colors="black", linewidths=0.6)
        axes.clabel(lines, fmt="%.2f", fontsize=9)
        axes.set(xscale="log", yscale="log", xlabel="bandwidth (GB/s)", ylabel="latency (µs)")
        figure.colorbar(filled, label="speed-up over the traced run")
    return figure


TERMS = ("t_cpu", "t_gpu", "t_mpi", "t_cg_data", "t_cg_control")


def terms(applications: dict[str, dict[str, float]]) -> Figure:
    """One bar per application: the terms of Eq. 3 of the GPU integration report, as shares of the run time."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 1.2 + 0.5 * len(applications)))
        left = [0.0] * len(applications)
        for name, colour in zip(TERMS, COLOURS, strict=False):
            shares = [100 * a[name] / sum(a.values()) for a in applications.values()]
            axes.barh(list(applications), shares, left=left, color=colour, label=name)
            left = [x + s for x, s in zip(left, shares, strict=True)]
        axes.invert_yaxis()
        axes.set_xlabel("share of the run time (%), Eq. 3")
        axes.grid(axis="y", visible=False)
        axes.legend(ncols=5, loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2, handlelength=1, fontsize=9)
    return figure


def factors(applications: dict[str, dict[str, tuple[float, float, float]]]) -> Figure:
    """Benefits and penalties by application: value, low and high of each, as bars with their ranges."""
    with plt.rc_context(STYLE):
        names = list(dict.fromkeys(n for a in applications.values() for n in a))
        figure, axes = plt.subplots(figsize=(7.2, 1.4 + 0.8 * len(applications)))
        height = 0.8 / max(1, len(names))
        for index, name in enumerate(names):
            found = [(row, a[name]) for row, a in enumerate(applications.values()) if name in a]
            at = [row + (index - (len(names) - 1) / 2) * height for row, _ in found]
            values = [v for _, (v, _, _) in found]
            ranges = [[v - low for _, (v, low, _) in found], [high - v for _, (v, _, high) in found]]
            axes.barh(at, values, height=height, xerr=ranges, color=COLOURS[index], label=name, ecolor="#444444")
        axes.axvline(1.0, color="black", linewidth=1.0)
        axes.set_yticks(range(len(applications)), list(applications))
        axes.set_ylim(len(applications) - 0.5, -0.5)
        axes.set_xlabel("factor (x): benefit, or slowdown of disaggregation")
        axes.grid(axis="y", visible=False)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, fontsize=9)
    return figure
