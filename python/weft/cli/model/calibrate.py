"""`weft model calibrate`."""

from __future__ import annotations

from pathlib import Path

import click
import tomli_w

from weft.cli.model.project import MACHINE
from weft.files import write_text


@click.command()
@click.argument("measurements", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN|FILE...")
@MACHINE
@click.option("--title", metavar="TEXT", help="Title of the machine. [default: name of its device]")
@click.option(
    "--output", default="machine.toml", show_default=True, type=click.Path(path_type=Path), metavar="FILE",
    help="Description to write; pass it as --machine to `weft model project`.",
)  # fmt: skip
def calibrate(measurements: tuple[Path, ...], machine: str | None, title: str | None, output: Path) -> None:
    """Write the description of a machine from measurements on it.

    Measurements are run directories, run.json files, and results of `weft bench pingpong`, `exchange`, `alltoall`,
    `fft` and `operator`. Every number of the description states its source: command, file, date and spread. Numbers
    that were not measured are taken from --machine; without it they are assumed, and marked so. The output compares
    each run with its projection on the machine. If at least three problems can be predicted from the other runs, the
    errors of these predictions give the range of projections, which should hold 90 % of other runs. From nine
    problems on, it rests on no assumption about the errors.
    """
    from weft.format import seconds as time_text
    from weft.format import table
    from weft.model import calibrate as method
    from weft.model import machine as machines
    from weft.model.comparison_tables import percent
    from weft.model.evidence import read

    evidence = read(measurements)
    made = method.calibrate(evidence, machines.load(machine) if machine else None, title)
    write_text(output, tomli_w.dumps(made.model_dump(exclude_none=True)))
    numbers = [("NUMBER", "VALUE", "SOURCE")]
    numbers += [(key, f"{value:.6g}", source) for key, (value, source) in machines.numbers_of(made).items()]
    click.echo(table(numbers))
    runs = [method.run_of(e) for e in evidence if e.kind == "run"]
    if runs:
        rows = [("RUN", "RANKS", "MEASURED", "PROJECTED", "ERROR")]
        for run in runs:
            projected = run.on(made).seconds
            times = (time_text(run.seconds), time_text(projected), percent(projected / run.seconds - 1))
            rows.append((run.evidence.where, str(run.ranks), *times))
        click.echo("\n" + table(rows))
    for workload, accuracy in made.errors.items():
        click.echo(f"range of {workload}: within {100 * accuracy.value:.1f} %, {accuracy.source}")
    for note in method.notes(evidence):
        click.echo(f"note: {note}")
    click.echo(f"wrote {output}")
