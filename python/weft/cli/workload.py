"""What every `weft run WORKLOAD` has: the shared options, the folder of results, the trace, the record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cases import WORKLOADS
from weft.cases.schema import load, named_cases
from weft.cli.interrupt import stops_by_itself, word
from weft.cli.options import writable
from weft.errors import tell
from weft.files import named, write_json

if TYPE_CHECKING:
    from mpi4py import MPI

    from weft.record import Record

# An option that sets a case key: flag, key, its value's name, help.
Flag = tuple[str, str, str, str]

# Of every workload.
SHARED: list[Flag] = [
    ("--device", "device", "auto|host|cuda|hip", "Where the kernels run. [default: auto]"),
    ("--precision", "precision", "double|single", "Floating-point type. [default: double]"),
    ("--exchange", "exchange", "SCHEDULE[:PATH]", "How ranks exchange. [default: auto (fastest)]"),
    ("--output", "output.directory", "DIR", "Folder of results. [default: weft-output]"),
]
# Of the workloads on spectral elements.
ELEMENTS: list[Flag] = [
    ("--mesh", "mesh.file", "FILE", "Nek .re2 or .rea, Gmsh .msh; else a box."),
    ("--order", "order", "N", "Polynomial order of the elements, 1 to 15. [default: 7]"),
]
TEXTS = (
    "mesh.file",
    "output.directory",
    "exchange",
    "process_grid",
    "initial.checkpoint",
)  # whose values are never numbers


def workload_options(
    workload: str, own: Sequence[Flag], default: str | None = None, instead_of: Sequence[str] = ()
) -> Callable[[Any], Any]:
    """Decorates a command with its own options and the shared ones; it is called with (case, display).

    `display` is the Console of rank 0, or Silent on the others. `default`: the case that runs without --case, unless a
    key is given that begins with one of `instead_of`, which make another flow of it.
    """
    flags = [*own, *SHARED]
    keys = {flag.lstrip("-").replace("-", "_"): key for flag, key, _, _ in flags}

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def command(
            case: str | None, assignments: tuple[str, ...], trace: bool, quiet: bool, verbose: bool, **values: Any
        ) -> Any:
            if quiet and verbose:
                raise click.UsageError("--quiet and --verbose do not go together")
            chosen = {keys[name]: _value(keys[name], text) for name, text in values.items() if text is not None}
            if trace:
                chosen["output.trace"] = True
            given = [*chosen, *(text.partition("=")[0].strip() for text in assignments)]
            if case is None and not any(key.startswith(tuple(instead_of)) for key in given):
                case = default
            loaded = load(WORKLOADS[workload], case, chosen, assignments)
            return function(loaded, _display(quiet, verbose))

        command.__doc__ = function.__doc__
        wrapped: Callable[..., Any] = command
        wrapped = click.option("--quiet", is_flag=True, help="Print nothing but errors.")(wrapped)
        wrapped = click.option(
            "--verbose", is_flag=True, help="Print more: the timings of every way to exchange that was tried."
        )(wrapped)
        wrapped = click.option("--trace", is_flag=True, help="Write trace.json, which Perfetto opens.")(wrapped)
        for flag, _, metavar, text in reversed(flags):
            wrapped = click.option(flag, metavar=metavar, help=text)(wrapped)
        wrapped = click.option(
            "--set", "assignments", metavar="KEY=VALUE", multiple=True,
            help=f"Any key of the case, as output.trace=true; repeatable. 'weft cases {workload}' lists them.",
        )(wrapped)  # fmt: skip
        names = ", ".join(named_cases(workload))
        return click.option("--case", metavar="NAME|FILE.toml", help=f"A case file, or one of: {names}.")(wrapped)

    return decorate


def _value(key: str, text: str) -> Any:
    from weft.cases.schema import literal

    return text if key in TEXTS else literal(text)


def _display(quiet: bool, verbose: bool) -> Any:
    from mpi4py import MPI

    from weft import mpi
    from weft.report.console import Console, Silent

    mpi.install_excepthook()
    return Console(quiet, verbose) if MPI.COMM_WORLD.rank == 0 else Silent()


def carry_out(case: Any, display: Any, work: Callable[[Any, Path], dict[str, Any]]) -> Record:
    """Runs `work(comm, folder)` on every rank, with a trace if asked for one, and writes its record. (collective)

    `work` returns the record, which rank 0 writes to run.json. `folder` can be written to; `work` makes it by
    `open_folder` once it has something to write, so that a run that fails before leaves nothing.
    """
    from mpi4py import MPI

    from weft import trace
    from weft.record import finished

    comm = MPI.COMM_WORLD
    folder = Path(case.output.directory)
    require_writable(folder, comm)
    if case.output.trace:
        trace.start(comm)
    with named(folder):
        record = finished(work(comm, folder))
    if case.output.trace:
        trace.stop()
        trace.write(folder / "trace.json", comm)
        if comm.rank == 0 and (unmet := trace.unmet_delays()):
            reason = "delays are for kernels on a GPU's streams, outside captured graphs"
            tell(f"weft: WEFT_TRACE_DELAY: no launch met {', '.join(unmet)}; {reason}")
    if comm.rank == 0:
        write_json(folder / "run.json", record)
        display.write(f"written     {folder}/run.json")
    return record


def save_plots(case: Any, record: Record) -> None:
    """The plots of a run beside its record, which is safe by then."""
    from mpi4py import MPI

    from weft.report.workloads import save_figures

    if MPI.COMM_WORLD.rank == 0:
        save_figures(record, Path(case.output.directory))


def carry_out_until_asked(case: Any, display: Any, run: Callable[[Any, Any, Any, Path, Any], dict[str, Any]]) -> int:
    """The same for a run that Ctrl-C and SIGTERM stop in order, and its plots; the exit code. (collective)

    `run(case, comm, display, folder, asked)` raises Interrupted once `asked.number` is a signal's number.
    """
    from mpi4py import MPI

    from weft.run.stepping import Interrupted

    stopped: list[Interrupted] = []

    def until_stopped(comm: MPI.Intracomm, folder: Path) -> dict[str, Any]:
        try:
            record = run(case, comm, display, folder, asked)
        except Interrupted as stop:
            stopped.append(stop)
            record = stop.record
        return record

    with stops_by_itself() as asked:
        save_plots(case, carry_out(case, display, until_stopped))
    if not stopped:
        return 0
    stop = stopped[0]
    where = f"; go on with --restart {stop.checkpoint}" if stop.checkpoint else ""
    complain(MPI.COMM_WORLD.rank, word(stop.number) + where)
    return 128 + stop.number


def require_writable(folder: Path, comm: MPI.Intracomm) -> None:
    """CollectiveError where the folder is not there and cannot be made; makes nothing. (collective)"""
    from weft import mpi

    problem = ""
    if comm.rank == 0:
        try:
            writable(folder)
        except OSError as error:
            problem = f"--output {folder}: cannot be written: {error.strerror}"
    problem = comm.bcast(problem)
    if problem:
        raise mpi.CollectiveError(problem)


def complain(rank: int, text: str) -> int:
    """Says on rank 0 why a run that ended is no success; the exit code."""
    if rank == 0:
        tell(f"weft: {text}")
    return 1
