"""`weft model project`, `weft model machines` and `weft model published`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, TypedDict, Unpack

import click

from weft.cli.bench import integers
from weft.cli.model.shared import JSON, output
from weft.cli.options import Integer, options_of
from weft.files import write_json
from weft.model.result import ModelError, Table

MACHINE = click.option(
    "--machine", metavar="NAME|FILE", help="Machine listed by `weft model machines`, or a .toml file of your own."
)
WORKLOADS = ("poisson", "maxwell", "flow", "turbulence")


class Sizes(TypedDict):
    """The options that describe the problem; None where an option is not given."""

    order: Annotated[
        int | None,
        click.option("--order", type=Integer(1, 32), help="Polynomial order (all but turbulence). [default: 7]"),
    ]
    elements: Annotated[
        int | None, click.option("--elements", type=Integer(min=1), help="Elements per rank (all but turbulence).")
    ]
    grid: Annotated[
        int | None, click.option("--grid", type=Integer(min=2), help="Grid points per direction (turbulence).")
    ]
    rows: Annotated[
        int | None,
        click.option(
            "--rows", type=Integer(min=1), help="Rows of the process grid (turbulence). [default: 1, i.e. slabs]"
        ),
    ]
    batch: Annotated[
        int | None, click.option("--batch", type=Integer(min=1), help="Fields per exchange (turbulence). [default: 1]")
    ]
    path: Annotated[
        str | None,
        click.option(
            "--path",
            type=click.Choice(["direct", "staged"]),
            help="Path of exchanges: from device memory, or staged in host memory (all but turbulence). "
            "[default: direct]",
        ),
    ]


@click.command()
@click.argument("workload", type=click.Choice(WORKLOADS))
@MACHINE
@click.option(
    "--run", "runs", type=click.Path(path_type=Path), multiple=True, metavar="RUN",
    help="Record of a poisson run; its machine replaces --machine. Repeatable.",
)  # fmt: skip
@click.option(
    "--ranks",
    default="1",
    show_default=True,
    metavar="LIST",
    help="Numbers of ranks, one rank per device, e.g. 1,8,64.",
)
@options_of(Sizes)
@JSON
def project(
    workload: str,
    machine: str | None,
    runs: tuple[Path, ...],
    ranks: str,
    json_file: Path | None,
    **given: Unpack[Sizes],
) -> None:
    """Project the time per iteration or time step of a workload on a machine, at any scale.

    The time of computation follows from bytes, operations and the device's rates, the time of exchanges from message
    sizes and the links at each level (device, node, network).
    """
    from weft.model import calibration
    from weft.model import machine as machines
    from weft.model import project as method

    if bool(machine) == bool(runs):
        raise click.UsageError("give either --machine or --run")
    if machine:
        described = machines.load(machine)
    else:
        from weft.model.sources import run_record

        records = []
        for path in runs:
            file = path / "run.json" if path.is_dir() else path
            record = run_record(file)
            if record is None:
                raise ModelError(f"{file}: not a run record; give a run directory or the run.json in it")
            records.append(record)
        described = calibration.machine_of_runs(records)
    allowed = ("grid", "rows", "batch") if workload == "turbulence" else ("order", "elements", "path")
    options = {k: v for k, v in given.items() if v is not None}
    foreign = sorted(set(options) - set(allowed))
    if foreign:
        allowed_text = ", ".join(f"--{a}" for a in allowed)
        raise click.UsageError(f"--{foreign[0]} does not apply to {workload}, which takes {allowed_text}")
    if workload == "turbulence" and "grid" not in options:
        raise click.UsageError("turbulence needs --grid, the number of grid points per direction")
    if "elements" in options:
        options["elements_per_rank"] = options.pop("elements")
    function = getattr(method, workload)
    results = []
    for count in integers(ranks, "ranks", 1):
        found = method.results(described, partial(function, ranks=count, **options))
        of = f"{count} rank{'s' * (count > 1)}"
        results += [replace(r, quantity=f"{of}: {r.quantity}") for r in found]
    output(Table(f"{workload} on {described.title}", results, method.notes(described, workload)), json_file)


@click.command("machines")
def machines_command() -> None:
    """List the machines that weft has a description of."""
    from weft.format import rate, table
    from weft.model import machine as machines

    rows = [("NAME", "NODES", "RANKS/NODE", "DEVICE", "STREAM", "CALIBRATED CONSTANTS")]
    for name in machines.names():
        m = machines.load(name)
        stream = rate(m.device.stream_bytes_per_second.value, "B/s")
        rows.append(
            (
                name,
                str(int(m.nodes.value)),
                str(m.ranks_per_node),
                m.device.name,
                stream,
                ", ".join(m.constants) or "none",
            )
        )
    click.echo(table(rows))
    click.echo("For a machine of your own, copy machines/template.toml of the package and pass the path of the copy.")


@click.command()
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Also write the rows to FILE."
)
def published(json_file: Path | None) -> None:
    """Compare published scaling tables with weft's projections.

    Covers Table 2 of hipBone, Tables 2 to 7 of GESTS, and the figures that NekCEM's text gives for its Figs. 7 to 9.
    The constants of a machine were calibrated on the rows marked *.
    """
    from weft.model import calibration

    rows = calibration.published_rows()
    click.echo(calibration.show(rows))
    if json_file is not None:
        write_json(json_file, [{**vars(r), "error": r.error} for r in rows])
        click.echo(f"wrote {json_file}")
