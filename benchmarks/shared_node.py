"""Predicts runs of weft of other sizes and orders on one node from some runs, makes them, and prints both.

    python benchmarks/shared_node.py measure --output runs      # on a node with two cores to itself; a few minutes
    python benchmarks/shared_node.py evaluate runs              # writes the results and the table

`measure` makes, in turns, each of the four workloads at several sizes and orders on one rank and on two, which exchange
through shared memory; each rank is bound to a core. A problem is run until the three fastest of at least
five runs agree, at most `--rounds` times. Run again, the command makes the runs that are missing. `evaluate`
calibrates a machine by `weft model calibrate` from some of the runs (two sizes of one order, the smaller size of two
others), for the predictions on one rank from those on one, else from both (turbulence: from that on two), and predicts
all others by `weft model project`.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from emulated_network import RUNS as SHORT_RUNS
from emulated_network import Limit, arguments
from published_tables import written_between

from weft.files import write_json
from weft.format import seconds as duration
from weft.model.calibrate import Run, calibrate, run_of
from weft.model.evidence import read
from weft.model.machine import Machine

RANKS = (1, 2)
LEAST = 5  # runs of a problem
AGREEING = 3  # fastest of them that must agree
SAME = 0.03  # relative difference of times that count as the same
RUNS = {  # long enough that the start does not count
    **SHORT_RUNS,
    "flow": ["--steps", "20", "--dt", "0.002", "--set", "output.slice=none"],
    "turbulence": ["--steps", "20", "--process-grid", "1x2", "--set", "batch=1", "--set", "output.slice=false"],
}


@dataclass(frozen=True)
class Problem:
    """The size of a run: points in all, and their order; for turbulence the side of the grid."""

    size: int
    order: int = 7

    def words(self, workload: str) -> list[str]:
        """The options of `weft run`."""
        if workload == "turbulence":
            return ["--grid", str(self.size)]
        return ["--set", f"mesh.points={self.size}", "--order", str(self.order)]

    def named(self, workload: str) -> str:
        """For tables."""
        return f"{self.size}³" if workload == "turbulence" else f"{self.size:,} points, N = {self.order}"


# Two sizes of one order, of which one fits into the caches and one does not, and the small size of two other orders.
KNOWN = (Problem(100_000), Problem(1_600_000), Problem(100_000, 5), Problem(100_000, 9))
OTHERS = (Problem(200_000), Problem(400_000), Problem(400_000, 5), Problem(400_000, 9))
ON_ELEMENTS = ("poisson", "maxwell", "flow")
CALIBRATED = {**dict.fromkeys(ON_ELEMENTS, KNOWN), "turbulence": (Problem(64),)}
PREDICTED = {**dict.fromkeys(ON_ELEMENTS, OTHERS), "turbulence": (Problem(48), Problem(96), Problem(128))}
PROBLEMS = {workload: (*CALIBRATED[workload], *PREDICTED[workload]) for workload in SHORT_RUNS}


def folder_of(folder: Path, workload: str, problem: Problem, ranks: int, turn: int) -> Path:
    """Where a run is kept."""
    return folder / f"{workload}-{problem.size}-{problem.order}-{ranks}-{turn}"


def runs_of(folder: Path, workload: str, problem: Problem, ranks: int) -> list[Run]:
    """The runs of a problem so far, the fastest first."""
    records = folder.glob(f"{folder_of(folder, workload, problem, ranks, 0).name[:-1]}*/run.json")
    return sorted((run_of(evidence) for evidence in read(sorted(records))), key=lambda run: run.seconds)


def settled(runs: list[Run]) -> bool:
    """Whether the fastest runs took the same time: other work on the machine only adds to it."""
    return len(runs) >= LEAST and runs[AGREEING - 1].seconds <= (1 + SAME) * runs[0].seconds


def measure(folder: Path, rounds: int, limit: Limit) -> None:
    """Makes the runs of problems that are not settled yet, in turns."""
    launcher = shutil.which("mpiexec")
    if launcher is None:
        raise SystemExit("mpiexec is not on PATH: put the environment's bin folder there")
    folder.mkdir(parents=True, exist_ok=True)
    for turn in range(rounds):
        for workload, problems in PROBLEMS.items():
            for problem in problems:
                for ranks in RANKS:
                    options = [f"1x{ranks}" if word == "1x2" else word for word in RUNS[workload]]
                    output = folder_of(folder, workload, problem, ranks, turn)
                    if (output / "run.json").exists() or settled(runs_of(folder, workload, problem, ranks)):
                        continue
                    if limit.passed():
                        print(f"{limit.seconds:g} s have passed: the same command goes on from here")
                        return
                    words = ["weft", "run", workload, *options, *problem.words(workload), "--exchange",
                             "pairwise:direct", "--trace", "--output", str(output)]  # fmt: skip
                    bound = [launcher, "-bind-to", "core", "-n", str(ranks)]
                    subprocess.run([*bound, *words], check=True, stdout=subprocess.DEVNULL, timeout=600)
        print(f"round {turn + 1} of {rounds}", flush=True)


@dataclass(frozen=True)
class Comparison:
    """A predicted and a measured time (s) of an iteration or step."""

    workload: str
    problem: Problem
    ranks: int
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Relative to the measured time."""
        return self.predicted / self.measured - 1


