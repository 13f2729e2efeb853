"""`weft model project`, `weft model machines` and `weft model published`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from weft.cli.bench import integers
from weft.cli.model.shared import JSON, output
from weft.cli.options import Integer
from weft.files import write_json
from weft.model.result import ModelError, Table

MACHINE = click.option("--machine", metavar="NAME|FILE", help="As `weft model machines` lists, or a .toml file.")
WORKLOADS = ("poisson", "maxwell", "flow", "turbulence")


@click.command()
@click.argument("workload", type=click.Choice(WORKLOADS))
@MACHINE
@click.option(
    "--run", "runs", type=click.Path(path_type=Path), multiple=True, metavar="RUN",
    help="Instead of --machine: the machine of these poisson runs; repeatable.",
)  # fmt: skip
@click.option("--ranks", default="1", show_default=True, metavar="LIST", help="Ranks, one a device, as 1,8,64.")
@click.option("--order", type=Integer(1, 32), help="Polynomial order. [default: 7]")
@click.option("--elements", type=Integer(min=1), help="Elements a rank (not turbulence).")
@click.option("--grid", type=Integer(min=2), help="Points a direction (turbulence).")
@click.option("--rows", type=Integer(min=1), help="Rows of the grid of ranks (turbulence). [default: 1, slabs]")
@click.option("--batch", type=Integer(min=1), help="Fields an exchange (turbulence). [default: 1]")
@click.option("--path", type=click.Choice(["direct", "staged"]), help="Of exchanges (not turbulence).")
@JSON
def project(
    workload: str, machine: str | None, runs: tuple[Path, ...], ranks: str, json_file: Path | None, **given: Any
) -> None:
    """Time of an iteration or a step of a workload on a machine, at any scale.

    Computation from bytes and rates, exchanges from message sizes and the links of each level (device, node, network).
    """
    from weft.model import calibration
    from weft.model import machine as machines
    from weft.model import project as method

    if bool(machine) == bool(runs):
        raise click.UsageError("give --machine or --run, one of them")
    if machine:
        described = machines.load(machine)
    else:
        from weft.model.sources import run_record

        records = []
        for path in runs:
            file = path / "run.json" if path.is_dir() else path
            record = run_record(file)
            if record is None:
                raise ModelError(f"{file}: not the record of a run of weft")
            records.append(record)
        described = calibration.machine_of_runs(records)
    allowed = ("grid", "rows", "batch") if workload == "turbulence" else ("order", "elements", "path")
    options = {k: v for k, v in given.items() if v is not None}
    foreign = sorted(set(options) - set(allowed))
    if foreign:
        allowed_text = ", ".join(f"--{a}" for a in allowed)
        raise click.UsageError(f"--{foreign[0]} is not an option of {workload}: it has {allowed_text}")
    if workload == "turbulence" and "grid" not in options:
        raise click.UsageError("turbulence needs --grid")
    if "elements" in options:
        options["elements_per_rank"] = options.pop("elements")
    function = getattr(method, workload)
    results = []
    for count in integers(ranks, "ranks", 1):
        found = method.results(described, partial(function, ranks=count, **options))
        results += [replace(r, quantity=f"{count} rank(s): {r.quantity}") for r in found]
    output(Table(f"{workload} on {described.title}", results, method.notes(described, workload)), json_file)


@click.command("machines")
def machines_command() -> None:
    """The machines that weft describes."""
    from weft.format import rate, table
    from weft.model import machine as machines

    rows = [("NAME", "NODES", "RANKS A NODE", "DEVICE", "STREAM", "CALIBRATED")]
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
                ", ".join(m.constants) or "no",
            )
        )
    click.echo(table(rows))
    click.echo("Your own: copy machines/template.toml of the package and give the file's path.")


@click.command()
@click.option("--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Also write them to FILE.")
def published(json_file: Path | None) -> None:
    """The papers' scaling tables beside their projections.

    hipBone Table 2, GESTS Tables 2 to 7, and what NekCEM's text says of its Figs. 7 to 9. Rows marked * are those the
    machine's constants come from.
    """
    from weft.model import calibration

    rows = calibration.published_rows()
    click.echo(calibration.show(rows))
    if json_file is not None:
        write_json(json_file, [{**vars(r), "error": r.error} for r in rows])
        click.echo(f"written {json_file}")
