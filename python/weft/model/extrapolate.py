"""Extrapolates a program to more ranks, or to another size, with a scaling law for each term of its time.

Terms come from run records of weft, traces, or a table. The laws are those of `weft.model.scaling_laws`. Where all runs
are traces whose messages are matched, the time in MPI may also follow their number and bytes, each with its own law.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from weft.model import scaling_laws
from weft.model.result import ModelError, Result
from weft.model.scaling_laws import Fitted

METHOD = "extrapolate"
MPI = "t_mpi"
TOO_FAR = 0.5  # error of held-out runs above which a note warns
RANGE = "laws without held-out runs"
Scaling = Literal["strong", "weak"]


@dataclass(frozen=True)
class Run:
    """One run: ranks, points of the whole problem (None if not known), and seconds by term.

    `messages` and `bytes` are those that a rank sends, as a mean over the ranks; None if they are not known. `of` says
    what two runs of one program have in common, by name; only records say so.
    """

    where: str
    ranks: int
    points: float | None
    terms: Mapping[str, float]
    messages: float | None = None
    bytes: float | None = None
    notes: tuple[str, ...] = field(default=())
    of: Mapping[str, object] = field(default_factory=dict)


# --- reading -------------------------------------------------------------------------------------------------------


def read(paths: Sequence[Path]) -> list[Run]:
    """The runs in these files and folders: run records, tables (.csv) and traces."""
    runs: list[Run] = []
    for path in paths:
        if path.suffix == ".csv" and path.is_file() and (rows := read_table(path)) is not None:
            runs += rows
        elif (path / "run.json").exists() or path.name == "run.json":
            runs.append(_of_record(path))
        else:
            runs.append(_of_trace(path))
    return runs


def read_table(path: Path) -> list[Run] | None:
    """The rows of a CSV file whose header is `ranks`, perhaps `points`, and one name per term, in seconds.

    Lines that begin with # are comments. None if the first column is not `ranks`, as in traces that are CSV files.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.reader(line for line in file if line.strip() and not line.startswith("#"))
            header = [name.strip() for name in next(lines, [])]
            if header[:1] != ["ranks"]:
                return None
            return [_of_row(f"{path}, line {lines.line_num}", header, row) for row in lines]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ModelError(f"{path}: not a table in text ({error})") from None


def _of_row(where: str, header: Sequence[str], row: Sequence[str]) -> Run:
    """The run in a row of a table."""
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise ModelError(f"{where}: the header has the name '{twice}' more than once")
    if len(row) != len(header):
        raise ModelError(f"{where}: {len(row)} values, but the header has {len(header)} names")
    try:
        values = dict(zip(header, map(float, row), strict=True))
    except ValueError:
        raise ModelError(f"{where}: not a row of numbers: {','.join(row)}") from None
    ranks = values.pop("ranks")
    if not ranks.is_integer():
        raise ModelError(f"{where}: ranks is {ranks:g}, but must be a whole number")
    return Run(where, int(ranks), values.pop("points", None), values)


def _of_record(path: Path) -> Run:
    """A run of weft: the seconds of an iteration or step, divided in proportion to its breakdown."""
    from weft.model import evidence, sources
    from weft.model.recorded_run import run_of

    (one,) = evidence.read([path])
    run = run_of(one)
    if run.parts:
        terms = dict(run.parts)
    else:
        terms = {k: v for k, v in vars(sources.read(one.path).terms).items() if v > 0}
        whole = math.fsum(terms.values())
        terms = {name: run.seconds * seconds / whole for name, seconds in terms.items()}
    options = run.options
    if "grid" in options:
        points = float(options["grid"]) ** 3
    else:
        points = float(one.content["figures"]["elements"]) * (int(options["order"]) + 1) ** 3
    of = {"workload": run.workload, "precision": options["precision"], "device": one.machine.device.name}
    return Run(one.where, run.ranks, points, terms, of=of)


def _of_trace(path: Path) -> Run:
    """A trace: its exclusive terms, as means over its processes, and the messages of its MPI calls."""
    from weft import traces
    from weft.model import network
    from weft.traces.attribution import attribute

    trace = traces.load(path)
    terms = {name: value for name, value in vars(attribute(trace).mean()).items() if value > 0}
    ranks = len(np.unique(trace.process))
    run = Run(str(path), ranks, None, terms)
    if MPI not in terms:
        return run
    try:
        graph = network.of_trace(trace, compute=False)
    except ModelError as error:
        return replace(run, notes=(f"{path}: no messages were counted ({error})",))
    return replace(run, messages=graph.messages / graph.ranks, bytes=math.fsum(graph.bytes) / graph.ranks)


