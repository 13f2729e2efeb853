"""One self-contained HTML page per run: tables and plots, without other files or scripts."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

from matplotlib.figure import Figure

from weft.record import Record
from weft.report import plots
from weft.report.rows import breakdown_rows
from weft.report.workloads import report_of

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 16px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
.wide {{ overflow-x: auto; }} details {{ margin: .5rem 0; }} summary {{ cursor: pointer; color: #0072B2; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ text-align: left; padding: .25rem .8rem .25rem 0; vertical-align: top; border-bottom: 1px solid #e4e4e4; }}
td {{ overflow-wrap: anywhere; }} td:first-child {{ white-space: nowrap; font-weight: 600; }}
img {{ max-width: 100%; height: auto; }}
pre {{ background: #f6f6f6; padding: .8rem; overflow-x: auto; font-size: .85rem; }}
.figures {{ display: flex; flex-wrap: wrap; gap: 1rem; }}
.figure {{ border: 1px solid #e4e4e4; border-radius: .4rem; padding: .6rem 1rem; }}
.figure b {{ display: block; font-size: 1.4rem; }}
</style></head><body>
{body}
</body></html>
"""


def page(record: Record) -> str:
    """The HTML page of a run."""
    report = report_of(record)
    total, spent = report.time_spent(record)
    title = f"weft {report.heading(record)}"
    boxes = "".join(f'<div class="figure"><b>{_text(a)}</b>{_text(b)}</div>' for a, b in report.tiles(record))
    means = {k: v["mean_seconds"] for k, v in spent.items()}
    header = report.header_rows(record, verbose=True)
    chosen = [row for row in header if row[0].startswith(" ")]
    results = report.result_rows(record)
    where = breakdown_rows((total, spent))
    parts = [
        f"<h1>{_text(title)}</h1>",
        f'<div class="figures">{boxes}</div>',
        *(_plot(*plot) for plot in report.figures_of(record)),
        *(["<h2>Result</h2>" + _table(results)] if results else []),
        "<h2>The run</h2>" + _table([row for row in header if not row[0].startswith(" ")]),
        "<h2>Speed</h2>" + _table(report.speed_rows(record)),
        *([_plot("Where the time went", "time", plots.breakdown(means, total)), _table(where)] if where else []),
        *(_plot(*plot) for plot in report.speed_figures_of(record)),
        "<h2>Choices</h2>" + _folded("what was chosen, why, and what else was timed", _table(chosen)),
        "<h2>Case</h2>"
        + _folded("every key with its value", "<pre>" + _text(json.dumps(record["case"], indent=1)) + "</pre>"),
    ]
    return PAGE.format(title=_text(title), body="\n".join(parts))


def _plot(head: str, name: str, figure: Figure) -> str:
    return f"<h2>{_text(head)}</h2>" + plots.as_html(figure, head.lower())


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{_text(summary)}</summary>{content}</details>"


def _text(value: object) -> str:
    return html.escape(str(value))


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = ("<tr>" + "".join(f"<td>{_text(c.strip())}</td>" for c in row) + "</tr>" for row in rows)
    return '<div class="wide"><table>' + "\n".join(lines) + "</table></div>"


def table13_page(
    head: Sequence[Sequence[str]],
    lines: Sequence[Sequence[str]],
    terms: dict[str, dict[str, float]],
    factors: dict[str, dict[str, tuple[float, float, float]]],
) -> str:
    """The page of `weft model table13`: the table, the plots, and for each cell its range and equation."""
    title = "weft: benefits and penalties of GPU integration"
    parts = [f"<h1>{_text(title)}</h1>", _table(head)]
    if factors:
        parts.append("<h2>Benefits and penalties</h2>" + plots.as_html(plots.factors(factors), "factors"))
    parts.append("<h2>Where the time went</h2>" + plots.as_html(plots.terms(terms), "terms of Eq. 3"))
    parts.append("<h2>Uncertainties, equations, and missing values</h2>" + _table(lines))
    return PAGE.format(title=_text(title), body="\n".join(parts))
