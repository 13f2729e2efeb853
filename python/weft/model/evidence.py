"""Measurements on a machine, read from files: records of `weft run` and results of `weft bench`."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from weft.model.result import ModelError
from weft.model.sources import run_record

BENCHMARKS = ("exchange", "pingpong", "alltoall", "fft", "operator")  # each writes a file of its name


VECTOR_BYTES = {"avx512": 64, "avx2": 32, "sse2": 16, "neon": 16}  # by a host's architecture
Count = Annotated[int, Field(ge=1)]


class Device(BaseModel):
    """The part of a file's `machine` that describes the device."""

    name: str
    backend: str = ""
    architecture: str = ""
    memory_bytes: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Caches(BaseModel):
    """The last-level caches of a node: their number, and the bytes of each."""

    count: Annotated[int, Field(ge=0)] = 0
    bytes: Annotated[int, Field(ge=0)] = 0


class Place(BaseModel):
    """The part of a file's `machine` that describes where the measurement was made."""

    ranks: Count
    ranks_per_node: Count
    processors: Count = 1
    threads_per_rank: Count = 1
    node_processors: Annotated[int, Field(ge=0)] = 0  # 0: not known
    caches: Caches = Caches()
    device: Device

    @property
    def shares_processors(self) -> bool:
        """Whether the ranks of a node are known to have had fewer processors than threads."""
        threads = self.ranks_per_node * self.threads_per_rank
        return self.device.backend == "host" and 0 < self.node_processors < threads

    @property
    def cache_bytes(self) -> tuple[float, float]:
        """Bytes of the last-level caches that a rank alone reaches, and of all of the node; zeros for a GPU."""
        whole = float(self.caches.count * self.caches.bytes)
        if self.device.backend != "host":
            return 0.0, 0.0
        reached = -(-self.caches.count * self.threads_per_rank // self.processors)
        return min(whole, float(max(1, reached) * self.caches.bytes)), whole


@dataclass(frozen=True)
class Evidence:
    """One file: `kind` is "run" or a benchmark's name. `date` is that of the file."""

    kind: str
    content: dict[str, Any]
    path: Path
    date: datetime.date
    machine: Place

    @property
    def ranks(self) -> int:
        """The number of ranks that took part."""
        return self.machine.ranks

    @property
    def where(self) -> str:
        """The command, the file and the date, for the source of a number."""
        command = f"weft run {self.content['case']['workload']}" if self.kind == "run" else f"weft bench {self.kind}"
        return f"{command}, {self.path.parent.name or '.'}/{self.path.name}, {self.date}"


def read(paths: Sequence[Path]) -> list[Evidence]:
    """The measurements in these files, or in folders with a run.json or results of benchmarks.

    Raises ModelError for files that are neither, and for folders that have none.
    """
    found = []
    for path in paths:
        names = ("run.json", *(f"{name}.json" for name in BENCHMARKS))
        files = [path / name for name in names if (path / name).exists()] if path.is_dir() else [path]
        if not files:
            raise ModelError(f"{path}: the folder has none of {', '.join(names)}")
        for file in files:
            found += _read_file(file)
    return found


def _read_file(file: Path) -> list[Evidence]:
    if not file.exists():
        raise ModelError(f"{file}: no such file or folder")
    date = datetime.date.fromtimestamp(file.stat().st_mtime)
    record = run_record(file)
    if record is not None:
        return [Evidence("run", dict(record), file, date, _place(record.get("machine"), file))]
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError):
        content = None
    if isinstance(content, dict) and isinstance(content.get("machine"), dict):
        kinds = {"fits": "pingpong", "lines": "fft", "rates_before": "operator", "device_pointers": "alltoall"}
        for key, kind in kinds.items():
            if key in content:
                return [Evidence(kind, content, file, date, _place(content["machine"], file))]
    runs = content.get("runs") if isinstance(content, dict) else None
    if isinstance(runs, list) and runs and all(isinstance(run, dict) and "bound" in run for run in runs):
        return [Evidence("exchange", run, file, date, _place(run.get("machine"), file)) for run in runs]
    raise ModelError(
        f"{file}: neither a run record nor a result of weft bench {', '.join(BENCHMARKS[:-1])} or {BENCHMARKS[-1]}"
    )


def _place(machine: object, file: Path) -> Place:
    try:
        return Place.model_validate(machine)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(["machine", *(str(part) for part in first["loc"])])
        raise ModelError(f"{file}: '{key}': {first['msg']}") from None


def sourced(values: Sequence[tuple[float, Evidence]]) -> dict[str, float | str]:
    """The median of measured values; its source names their files and their spread."""
    numbers = np.array([value for value, _ in values])
    middle = float(np.median(numbers))
    if not np.isfinite(numbers).all() or (numbers < 0).any():
        raise ModelError(f"{values[0][1].path}: the measured {numbers.tolist()} are not finite or below zero")
    first = values[0][1].where
    if len(values) == 1:
        return {"value": middle, "source": first}
    spread = (numbers.max() - numbers.min()) / 2 / middle if middle else 0.0
    return {"value": middle, "source": f"median of {len(values)}, spread +-{100 * spread:.1f} %: {first} and others"}
