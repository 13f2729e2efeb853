"""Carries out a case: the run with its trace, record and plots, and its final messages."""

from __future__ import annotations

import contextlib
from importlib import import_module
from pathlib import Path

from mpi4py import MPI

from weft import trace
from weft.cases.schema import workload_name
from weft.cases.shared import SharedCase
from weft.errors import tell
from weft.files import named
from weft.record import write
from weft.run.cores import settle_threads
from weft.run.folder import holds_folder, require_folder
from weft.run.interrupt import stops_by_itself, word
from weft.run.pictures import require_film
from weft.run.record import Display, Result


def carry_out(case: SharedCase, display: Display) -> int:
    """Runs a case on all ranks, writes run.json and the output that the case requests; returns the exit code.
    (collective)

    Cases with a checkpoint section step in time: a signal (weft.run.interrupt) stops them in an orderly way, and plots
    are written if the case wants them.
    """
    in_time = "checkpoint" in type(case).model_fields
    with stops_by_itself() if in_time else contextlib.nullcontext(), holds_folder(case):
        result = recorded(case, display)
        drawn = case.output.plots and (in_time or result.record.get("statistics", {}).get("planes"))
        if MPI.COMM_WORLD.rank == 0 and drawn:
            from weft.report.workloads import save_figures

            save_figures(result.record, Path(case.output.directory))
    if result.problem:
        return complain(result.problem, 1)
    if result.signal:
        where = f"; continue with --restart {result.checkpoint}" if result.checkpoint else ""
        return complain(word(result.signal) + where, 128 + result.signal)
    return 0


def recorded(case: SharedCase, display: Display) -> Result:
    """Runs a case, with a trace if requested, and writes its record. (collective)

    A run creates its folder by `open_folder` once it has something to write, so that a run that fails earlier leaves no
    folder behind.
    """
    comm = MPI.COMM_WORLD
    settle_threads(comm)
    folder = Path(case.output.directory)
    require_folder(case, comm)
    require_film(case, comm)
    run = import_module(f"weft.run.{workload_name(type(case))}.loop").run
    if case.output.trace:
        trace.start(comm)
    with named(folder):
        result: Result = run(case, display)
    if case.output.trace:
        trace.stop()
        trace.write(folder / "trace.json", comm)
        if comm.rank == 0 and (unmet := trace.unmet_delays()):
            reason = "delays apply only to kernels on a GPU's streams, outside captured graphs"
            tell(f"weft: WEFT_TRACE_DELAY: no kernel launch matches {', '.join(unmet)}; {reason}")
    if comm.rank == 0:
        display.write(f"wrote       {write(folder, result.record)}")
    return result


def complain(text: str, code: int) -> int:
    """Says on rank 0 why a finished run failed, if it did; returns the exit code."""
    if MPI.COMM_WORLD.rank == 0:
        tell(f"weft: {text}")
    return code