def machine_of(folder: Path, ranks: int) -> Machine:
    """Calibrated on some problems of each workload, for predictions on a number of ranks."""
    chosen = []
    for workload, problems in CALIBRATED.items():
        # The parts of a step of turbulence say what its computation costs; the others need runs that only compute.
        used = [ranks] if workload == "turbulence" else sorted({1, ranks})
        chosen += [runs_of(folder, workload, p, r)[0].evidence.path for p in problems for r in used]
    return calibrate(read(chosen), title="one node")


def predictions(folder: Path) -> Iterator[Comparison]:
    """All problems, those of the calibration included."""
    machines = {ranks: machine_of(folder, ranks) for ranks in RANKS}
    for workload, problems in PROBLEMS.items():
        for problem in problems:
            for ranks, machine in machines.items():
                run = runs_of(folder, workload, problem, ranks)[0]
                yield Comparison(workload, problem, ranks, run.on(machine).seconds, run.seconds)


def summary(found: list[Comparison]) -> dict[str, float]:
    """Median and largest error of those that nothing was calibrated on."""
    errors = [abs(c.error) for c in found if c.problem not in CALIBRATED[c.workload]]
    return {"median": statistics.median(errors), "largest": max(errors)}


def table(found: list[Comparison]) -> str:
    """The table of docs/model-experiments.md."""
    lines = ["| workload | problem | one rank | predicted | two ranks | predicted |", "|---" * 6 + "|"]
    by = {(c.workload, c.problem, c.ranks): c for c in found}
    for workload, problems in PROBLEMS.items():
        for problem in problems:
            cells = []
            for ranks in RANKS:
                c = by[workload, problem, ranks]
                cells.append(f"{duration(c.measured)} | {100 * c.error:+.1f} %")
            star = " \\*" if problem in CALIBRATED[workload] else ""
            lines.append(f"| {workload} | {problem.named(workload)}{star} | {' | '.join(cells)} |")
    errors = summary(found)
    lines += ["", f"Median error {100 * errors['median']:.1f} %, largest {100 * errors['largest']:.1f} %."]
    return "\n".join(lines)


def evaluate(folder: Path, results: Path, document: Path) -> None:
    """Prints the comparison, and writes it as JSON and into the documentation."""
    found = list(predictions(folder))
    text = table(found)
    print(text)
    runs = {(w, p, r): runs_of(folder, w, p, r) for w, problems in PROBLEMS.items() for p in problems for r in RANKS}
    counts = [len(of) for of in runs.values()]
    write_json(results, {
        "machine": runs["poisson", KNOWN[0], 1][0].evidence.content["machine"], "options": RUNS,
        "runs_per_problem": {"least": min(counts), "most": max(counts)},
        "not_settled": [f"{w}, {p.named(w)}, ranks: {r}" for (w, p, r), of in runs.items() if not settled(of)],
        "errors": summary(found), "comparisons": [asdict(c) | {"error": c.error} for c in found],
    })  # fmt: skip
    document.write_text(written_between(document.read_text(), "shared node", "shared_node.py", text))


def main() -> None:
    """The command line."""
    given = arguments(__doc__ or "", "shared_node", "make the runs")
    if given.command == "measure":
        measure(given.output, given.rounds, Limit(given.seconds))
    else:
        evaluate(given.folder, given.results, given.document)


if __name__ == "__main__":
    main()
