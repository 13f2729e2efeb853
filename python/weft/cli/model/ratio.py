"""`weft model ratio`."""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.model.shared import JSON, RUNS, SHARE, output
from weft.cli.options import Number
from weft.model.result import Table


@click.command()
@RUNS
@click.option(
    "--point",
    "points",
    multiple=True,
    metavar="P,T,SECONDS[,MPI]",
    help="A timed job: processes per GPU, threads per process, run time, time in MPI; repeatable.",
)
@click.option(
    "--cores",
    "decay",
    multiple=True,
    metavar="C,SECONDS",
    help="A timed job on C cores per GPU, for the exponential fit; repeatable.",
)
@click.option(
    "--efficiency",
    type=SHARE,
    default="90%",
    show_default=True,
    help="Performance to reach, as a share of the asymptotic performance.",
)
@click.option(
    "--terms",
    metavar="LIST",
    help="Terms of Eq. 5 to fit, e.g. c_seq,c_OMP. [default: all that the runs can tell apart]",
)
@click.option(
    "--least-threads",
    type=Number(min=1),
    default=1.0,
    show_default=True,
    help="Lower bound on the threads per process, n_OMP.",
)
@click.option("--exponential", is_flag=True, help="Fit alpha + beta exp(-lambda c) to the runs instead of Eq. 5.")
@JSON
def ratio(
    runs: tuple[Path, ...],
    points: tuple[str, ...],
    decay: tuple[str, ...],
    efficiency: float,
    terms: str | None,
    least_threads: float,
    exponential: bool,
    json_file: Path | None,
) -> None:  # fmt: skip
    """CPU cores needed per GPU, from runs on a fixed number of GPUs (Eqs. 5, 6; section 4.3.2).

    RUN is a run directory, a run.json, or the ratio.json that `weft bench ratio` wrote. Fits Eq. 5 by least squares and
    finds the smallest number of cores that reaches the efficiency by Eq. 6. With --cores or --exponential, fits the
    decaying exponential of section 4.3.2 instead. Data that leave a fit under-determined are an error.
    """
    from weft.model import ratio as method  # not at the top: it loads SciPy, which other commands do not need
    from weft.model.sources import ratio_runs

    jobs = [run for path in runs for run in ratio_runs(path)]
    jobs += [method.parse_run(text) for text in points]
    if decay or exponential:
        if jobs and decay:
            raise click.UsageError("give either --cores or runs (RUN, --point), not both")
        pairs = [method.parse_cores(t) for t in decay] or [(float(r.processes * r.threads), r.t_total) for r in jobs]
        output(
            Table("CPU cores per GPU, T = alpha + beta exp(-lambda c)", method.decay_results(pairs, efficiency)),
            json_file,
        )
        return
    chosen = [t.strip() for t in terms.split(",")] if terms else None
    results = method.scaling_results(jobs, efficiency, chosen, least_threads)
    output(Table("CPU cores per GPU, Eqs. 5 and 6", results, method.notes(jobs, chosen)), json_file)
