"""`weft model table13`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.model.shared import FACTOR, JSON, RUNS
from weft.cli.options import Integer
from weft.cli.window import takes_window
from weft.files import write_json, write_text
from weft.format import table

if TYPE_CHECKING:
    from weft.traces import Window


@click.command()
@RUNS
@click.option("--ranks-per-node", type=Integer(min=1), help="Ranks per node of the traced runs.")
@click.option(
    "--link", type=FACTOR, default=25.0, show_default=True, metavar="GB/s", help="Bandwidth of one GPU's links."
)
@click.option("--gpus", type=Integer(min=1), default=8, show_default=True, help="GPUs per node.")
@click.option(
    "--network", type=FACTOR, default=24.0, show_default=True, metavar="GB/s", help="Bandwidth between two nodes."
)
@click.option(
    "--memory",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Roofline constants (--save of `weft model roofline`) of the device reading its own memory.",
)
@click.option(
    "--unified",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Roofline constants of the device reading the memory of the host.",
)
@click.option(
    "--html", "html_file", type=click.Path(path_type=Path), metavar="FILE", help="Also write a page with plots to FILE."
)
@takes_window
@JSON
def table13(
    runs: tuple[Path, ...],
    ranks_per_node: int | None,
    link: float,
    gpus: int,
    network: float,
    memory: Path | None,
    unified: Path | None,
    html_file: Path | None,
    window: Window,
    json_file: Path | None,
) -> None:  # fmt: skip
    """Print Table 13 of the GPU integration report for your own applications.

    RUN is a run directory, a run.json file or a trace; each application gives one row, and several runs of it give
    ranges. The ratio.json of `weft bench ratio` adds the CPU:GPU ratio. A value that cannot be computed is shown as
    N/E (not evaluated), with the reason below the table.
    """
    from weft.model import roofline
    from weft.model import table13 as method
    from weft.model.integration import off_node_acceleration
    from weft.report.html import table13_page

    here, there = (roofline.read(f) if f is not None else None for f in (memory, unified))
    acceleration = off_node_acceleration(link, gpus, network)
    found = method.rows(runs, ranks_per_node=ranks_per_node, acceleration=acceleration, here=here, there=there,
                        window=window)  # fmt: skip
    head, lines = method.console(found), method.details(found)
    click.echo(table(head) + "\n\n" + table(lines))
    if json_file is not None:
        write_json(json_file, [row.json() for row in found])
        click.echo(f"wrote {json_file}")
    if html_file is not None:
        factors = {
            row.application: {
                name: (c.result.value, c.result.low, c.result.high)
                for name, c in row.cells.items()
                if c.result is not None and c.result.unit == "x"
            }
            for row in found
        }
        terms = {row.application: asdict(row.terms) for row in found}
        write_text(html_file, table13_page(head, lines, terms, {k: v for k, v in factors.items() if v}))
        click.echo(f"wrote {html_file}")
