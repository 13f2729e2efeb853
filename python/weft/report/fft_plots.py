"""The plot of `weft bench fft`."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from weft.report.measured import Lines, Transform
from weft.report.plots import STYLE, style

LINESTYLES = {"double": "-", "single": "--"}


def transforms(rows: Sequence[Transform], lines: Sequence[Lines], machine: str) -> Figure:
    """GFLOP/s against N: on the left the 3-D transform for each process grid, on the right lines along y by method."""
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.4))
        for precision in dict.fromkeys(r["precision"] for r in rows):
            for index, grid in enumerate(dict.fromkeys(r["process_grid"] for r in rows)):
                mine = [r for r in rows if (r["precision"], r["process_grid"]) == (precision, grid)]
                left.plot(
                    [r["points"] for r in mine],
                    [r["flops_per_second"] / 1e9 for r in mine],
                    label=f"{grid} {precision}",
                    linestyle=LINESTYLES[precision],
                    **style(index),
                )
            of_precision = [r for r in lines if r["precision"] == precision]
            ways = dict.fromkeys(way for r in of_precision for way in r["flops_per_second"])
            for index, way in enumerate(ways):
                right.plot(
                    [r["points"] for r in of_precision],
                    [r["flops_per_second"][way] / 1e9 for r in of_precision],
                    label=f"{way} {precision}",
                    linestyle=LINESTYLES[precision],
                    **style(index),
                )
        sizes = sorted({r["points"] for r in rows})
        for axes, title in ((left, "real transform, forward + backward"), (right, "complex lines along y")):
            axes.set_xscale("log", base=2)
            axes.set_xticks(sizes)
            axes.minorticks_off()
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.0f}"))
            axes.set_xlabel("N (points per direction)")
            axes.set_ylabel("GFLOP/s, all ranks")
            axes.set_ylim(bottom=0)
            axes.set_title(title, fontsize=10.5, loc="left")
            axes.legend(fontsize=8.5, handlelength=3.5)
        figure.suptitle(machine, fontsize=10, x=0.01, ha="left")
        figure.tight_layout()
    return figure
