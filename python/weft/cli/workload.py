"""What every `weft run WORKLOAD` has: the shared options, the folder of results, the trace, the record."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from weft.cases import WORKLOADS
from weft.cases.schema import load, named_cases
from weft.cli.interrupt import stops_by_itself, word
from weft.errors import tell

# An option that sets a case key: flag, key, its value's name, help.
Flag = tuple[str, str, str, str]

# Of every workload.
SHARED: list[Flag] = [
    ("--device", "device", "auto|host|cuda|hip", "Where the kernels run. [default: auto]"),
    ("--precision", "precision", "double|single", "Floating-point type. [default: double]"),
    ("--exchange", "exchange", "SCHEDULE[:PATH]", "How ranks exchange. [default: auto, the fastest]"),
    ("--output", "output.directory", "DIR", "Where run.json and the rest go. [default: weft-output]"),
]
# Of the workloads on spectral elements.
ELEMENTS: list[Flag] = [
    ("--mesh", "mesh.file", "FILE", "Mesh: Nek .re2 or .rea, Gmsh .msh. [default: a generated box]"),
    ("--order", "order", "N", "Polynomial order of the elements, 1 to 15. [default: 7]"),
]
TEXTS = (
    "mesh.file",
    "output.directory",
    "exchange",
    "process_grid",
    "initial.checkpoint",
)  # whose values are never numbers

Record = dict[str, Any]


def workload_options(workload: str, own: Sequence[Flag]) -> Callable[[Any], Any]:
    """Decorates a command with its own options and the shared ones; it is called with (case, display).

    `display` is the Console of rank 0, or Silent on the others.
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


def carry_out(case: Any, display: Any, work: Callable[[Any, Path], Record]) -> Record:
    """Runs `work(comm, folder)` on every rank, with a trace if asked for one, and writes its record. (collective)

    `work` returns the record, which rank 0 writes to run.json; `folder` exists and can be written to.
    """
    from mpi4py import MPI

    from weft import trace

    comm = MPI.COMM_WORLD
    folder = output_directory(case.output.directory, comm)
    if case.output.trace:
        trace.start(comm)
    with named(folder):
        record = work(comm, folder)
    if case.output.trace:
        trace.stop()
        trace.write(folder / "trace.json", comm)
        if comm.rank == 0 and (unmet := trace.unmet_delays()):
            reason = "delays are for kernels on a GPU's streams, outside captured graphs"
            tell(f"weft: WEFT_TRACE_DELAY: no launch met {', '.join(unmet)}; {reason}")
    if comm.rank == 0:
        with named(folder / "run.json"):
            (folder / "run.json").write_text(json.dumps(record, indent=1) + "\n")
        display.write(f"written     {folder}/run.json")
    return record


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Errors of a file that do not say which, as that of a disk that is full, are about `path`."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or not error.strerror:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def carry_out_until_asked(case: Any, display: Any, run: Callable[[Any, Any, Any, Path, Any], Record]) -> int:
    """The same for a run that Ctrl-C and SIGTERM stop in order, and its plots; the exit code. (collective)

    `run(case, comm, display, folder, asked)` raises Interrupted once `asked.number` is a signal's number.
    """
    from mpi4py import MPI

    from weft.bench.stepping import Interrupted

    stopped: list[Interrupted] = []

    def finished(comm: Any, folder: Path) -> Record:
        try:
            record = run(case, comm, display, folder, asked)
        except Interrupted as stop:
            stopped.append(stop)
            record = stop.record
        return record

    with stops_by_itself() as asked:
        record = carry_out(case, display, finished)
        if MPI.COMM_WORLD.rank == 0:
            from weft.report.workloads import save_figures

            with named(Path(case.output.directory)):
                save_figures(record, Path(case.output.directory))
    if not stopped:
        return 0
    stop = stopped[0]
    where = f"; go on with --restart {stop.checkpoint}" if stop.checkpoint else ""
    complain(MPI.COMM_WORLD.rank, word(stop.number) + where)
    return 128 + stop.number


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


def complain(rank: int, text: str) -> int:
    """Says on rank 0 why a run that ended is no success; the exit code."""
    if rank == 0:
        tell(f"weft: {text}")
    return 1
