"""The terms of Eq. 3, read from run records and traces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from weft.errors import reason
from weft.model import integration
from weft.model.integration import Terms
from weft.model.ratio import Run
from weft.model.result import ModelError, Result
from weft.record import Record, RecordError, Timings, current, is_record
from weft.traces.window import WHOLE, Window


@dataclass(frozen=True)
class Source:
    """One run: its file, its application, its terms, and notes on their limits."""

    path: Path
    application: str
    terms: Terms
    record: Record | None  # None if the source is a trace
    notes: tuple[str, ...] = ()
    missing: str = ""  # the reason why terms of the coupling are not known; '' if they are known
    knows_data: bool = True  # whether t_cg_data is known even so
    window: Window = WHOLE  # of the trace


def read(path: str | Path, window: Window = WHOLE) -> Source:
    """The terms of a run directory, a run.json, or a window of a trace. Raises ModelError if anything is missing."""
    path = Path(path)
    if (path / "run.json").exists():
        path = path / "run.json"
    if not path.exists():
        raise ModelError(f"{path}: no such file or folder")
    record = run_record(path) if path.suffix == ".json" and path.is_file() else None
    if record is None:
        return of_trace(path, window)
    if window:
        raise ModelError(f"{path}: a run record has no events to cut: give the trace of the run (--trace)")
    return of_record(path, record)


def read_all(paths: Sequence[str | Path], window: Window = WHOLE) -> list[Source]:
    """The terms of all runs named. Raises ModelError if there are none."""
    if not paths:
        raise ModelError("no run is named: give a run directory, a run.json or a trace, or the terms as options")
    return [read(p, window) for p in paths]


def run_record(path: Path) -> Record | None:
    """The content of a run.json, or None if the file is something else."""
    if looks_like_trace(path):
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        return None
    except json.JSONDecodeError as error:
        raise ModelError(f"{path}: not valid JSON ({error}); was the file cut short?") from None
    if not is_record(content):
        return None
    try:
        return current(content, path)
    except RecordError as error:
        raise ModelError(str(error)) from None


def looks_like_trace(path: Path) -> bool:
    """Whether a JSON file begins like a trace. Traces may be large, so only their reader parses them."""
    with path.open("rb") as file:
        head = file.read(2**16).lstrip()
    return head.startswith(b"[") or b'"traceEvents"' in head


def of_record(path: Path, record: Record) -> Source:
    """The terms that follow from the breakdown in a run record, as means over the ranks.

    The categories of the host exclude each other and add up to the run time. Kernels of the device run concurrently,
    mostly while the host waits in `launch`. A record does not distinguish the wait for a busy device (t_GPU) from the
    rest of `launch` (t_CGcontrol). Kernel time is attributed to that wait first, which makes t_CGcontrol a lower bound;
    a trace distinguishes the two.
    """
    timings = record["timings"]
    breakdown = timings.get("breakdown") if isinstance(timings, dict) else None
    if not isinstance(breakdown, dict) or not breakdown:
        raise ModelError(f"{path}: timings.breakdown is missing: the run did not finish, or recorded no breakdown")
    try:
        seconds = {k: float(v["mean_seconds"]) for k, v in breakdown.items()}
        total = broken_down_seconds(timings)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"{path}: timings.breakdown or the total time is not in the form that weft writes ({reason(error)})"
        ) from None
    gpu, launch = seconds.get("gpu", 0.0), seconds.get("launch", 0.0)
    hidden = min(gpu, launch)
    mpi, copy = seconds.get("mpi", 0.0), seconds.get("copy", 0.0)
    terms = Terms(max(0.0, total - mpi - copy - launch), hidden, mpi, copy, launch - hidden)
    notes = []
    if gpu > 0:
        notes.append(f"{path}: t_CGcontrol from a run record is a lower bound; a trace (--trace) gives it exactly")
    else:
        notes.append(f"{path}: the run used no device, so no term of Eq. 4 changes")
    case = record["case"]
    return Source(path, str(case.get("workload", path.parent.name)), terms, record, tuple(notes))


def broken_down_seconds(timings: Timings) -> float:
    """The time that timings.breakdown divides up: the profiled time steps of a run, or a whole solve."""
    return float(timings["profiled_seconds"] if "profiled_seconds" in timings else timings["solve_seconds"])


def of_trace(path: Path, window: Window = WHOLE) -> Source:
    """The exclusive terms of a trace, as means over its processes."""
    from weft import traces
    from weft.traces.attribution import attribute
    from weft.traces.caveats import unrecorded

    trace = traces.load(path, window=window)
    terms = Terms(**asdict(attribute(trace).mean()))
    # Copies on streams take their time whether or not the calls are recorded.
    copies = bool((trace.on_stream() & trace.of(traces.Category.copy)).any())
    notes = tuple(f"{path}: {n}" for n in trace.notes)
    application = f"{path.parent.name}/{path.name}".lstrip("/")
    return Source(path, application, terms, None, notes, unrecorded(trace), copies, window)


def coupling(sources: Sequence[Source], lambda_data: float, lambda_control: float) -> Result:
    """`integration.coupling` of runs. Raises ModelError if a run does not say what a factor other than 1 applies to."""
    for source in sources:
        if source.missing and (lambda_control != 1 or (lambda_data != 1 and not source.knows_data)):
            raise ModelError(f"{source.path}: {source.missing}")
    return integration.coupling([s.terms for s in sources], lambda_data, lambda_control)


_ONE_JOB = "; Eqs. 5 and 6 compare runs on several numbers of cores: give their run directories, or a ratio.json"


def ratio_runs(path: str | Path) -> list[Run]:
    """The jobs for Eq. 5 in a ratio.json that `weft bench ratio` wrote, or in a run record."""
    from weft import traces

    path = Path(path)
    path = path / "run.json" if path.is_dir() else path
    if format := traces.detect(path):
        raise ModelError(f"{path}: not a record, but a trace ({format}){_ONE_JOB}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ModelError(f"{path}: not a record, but a binary file{_ONE_JOB}") from None
    except json.JSONDecodeError as error:
        raise ModelError(f"{path}: not a record: the JSON is invalid ({error}){_ONE_JOB}") from None
    if isinstance(content, dict) and "traceEvents" in content:  # one without events is of no known format
        raise ModelError(f"{path}: not a record, but a trace{_ONE_JOB}")
    rows = content.get("rows") if isinstance(content, dict) else None
    try:
        if rows is None:
            return [_ratio_run(content)]
        if not rows:
            raise ModelError("the list of runs is empty")
        return [Run(int(r["processes"]), int(r["threads"]), float(r["t_total"]), float(r["t_mpi"])) for r in rows]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ModelError):
            raise ModelError(f"{path}: {error}") from None
        raise ModelError(
            f"{path}: neither a ratio.json of 'weft bench ratio' nor a run record ({reason(error)})"
        ) from None


def ratio_file(path: str | Path) -> tuple[str, list[Run]] | None:
    """The workload and the jobs of a ratio.json, or None if the file is something else."""
    path = Path(path)
    if path.suffix != ".json" or not path.exists() or looks_like_trace(path):
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
    if not isinstance(content, dict) or "rows" not in content or not isinstance(content.get("case"), dict):
        return None
    return str(content["case"].get("workload", "")), ratio_runs(path)


def _ratio_run(record: Record) -> Run:
    """A run record as a job of Eq. 5. Its ranks are taken to share one GPU."""
    machine, timings = record["machine"], record["timings"]
    t_mpi = float(timings["breakdown"]["mpi"]["mean_seconds"] if "mpi" in timings["breakdown"] else 0.0)
    return Run(int(machine["ranks"]), int(machine["threads_per_rank"]), broken_down_seconds(timings), t_mpi)