def with_sizes(runs: Sequence[Run], scaling: Scaling | None) -> list[Run]:
    """The runs with the size of the problem: their own, or the same for all (strong) or per rank (weak)."""
    if all(run.points is not None for run in runs):
        return list(runs)
    if scaling is None:
        raise ModelError(
            "the runs do not all say how large their problem is: give --scaling strong (the same problem on more "
            "ranks) or --scaling weak (a problem that grows with the ranks), or a table with a column 'points'"
        )
    return [replace(run, points=1.0 if scaling == "strong" else float(run.ranks)) for run in runs]


# --- fitting -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ByMessages:
    """Time as latency x messages + bytes / rate, with laws for the messages and bytes that a rank sends."""

    messages: Fitted
    bytes: Fitted
    latency: float  # s
    per_byte: float  # s

    def at(self, ranks: float, size: float) -> tuple[float, float, float]:
        """The value, the lowest and the highest."""
        pairs = zip(self.messages.at(ranks, size), self.bytes.at(ranks, size), strict=True)
        value, low, high = (self.latency * m + self.per_byte * b for m, b in pairs)
        return value, low, high

    @property
    def text(self) -> str:
        """The formula, with the laws of messages and bytes."""
        m, b = self.messages.candidates[0].text, self.bytes.candidates[0].text
        return f"{self.latency:.3g} s x messages ({m}) + {self.per_byte:.3g} s/B x bytes ({b})"


@dataclass(frozen=True)
class Term:
    """A term of the time and its law; `error` is that of cross-validation, as a share."""

    name: str
    law: Fitted | ByMessages
    error: float

    @property
    def text(self) -> str:
        """The law as a formula, with its error."""
        formula = self.law.text if isinstance(self.law, ByMessages) else self.law.candidates[0].text
        return f"{formula}; held out: {100 * self.error:.2g} %"


@dataclass(frozen=True)
class Program:
    """A program's terms with their laws, and the runs that they were fitted to."""

    runs: tuple[Run, ...]
    terms: tuple[Term, ...]
    traffic: Mapping[str, Fitted]  # messages and bytes that a rank sends, if all runs are traces that have them
    notes: tuple[str, ...]

    def at(self, ranks: int, points: float) -> dict[str, tuple[float, float, float]]:
        """Each term at P ranks and a problem of this many points: the value, the lowest and the highest (s)."""
        return {term.name: term.law.at(ranks, points / ranks) for term in self.terms}

    def points_at(self, ranks: int) -> float:
        """The size of the problem on another number of ranks: that of the runs, in total or per rank."""
        sizes = {float(run.points or 0) for run in self.runs}
        per_rank = [float(run.points or 0) / run.ranks for run in self.runs]
        if len(sizes) == 1:
            return sizes.pop()
        if max(per_rank) < 1.01 * min(per_rank):
            return ranks * float(np.mean(per_rank))
        raise ModelError(
            "the runs differ in both the size of the problem and its size per rank: give --points, the points of the "
            "whole problem to extrapolate to"
        )


