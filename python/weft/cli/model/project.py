"""`weft model project`, `weft model machines` and `weft model published`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, Unpack

import click

from weft.cli.bench import integers
from weft.cli.model.shared import JSON, output
from weft.cli.options import Integer, Number, options_of
from weft.files import write_json
from weft.model.result import ModelError, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.model.machine import Machine
    from weft.model.recorded_run import Run

MACHINE = click.option(
    "--machine", metavar="NAME|FILE", help="Machine listed by `weft model machines`, or a .toml file of your own."
)
WORKLOADS = ("poisson", "maxwell", "flow", "turbulence")
ITERATIONS = ("pressure_iterations", "velocity_iterations")


class Sizes(TypedDict):
    """The options that describe the problem; None where an option is not given."""

    order: Annotated[
        int | None,
        click.option("--order", type=Integer(1, 32), help="Polynomial order (all but turbulence). [default: 7]"),
    ]
    elements: Annotated[
        int | None,
        click.option(
            "--elements",
            type=Integer(min=1),
            help="Elements per rank (all but turbulence). [default: 8192 (poisson), 512 (maxwell), 2048 (flow)]",
        ),
    ]
    pressure_iterations: Annotated[
        float | None,
        click.option(
            "--pressure-iterations",
            type=Number(min=0),
            help="Mean iterations of the pressure solve of a step (flow). [default: 20]",
        ),
    ]
    velocity_iterations: Annotated[
        float | None,
        click.option(
            "--velocity-iterations",
            type=Number(min=0),
            help="Mean iterations of the solve for the velocities of a step (flow). [default: 4]",
        ),
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
    schedule: Annotated[
        str | None,
        click.option(
            "--schedule",
            type=click.Choice(["pairwise", "crystal"]),
            help="Schedule of exchanges: a message per neighbour, or the crystal router (all but turbulence). "
            "[default: pairwise]",
        ),
    ]
    precision: Annotated[
        str | None,
        click.option(
            "--precision",
            type=click.Choice(["double", "single"]),
            help="Floating-point type. [default: double; single for turbulence]",
        ),
    ]


@click.command()
@click.argument("workload", type=click.Choice(WORKLOADS))
@MACHINE
@click.option(
    "--run", "runs", type=click.Path(path_type=Path), multiple=True, metavar="RUN|FILE",
    help="Measurement on the machine, as for `weft model calibrate`; sizes default to those of its runs. What it does "
    "not say is kept from --machine. Repeatable.",
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
    from weft.model import machine as machines
    from weft.model import project as method

    if not machine and not runs:
        raise click.UsageError("give --machine, --run or both")
    described = machines.load(machine) if machine else None
    of_run: dict[str, object] = {}
    if runs:
        from weft.model import calibrate
        from weft.model.evidence import read
        from weft.model.recorded_run import run_of

        evidence = read(runs)
        described = calibrate.calibrate(evidence, described)
        for note in calibrate.notes(evidence):
            click.echo(f"note: {note}", err=True)
        runs_of = [run_of(e) for e in evidence if e.kind == "run"]
        of_run = _options_of_runs(runs_of, workload, {name for name, value in given.items() if value is not None})
    assert described is not None
    allowed = (
        *(("grid", "rows", "batch") if workload == "turbulence" else ("order", "elements", "path", "schedule")),
        *(ITERATIONS if workload == "flow" else ()),
        "precision",
    )
    options = {k: v for k, v in given.items() if v is not None}
    foreign = sorted(set(options) - set(allowed))
    if foreign:
        first, *names = (f"--{a.replace('_', '-')}" for a in (foreign[0], *allowed))
        raise click.UsageError(f"{first} does not apply to {workload}, which takes {', '.join(names)}")
    if "elements" in options:
        options["elements_per_rank"] = options.pop("elements")
    options = {**of_run, **options}
    if workload == "turbulence" and "grid" not in options:
        raise click.UsageError("turbulence needs --grid, the number of grid points per direction")
    function = getattr(method, workload)
    results, projections, refused = [], [], None
    for count in integers(ranks, "ranks", 1):
        made = partial(function, ranks=count, **options)
        try:
            projections.append(made(described))
        except ModelError as error:
            refused = refused or error
            continue
        found = method.results(described, made)
        of = f"{count} rank{'s' * (count > 1)}"
        results += [replace(r, quantity=f"{of}: {r.quantity}") for r in found]
    if results:
        sizes, precisions = [p.size for p in projections], {p.precision for p in projections}
        notes = method.notes(described, workload, sizes, precisions)
        output(Table(f"{workload} on {described.title}", results, notes), json_file)
    if refused is not None:
        raise refused


def _options_of_runs(runs: Sequence[Run], workload: str, given: set[str]) -> dict[str, object]:
    """The sizes of the runs of a workload, which must be the same: order, elements per rank or grid, precision.

    A note names those that differ and are not among the options `given`. Iterations of a flow are the mean over the
    runs.
    """
    found = [run.options for run in runs if run.workload == workload]
    if not found:
        return {}
    same = {key: value for key, value in found[0].items() if all(other[key] == value for other in found)}
    same |= {name: sum(run[name] for run in found) / len(found) for name in ITERATIONS if name in found[0]}
    different = sorted(set(found[0]) - set(same) - {"rows", "batch"})
    names = {"elements_per_rank": "elements"}
    for key in (key for key in different if names.get(key, key) not in given):
        values = ", ".join(str(other[key]) for other in found)
        click.echo(
            f"note: the runs have several values of {key} ({values}); give one with --{names.get(key, key)}", err=True
        )
    return same


@click.command("machines")
@click.option("--sensitivity", is_flag=True, help="Change every assumed number, and print what that changes.")
@click.argument("names", nargs=-1, metavar="[NAME|FILE]...")
def machines_command(sensitivity: bool, names: tuple[str, ...]) -> None:
    """List the machines that weft describes, or print every number of the named ones with its source.

    With --sensitivity, every number with the source "assumed" is halved and doubled, and every constant that is not
    calibrated on the machine goes from its start value to either end of its range. The columns are: the largest change
    among the projections of the machine's published rows, the mean error of these projections, and the largest change
    among weft's workloads at default sizes on 1 and on 64 nodes.
    """
    from weft.format import table
    from weft.model import machine as machines

    if sensitivity:
        click.echo(_sensitivity(names or tuple(machines.names())))
    elif names:
        click.echo("\n\n".join(_described(machines.load(name)) for name in names))
    else:
        rows: list[tuple[str, ...]] = [("NAME", "NODES", "RANKS/NODE", "DEVICE", "STREAM", "CALIBRATED CONSTANTS")]
        rows += [_summary(name, machines.load(name)) for name in machines.names()]
        click.echo(table(rows))
        click.echo(
            "For a machine of your own, copy machines/template.toml of the package and pass the path of the copy."
        )


def _summary(name: str, described: Machine) -> tuple[str, ...]:
    from weft.format import rate

    stream = rate(described.device.stream_bytes_per_second.value, "B/s")
    constants = ", ".join(described.constants) or "none"
    return (
        name,
        str(int(described.nodes.value)),
        str(described.ranks_per_node),
        described.device.name,
        stream,
        constants,
    )


def _described(described: Machine) -> str:
    from weft.format import table
    from weft.model.machine import numbers_of

    rows = [("NUMBER", "VALUE", "SOURCE")]
    rows += [(key, f"{value:.6g}", source) for key, (value, source) in numbers_of(described).items()]
    paths = [("PATH", "LATENCY", "RATE", "HALF-BANDWIDTH SIZE")]
    for level in ("device", "node", "group", "network", "host"):
        link = getattr(described.links, level)
        if link is not None:
            latency, bandwidth = link.latency_seconds.value, link.bytes_per_second.value
            paths.append(
                (level, f"{1e6 * latency:.3g} µs", f"{bandwidth / 1e9:.4g} GB/s", f"{link.half_bandwidth_bytes:,.0f} B")
            )
    return f"{described.title}\n{table(rows)}\n\n{table(paths)}"


def _sensitivity(names: tuple[str, ...]) -> str:
    from weft.format import table
    from weft.model.sensitivity import changes

    def share(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.2f} %"

    rows = [(
        "MACHINE", "ASSUMED NUMBER", "VALUE", "CHANGED TO", "CHANGE OF PUBLISHED ROWS", "THEIR MEAN ERROR",
        "CHANGE AT DEFAULT SIZES", "LARGEST FOR",
    )]  # fmt: skip
    for name in names:
        for c in changes(name):
            rows.append(
                (
                    c.machine, c.key, f"{c.value:.4g}", f"{c.to:.4g}", share(c.published), share(c.mean_error),
                    share(c.default), c.at if c.default > 0 else "-",
                )
            )  # fmt: skip
    return table(rows)


@click.command()
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Also write the rows to FILE."
)
def published(json_file: Path | None) -> None:
    """Compare published scaling tables with weft's projections, in total and by phase.

    Covers Table 2 of hipBone, Tables 2 to 7 and section 4.4 of GESTS, and the figures that NekCEM's text gives for its
    Figs. 7 to 9, each run once. A constant of the machine was calibrated on the rows marked *.
    """
    from weft.model import comparison, comparison_tables

    rows = comparison.published_rows()
    click.echo(comparison_tables.console(rows))
    if json_file is not None:
        fields = ("published", "error")
        write_json(json_file, [{**vars(r), **{name: getattr(r, name) for name in fields}} for r in rows])
        click.echo(f"wrote {json_file}")
