"""The terms of Eq. 3 from what a person has: run records and traces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weft.model.integration import Terms
from weft.model.ratio import Run
from weft.model.result import ModelError

Record = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """One run: where it came from, what ran, its terms, and what they leave open."""

    path: Path
    application: str
    terms: Terms
    record: Record | None  # run.json, where the source is one
    notes: tuple[str, ...] = ()


def read(path: str | Path) -> Source:
    """The terms of a run directory, a run.json, or a trace. Raises ModelError saying what is missing."""
    path = Path(path)
    if (path / "run.json").exists():
        path = path / "run.json"
    if not path.exists():
        raise ModelError(f"{path}: no such file")
    record = run_record(path) if path.suffix == ".json" else None
    return of_trace(path) if record is None else of_record(path, record)


def read_all(paths: Sequence[str | Path]) -> list[Source]:
    """Every run named; raises ModelError where none is."""
    if not paths:
        raise ModelError("no run given: name a run directory, a run.json or a trace, or give the terms as options")
    return [read(p) for p in paths]


def run_record(path: Path) -> Record | None:
    """A run.json as a dictionary, None where the file is JSON of another kind."""
    if looks_like_trace(path):
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        return None
    except json.JSONDecodeError as error:
        raise ModelError(f"{path}: not valid JSON: {error}") from None
    return content if isinstance(content, dict) and "timings" in content and "case" in content else None


def looks_like_trace(path: Path) -> bool:
    """Whether a JSON file begins as a trace does. A trace may be large and is parsed by its reader alone."""
    with path.open("rb") as file:
        head = file.read(2**16).lstrip()
    return head.startswith(b"[") or b'"traceEvents"' in head


def of_record(path: Path, record: Record) -> Source:
    """The terms of a run record's breakdown, means over the ranks.

    The host's categories are exclusive and fill the run; the device's kernels run beside them, mostly while the host
    waits in `launch`. A record cannot tell the wait for a busy device (t_GPU) from the rest of `launch` (t_CGcontrol):
    kernels are taken to hide in that wait first, so t_CGcontrol is a lower bound; a trace tells them apart.
    """
    timings = record["timings"]
    breakdown = timings.get("breakdown") if isinstance(timings, dict) else None
    if not isinstance(breakdown, dict) or not breakdown:
        raise ModelError(f"{path}: no timings.breakdown: the run did not record where its time went (did it end?)")
    try:
        seconds = {k: float(v["mean_seconds"]) for k, v in breakdown.items()}
        total = broken_down_seconds(timings)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"{path}: timings.breakdown, or the time it is of, is not as weft writes it: {error}"
        ) from None
    gpu, launch = seconds.get("gpu", 0.0), seconds.get("launch", 0.0)
    hidden = min(gpu, launch)
    mpi, copy = seconds.get("mpi", 0.0), seconds.get("copy", 0.0)
    terms = Terms(max(0.0, total - mpi - copy - launch), hidden, mpi, copy, launch - hidden)
    notes = []
    if gpu > 0:
        notes.append(f"{path}: from the record's breakdown t_CGcontrol is a lower bound; --trace gives it exactly")
    else:
        notes.append(f"{path}: no device took part, so no term of Eq. 4 can change")
    case = record["case"]
    return Source(path, str(case.get("workload", path.parent.name)), terms, record, tuple(notes))


def broken_down_seconds(timings: Record) -> float:
    """The time that timings.breakdown is of: some steps of a run in time, or a whole solve."""
    return float(timings["profiled_seconds"] if "profiled_seconds" in timings else timings["solve_seconds"])


def of_trace(path: Path) -> Source:
    """The exclusive terms of a trace, means over its processes."""
    from weft import traces
    from weft.traces.attribution import attribute

    mean = attribute(traces.load(path)).mean()
    terms = Terms(**asdict(mean))
    return Source(path, f"{path.parent.name}/{path.name}".lstrip("/"), terms, None)


def ratio_runs(path: str | Path) -> list[Run]:
    """The jobs of a ratio.json that `weft bench ratio` wrote, or of a run's record, for Eq. 5."""
    path = Path(path)
    path = path / "run.json" if path.is_dir() else path
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: not a record: {error}") from None
    rows = content.get("rows") if isinstance(content, dict) else None
    try:
        if rows is None:
            return [_ratio_run(content)]
        if not rows:
            raise ModelError(f"{path}: holds no run")
        return [Run(int(r["processes"]), int(r["threads"]), float(r["t_total"]), float(r["t_mpi"])) for r in rows]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ModelError):
            raise ModelError(f"{path}: {error}") from None
        raise ModelError(
            f"{path}: neither a ratio.json of 'weft bench ratio' nor a run record ({type(error).__name__}: {error})"
        ) from None


def ratio_file(path: str | Path) -> tuple[str, list[Run]] | None:
    """The workload and the jobs of a ratio.json, None where the file is something else."""
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
    """A run record as a job of Eq. 5: its ranks share one GPU, or stand for one where there is none."""
    machine, timings = record["machine"], record["timings"]
    t_mpi = float(timings["breakdown"].get("mpi", {}).get("mean_seconds", 0.0))
    return Run(int(machine["ranks"]), int(machine["threads_per_rank"]), broken_down_seconds(timings), t_mpi)
