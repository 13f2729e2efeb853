"""`weft run WORKLOAD`: a case, from files and options, and the directory it leaves behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from weft.cases import WORKLOADS
from weft.cases.schema import load, named_cases

# Options every workload shares: flag, the case key it sets, its value's name, help.
SHARED = [
    ("--mesh", "mesh.file", "FILE", "Mesh: Nek .re2 or .rea, Gmsh .msh. [default: a generated box]"),
    ("--order", "order", "N", "Polynomial order of the elements, 1 to 15. [default: 7]"),
    ("--device", "device", "auto|host|cuda|hip", "Where the kernels run. [default: auto]"),
    ("--precision", "precision", "double|single", "Floating-point type. [default: double]"),
    ("--exchange", "exchange", "SCHEDULE[:PATH]", "How neighbours exchange. [default: auto, the fastest]"),
    ("--output", "output.directory", "DIR", "Where run.json and the rest go. [default: weft-output]"),
]
POISSON = [
    ("--preconditioner", "solver.preconditioner", "none|jacobi", "Preconditioner. [default: none]"),
    (
        "--tolerance",
        "solver.tolerance",
        "TOL",
        "Solve to |r| <= TOL |b|, not 100 iterations; fails if not reached.",
    ),
]


@click.group()
def run() -> None:
    """Run a workload."""


def workload_options(workload: str, own: list[tuple[str, str, str, str]]) -> Callable[[Any], Any]:
    """Decorates a command with the shared options and its own; it is called with (case, quiet, verbose)."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        flags = {flag.lstrip("-"): key for flag, key, _, _ in SHARED + own}

        def command(
            case: str | None, assignments: tuple[str, ...], trace: bool, quiet: bool, verbose: bool, **values: Any
        ) -> Any:
            if quiet and verbose:
                raise click.UsageError("--quiet and --verbose do not go together")
            chosen = {flags[name]: _value(flags[name], text) for name, text in values.items() if text is not None}
            if trace:
                chosen["output.trace"] = True
            return function(load(WORKLOADS[workload], case, chosen, assignments), quiet, verbose)

        command.__doc__ = function.__doc__
        wrapped: Callable[..., Any] = command
        wrapped = click.option("--quiet", is_flag=True, help="Print nothing but errors.")(wrapped)
        wrapped = click.option(
            "--verbose", is_flag=True, help="Print more: the timings of every way to exchange that was tried."
        )(wrapped)
        wrapped = click.option("--trace", is_flag=True, help="Write trace.json, which Perfetto opens.")(wrapped)
        for flag, _, metavar, text in reversed(SHARED + own):
            wrapped = click.option(flag, metavar=metavar, help=text)(wrapped)
        wrapped = click.option(
            "--set", "assignments", metavar="KEY=VALUE", multiple=True,
            help=f"Any key of the case, as solver.iterations=50; repeatable. 'weft cases {workload}' lists them.",
        )(wrapped)  # fmt: skip
        names = ", ".join(named_cases(workload))
        return click.option("--case", metavar="NAME|FILE.toml", help=f"A case file, or one of: {names}.")(wrapped)

    return decorate


def _value(key: str, text: str) -> Any:
    from weft.cases.schema import literal

    return text if key in ("mesh.file", "output.directory", "exchange") else literal(text)


@run.command("poisson")
@workload_options("poisson", POISSON)
def poisson(case: Any, quiet: bool, verbose: bool) -> int:
    """Screened Poisson by conjugate gradients on spectral elements: hipBone's benchmark, or a solve.

    Runs 100 iterations and reports NekBone's figure of merit; with --tolerance it solves, and exits with 1 if it does
    not converge. Start with mpiexec -n P for P ranks.
    """
    from mpi4py import MPI

    from weft import mpi, trace
    from weft.bench.poisson import run as run_poisson
    from weft.mesh_io.fields import write_fields
    from weft.report.console import Console, Silent

    mpi.install_excepthook()
    comm = MPI.COMM_WORLD
    display = Console(quiet, verbose) if comm.rank == 0 else Silent()
    directory = output_directory(case.output.directory, comm)
    if case.output.trace:
        trace.start(comm)
    record, operator, result = run_poisson(case, comm, display)
    if case.output.trace:
        trace.stop()
        trace.write(directory / "trace.json", comm)
        if comm.rank == 0 and (unmet := trace.unmet_delays()):
            reason = "delays are for kernels on a GPU's streams, outside captured graphs"
            print(f"weft: WEFT_TRACE_DELAY: no launch met {', '.join(unmet)}; {reason}", file=sys.stderr)
    if case.output.fields:
        write_fields(directory / "solution", operator.mesh, case.order, {"u": operator.at_points(result.x)})
    if comm.rank == 0:
        (directory / "run.json").write_text(json.dumps(record, indent=1) + "\n")
        display.write(f"written     {directory}/run.json")
    return 0 if record["figures"]["converged"] is not False else not_converged(case, record, comm.rank)


def not_converged(case: Any, record: dict[str, Any], rank: int) -> int:
    """Says that a solve missed its tolerance; the exit code."""
    if rank == 0:
        residuals = record["residuals"]
        print(
            f"weft: not converged: |r| / |b| = {residuals[-1] / residuals[0]:.3e} after "
            f"{record['figures']['iterations']} iterations, asked for {case.solver.tolerance:g} "
            "(raise solver.max_iterations, or use --preconditioner jacobi)",
            file=sys.stderr,
        )
    return 1


def output_directory(name: str, comm: Any) -> Path:
    """Makes the folder on rank 0; every rank gets an error if that fails. (collective)"""
    from weft import mpi

    path = Path(name)
    problem = ""
    if comm.rank == 0:
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / "run.json").touch()
        except OSError as error:
            problem = f"--output {name}: cannot be written: {error.strerror}"
    problem = comm.bcast(problem)
    if problem:
        raise mpi.CollectiveError(problem)
    return path
