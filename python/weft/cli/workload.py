"""What every `weft run WORKLOAD` shares: options, and the loading of its case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from weft.cases import case_model
from weft.cases.schema import load, named_cases, options

if TYPE_CHECKING:
    from weft.cases.shared import SharedCase
    from weft.run.record import Display

    Run = Callable[[SharedCase, Display], int]

# An option that sets a case key: (flag, key, metavar, help).
Flag = tuple[str, str, str, str]

# Options of every workload.
SHARED: list[Flag] = [
    ("--device", "device", "auto|host|cuda|hip", "Where the kernels run. [default: auto]"),
    ("--precision", "precision", "double|single", "Floating-point type. [default: double]"),
    ("--exchange", "exchange", "SCHEDULE[:PATH]", "How ranks exchange data. [default: auto (fastest)]"),
    (
        "--output",
        "output.directory",
        "DIR",
        "Folder for the results; those of an earlier run are replaced. [default: weft-output/WORKLOAD]",
    ),
]
# Options of the workloads on spectral elements.
ELEMENTS: list[Flag] = [
    ("--mesh", "mesh.file", "FILE", "Mesh file: Nek .re2 or .rea, Neko .nmsh, Gmsh .msh. [default: a box]"),
    ("--order", "order", "N", "Polynomial order of the elements, 1 to 15. [default: 7]"),
]
# Options of the time-dependent workloads; each replaces both keys of the case.
DURATION: list[Flag] = [
    ("--steps", "time.steps", "N", "Number of time steps; overrides the case. [default: 100]"),
    ("--end", "time.end", "TIME", "Run to this time, instead of a number of steps."),
]
TEXTS = (
    "mesh.file",
    "output.directory",
    "exchange",
    "process_grid",
    "initial.checkpoint",
)  # keys whose values are text even if they look like numbers


class WorkloadCommand(click.Command):
    """The command of a workload, which bears its name. For an option that it lacks, it names the case key."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments that are left; raises click.UsageError."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            word = error.option_name.lstrip("-").replace("-", "_")
            keys = [o.key for o in options(case_model(str(self.name)))]
            meant = " or ".join(f"--set {key}=VALUE" for key in keys if word in (key, key.rpartition(".")[2]))
            if not meant:
                raise
            raise click.UsageError(f"No such option '{error.option_name}'; as a case key: {meant}", ctx) from None


def workload_options(
    workload: str, own: Sequence[Flag], default: str | None = None, instead_of: Sequence[str] = ()
) -> Callable[[Run], Callable[..., int]]:
    """Decorates a command with its own options and the shared ones; the command is called with (case, display).

    `display` is a Console on rank 0 and Silent on the others. `default` is the case that runs without --case; it is not
    used if a given key begins with one of `instead_of`, because such a key describes a different problem.
    """
    flags = [*own, *SHARED]
    keys = {flag.lstrip("-").replace("-", "_"): key for flag, key, _, _ in flags}

    def decorate(function: Run) -> Callable[..., int]:
        def command(
            case: str | None,
            assignments: tuple[str, ...],
            trace: bool,
            quiet: bool,
            verbose: bool,
            **values: str | None,
        ) -> int:
            if quiet and verbose:
                raise click.UsageError("--quiet and --verbose cannot be used together")
            chosen: dict[str, object] = {
                keys[name]: _value(keys[name], text) for name, text in values.items() if text is not None
            }
            if trace:
                chosen["output.trace"] = True
            given = [*chosen, *(text.partition("=")[0].strip() for text in assignments)]
            if case is None and not any(key.startswith(tuple(instead_of)) for key in given):
                case = default
            loaded = load(case_model(workload), case, chosen, assignments)
            return function(loaded, _display(quiet, verbose))

        command.__doc__ = function.__doc__
        wrapped: Callable[..., int] = command
        wrapped = click.option("--quiet", is_flag=True, help="Print only errors.")(wrapped)
        wrapped = click.option(
            "--verbose", is_flag=True, help="Also print the timings of every exchange method tried."
        )(wrapped)
        wrapped = click.option("--trace", is_flag=True, help="Write trace.json, to be opened in Perfetto.")(wrapped)
        for flag, _, metavar, text in reversed(flags):
            wrapped = click.option(flag, metavar=metavar, help=text)(wrapped)
        wrapped = click.option(
            "--set", "assignments", metavar="KEY=VALUE", multiple=True,
            help=f"Set a case key, such as output.trace=true; repeatable. 'weft cases {workload}' lists the keys.",
        )(wrapped)  # fmt: skip
        names = ", ".join(named_cases(workload))
        return click.option("--case", metavar="NAME|FILE.toml", help=f"A case file, or one of: {names}.")(wrapped)

    return decorate


def _value(key: str, text: str) -> object:
    from weft.cases.schema import literal

    return text if key in TEXTS else literal(text)


def _display(quiet: bool, verbose: bool) -> Display:
    from mpi4py import MPI

    from weft import mpi
    from weft.report.console import Console, Silent

    mpi.install_excepthook()
    return Console(quiet, verbose) if MPI.COMM_WORLD.rank == 0 else Silent()
