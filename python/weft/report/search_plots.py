"""Plot of `weft model search`."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt

from weft.model.search import STEPS, Found
from weft.report.plots import COLOURS, OTHER, STYLE, save, style


def time_and_cost(found: Found, title: str, path: str | Path) -> None:
    """Time against nodes and node-hours against time: all configurations, and the fastest on each number of nodes.

    Configurations that no other one beats in both time and node-hours have a ring.
    """
    unit = found.fitting[0].projection.unit
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.2))
        dots = {"color": OTHER, "s": 8, "zorder": 1}
        left.scatter([c.nodes for c in found.fitting], [c.seconds for c in found.fitting], **dots)
        right.scatter([c.seconds for c in found.fitting], [c.node_hours for c in found.fitting], **dots)
        for index, (machine, row) in enumerate(found.by_nodes().items()):
            how = {**style(index), "label": machine}
            left.plot([c.nodes for c in row], [c.seconds for c in row], **how)
            right.plot([c.seconds for c in row], [c.node_hours for c in row], **how)
        front = found.front()
        ring = {"facecolors": "none", "edgecolors": COLOURS[-1], "s": 110, "zorder": 3, "label": "best choices"}
        left.scatter([c.nodes for c in front], [c.seconds for c in front], **ring)
        right.scatter([c.seconds for c in front], [c.node_hours for c in front], **ring)
        left.set_xlabel("nodes")
        left.set_ylabel(f"time per {unit} (s)")
        right.set_xlabel(f"time per {unit} (s)")
        right.set_ylabel(f"node-hours per {STEPS:,} {unit}s")
        for axes in (left, right):
            axes.set_xscale("decades")
            axes.set_yscale("decades")
        left.set_title(title, fontsize=10, loc="left")
        left.legend(fontsize=9)
        figure.tight_layout()
        save(figure, path)
