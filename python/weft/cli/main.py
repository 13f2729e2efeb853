"""The command `weft`: its groups, and the conversion of every failure to one line and an exit code.

Exit codes: 0 success, 1 failure (including a run that did not converge), 2 invalid command line or case, 130
interrupted.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import NoReturn

import click

import weft
from weft.cli.lazy import LazyGroup
from weft.cli.spelling import spell_as_the_terminal_can
from weft.cli.streams import drop_output, flush_output, is_of_output, open_closed_streams
from weft.errors import OUTPUT, CaseError, tell
from weft.run.cores import from_launcher, share_cores
from weft.run.interrupt import exit_on_interrupt
from weft.run.memory_hooks import skip_hooks

COMMANDS = {
    "bench": ("weft.cli.bench:bench", "Measure single parts, and sweep workloads."),
    "cases": ("weft.cli.cases:cases", "List the options of a workload's case."),
    "info": ("weft.cli.info:info", "Show what weft finds on this machine."),
    "mesh": ("weft.cli.mesh:mesh", "Show what a mesh file holds, or convert it."),
    "model": ("weft.cli.model:model", "Predict what a run would cost on another machine."),
    "report": ("weft.cli.report:report", "Show the record of a run, as text and as an HTML page."),
    "run": ("weft.cli.run:run", "Run a workload."),
    "trace": ("weft.cli.trace:trace", "Inspect trace files."),
}


@click.group(
    cls=LazyGroup, places=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}
)
@click.version_option(weft.__version__, prog_name="weft")
def weft_command() -> None:
    """Run, measure and project high-order and spectral PDE simulations on clusters of GPUs and CPUs."""


def main() -> None:
    """The entry point of the console script."""
    open_closed_streams()
    spell_as_the_terminal_can()
    exit_on_interrupt()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # searching for plugins takes 20 ms
    collect_garbage_seldom()
    share_cores()
    skip_hooks()
    ranks = launched_with_others()
    if ranks:
        from weft import mpi

        mpi.install_excepthook()
    try:
        code = weft_command.main(prog_name="weft", standalone_mode=False)
        flush_output()
    except (click.ClickException, CaseError, click.exceptions.Abort) as error:
        fail(error, usage_text(error), 2, ranks)
    except OSError as error:
        place = error.filename
        if is_of_output(error):
            drop_output()
            place = OUTPUT
        fail(error, f"{place}: {error.strerror}" if place else "", 1, ranks)
    except Exception as error:
        fail(error, "", 1, ranks)
    sys.exit(code if isinstance(code, int) else 0)


def collect_garbage_seldom() -> None:
    """Saves a fifth of the time of a short command, which goes to searching the modules that it imports for garbage."""
    gc.set_threshold(100_000)

    def last_search() -> None:
        gc.collect()  # objects of the extension that are part of cycles
        gc.freeze()  # Python searches again and again while it clears the modules

    atexit.register(last_search)


def usage_text(error: Exception) -> str:
    """One line that says what is wrong with a command line, and which --help to read."""
    if isinstance(error, click.UsageError):
        help_of = f" (see '{error.ctx.command_path} --help')" if error.ctx else ""
        return error.format_message().rstrip(".") + help_of
    if isinstance(error, click.ClickException):
        return error.format_message()
    return str(error)


def fail(error: Exception, text: str, code: int, ranks: bool) -> NoReturn:
    """Prints one message for all ranks and exits with `code` on each."""
    if ranks or "weft.mpi" in sys.modules:
        from weft import mpi

        # All ranks read the same command line and case, so their errors agree; a file may fail on one rank alone.
        kind = RuntimeError if isinstance(error, OSError) else mpi.CollectiveError
        mpi.fail(kind(text) if text else error)
    else:
        known = isinstance(error, ValueError | RuntimeError | OSError | ImportError) and str(error)
        if os.environ.get("WEFT_TRACEBACK", "0") not in ("", "0"):
            raise error
        tell("weft: " + (text or (str(error) if known else f"{type(error).__name__}: {error}")))
    sys.exit(code)


def launched_with_others() -> bool:
    """Whether a launcher started this process as one of several."""
    return from_launcher("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "MPI_LOCALNRANKS") > 1


if __name__ == "__main__":
    main()