def program(runs: Sequence[Run]) -> Program:
    """The terms of the runs, each with the law that cross-validation chooses.

    A term that is less than 0.1 % of the time of every run is left out. Raises ModelError for fewer distinct runs than
    a law needs, for terms that only some runs have, and for runs of several workloads, precisions or devices.
    """
    for what in dict.fromkeys(name for run in runs for name in run.of):
        several = sorted({str(run.of[what]) for run in runs if what in run.of})
        if len(several) > 1:
            raise ModelError(
                f"the runs have more than one {what} ({', '.join(several)}), so no law holds for all of them"
            )
    names = list(dict.fromkeys(name for run in runs for name in run.terms))
    totals = [math.fsum(run.terms.values()) for run in runs]
    ranks = [float(run.ranks) for run in runs]
    if not runs or min(ranks) < 1 or any(not 0 < (run.points or 0) < math.inf for run in runs):
        raise ModelError("every run needs at least 1 rank and a finite problem of more than 0 points")
    size = [float(run.points or 0) / run.ranks for run in runs]
    if not any(totals):
        raise ModelError(
            "the runs have no term with a time: a table needs a column of seconds besides ranks and points"
        )
    traffic: dict[str, Fitted] = {}
    terms, notes = [], [note for run in runs for note in run.notes]
    for name in names:
        values = [run.terms.get(name, 0.0) for run in runs]
        if all(v < 1e-3 * total for v, total in zip(values, totals, strict=True)):
            notes.append(f"{name} is less than 0.1 % of the time of every run and was left out")
            continue
        if min(values) <= 0:
            without = next(run.where for run, v in zip(runs, values, strict=True) if v <= 0)
            if all(run.ranks == 1 for run, v in zip(runs, values, strict=True) if v <= 0):
                chosen = [k for k, v in enumerate(values) if v > 0]  # communication that one rank does not have
            else:
                raise ModelError(f"{without}: '{name}' is not above zero there, but other runs have it")
        else:
            chosen = list(range(len(runs)))
        at = [ranks[k] for k in chosen], [size[k] for k in chosen]
        law = scaling_laws.fit(*at, [values[k] for k in chosen], f"'{name}'")
        found = Term(name, law, law.error)
        communicating = [runs[k] for k in chosen]
        if name == MPI and all(run.messages and run.bytes for run in communicating):
            traffic = {
                "messages": scaling_laws.fit(*at, [float(run.messages or 0) for run in communicating], "messages"),
                "bytes": scaling_laws.fit(*at, [float(run.bytes or 0) for run in communicating], "bytes"),
            }
            found = min(
                found, _by_messages(traffic["messages"], traffic["bytes"], communicating), key=lambda term: term.error
            )
        terms.append(found)
    for term in terms:
        if term.error > TOO_FAR:
            notes.append(
                f"{term.name}: held-out runs are {100 * term.error:.0f} % off, so the runs follow no law that is known "
                "here; are they of the same problem?"
            )
    return Program(tuple(runs), tuple(terms), traffic, tuple(notes))


def _by_messages(messages: Fitted, volumes: Fitted, runs: Sequence[Run]) -> Term:
    """The time in MPI by the messages of the traces; each run is held out in turn."""
    counts, bytes_ = messages.data.values, volumes.data.values
    seconds = np.array([run.terms[MPI] for run in runs])
    design = np.stack([counts, bytes_], axis=1)

    def costs(chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        found, _ = nnls(design[chosen] / seconds[chosen, None], np.ones(int(chosen.sum())))
        return np.asarray(found)

    everything = np.ones(len(runs), dtype=bool)
    errors = []
    for k in range(len(runs)):
        left = everything.copy()
        left[k] = False
        predicted = max(float(design[k] @ costs(left)), seconds[k] * math.exp(-scaling_laws.WORST))
        errors.append(math.log(predicted / seconds[k]) ** 2)
    latency, per_byte = costs(everything)
    law = ByMessages(messages, volumes, float(latency), float(per_byte))
    return Term(MPI, law, math.expm1(math.sqrt(float(np.mean(errors)))))


def results(made: Program, ranks: int, points: float) -> list[Result]:
    """The time and its terms at P ranks and a problem of this many points, with ranges and laws.

    Raises ModelError for fewer points than ranks, if no run has that few.
    """
    if points < ranks and all((run.points or 0) >= run.ranks for run in made.runs):
        raise ModelError(f"a problem of {points:,.0f} points has less than one point for each of {ranks:,} ranks")
    found = made.at(ranks, points)
    inputs: dict[str, object] = {"runs": len(made.runs), "measured ranks": sorted({run.ranks for run in made.runs})}
    of = f"{ranks:,} ranks"
    value, low, high = (math.fsum(one[k] for one in found.values()) for k in range(3))

    def one(name: str, at: tuple[float, float, float], law: str, unit: str = "s") -> Result:
        return Result(METHOD, f"{of}: {name}", at[0], unit, at[1], at[2], inputs, law, RANGE)

    terms = [one(f"  {term.name}", found[term.name], term.text) for term in made.terms]
    sent = [
        one(f"{name} per rank", law.at(ranks, points / ranks), law.candidates[0].text, "B" if name == "bytes" else "")
        for name, law in made.traffic.items()
    ]
    return [one("time", (value, low, high), "sum of the terms"), *terms, *sent]
