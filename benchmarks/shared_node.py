"""Predicts runs of weft of other sizes and orders on one node from some runs, makes them, and prints both.

    python benchmarks/shared_node.py measure --output runs      # on a node with two cores to itself; 30 minutes
    python benchmarks/shared_node.py evaluate runs              # writes the results, the plot and the table

`measure` makes, in turns, each of the four workloads at several sizes and orders on one rank and on two, which exchange
through shared memory; each rank is bound to a core. A problem is run until its three fastest runs agree, at most
`--rounds` times. Run again, the command makes the runs that are missing. First it makes the runs of CALIBRATED. From
these `weft model calibrate` makes a machine, for predictions on one rank from the runs on one, else from both
(turbulence: from those on two). Then `weft model project` predicts all problems, and `measure` prints what it says and
keeps the machine. Only then are the others run. `evaluate` compares.

A host may place its virtual processors on cores with a common last-level cache or on others (`core_to_core.c`), which
is measured before and after each run. A run of two ranks counts only if they had a common cache both times, as the
operating system says.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
from emulated_network import RUNS as SHORT_RUNS
from emulated_network import Limit, arguments
from published_tables import written_between
from threads_and_ranks import FAR, core_to_core

from weft.files import write_json
from weft.format import seconds as duration
from weft.model.calibrate import calibrate
from weft.model.evidence import read
from weft.model.machine import Machine
from weft.model.project import results as ranged
from weft.model.recorded_run import Run, run_of
from weft.report import plots
from weft.run.elements import box_counts

RANKS = (1, 2)
AGREEING = 3  # fastest runs of a problem that must agree
SAME = 0.03  # relative difference of times that count as the same
RUNS = {  # long enough that the start does not count; a flow's solves take 1 to 3 iterations, as in a developed flow
    **SHORT_RUNS,
    "maxwell": ["--steps", "12", "--set", "output.slice=none"],
    "flow": ["--steps", "20", "--dt", "0.01", "--set", "solver.pressure_tolerance=1e-10",
             "--set", "solver.velocity_tolerance=1e-10", "--set", "output.slice=none"],
    "turbulence": ["--steps", "10", "--set", "output.slice=false"],
}  # fmt: skip
ON_ELEMENTS = ("poisson", "maxwell", "flow")
# Halos go by messages to neighbours; turbulence makes its own choice, as it does for a user.
EXCHANGE = {workload: ["--exchange", "pairwise:direct"] for workload in ON_ELEMENTS} | {"turbulence": []}


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

    @property
    def elements(self) -> int:
        """The elements of the mesh that `weft run` makes of the points."""
        return int(math.prod(box_counts(self.size, self.order)))

    def named(self, workload: str) -> str:
        """For tables."""
        return f"{self.size}³" if workload == "turbulence" else f"{self.size:,} points, N = {self.order}"


# A size that fits into the caches, one that does not, and one between, of each order: what memory adds to a point, and
# what of it the arithmetic hides, depend on the order. Of turbulence three grids with each of the largest prime factors
# 2, 3 and 5. Nine problems are the fewest of which the largest held-out error holds 90 % of others.
KNOWN = tuple(Problem(size, order) for order in (7, 5, 9) for size in (100_000, 400_000, 1_600_000))
CALIBRATED = {
    **dict.fromkeys(ON_ELEMENTS, KNOWN),
    "turbulence": tuple(Problem(side) for side in (32, 64, 128, 48, 96, 144, 40, 80, 160)),
}  # fmt: skip
# Problems on which the forms of the model were found, and problems on which none was found.
SEEN = (
    Problem(200_000), Problem(700_000), Problem(200_000, 5), Problem(600_000, 5),
    Problem(300_000, 9), Problem(800_000, 9),
)  # fmt: skip
NEW = (Problem(350_000), Problem(500_000, 5), Problem(1_000_000, 9))
PREDICTED = {
    "seen": {
        **dict.fromkeys(ON_ELEMENTS, SEEN),
        "turbulence": tuple(Problem(side) for side in (50, 60, 72, 90, 108, 120, 150, 180)),
    },
    "new": {**dict.fromkeys(ON_ELEMENTS, NEW), "turbulence": (Problem(36), Problem(75), Problem(192))},
}
PROBLEMS = {w: (*CALIBRATED[w], *PREDICTED["seen"][w], *PREDICTED["new"][w]) for w in SHORT_RUNS}


def folder_of(folder: Path, workload: str, problem: Problem, ranks: int, turn: int) -> Path:
    """Where a run is kept."""
    return folder / f"{workload}-{problem.size}-{problem.order}-{ranks}-{turn}"


def together(end: Path) -> bool:
    """Whether the two processors had a common last-level cache before and after a run."""
    return max(json.loads(end.read_text()).values()) <= FAR


def runs_of(folder: Path, workload: str, problem: Problem, ranks: int) -> list[Run]:
    """The runs of a problem that count, the fastest first: whole ones, as one that was cut off has no round trips."""
    ends = folder.glob(f"{folder_of(folder, workload, problem, ranks, 0).name[:-1]}*/{TRIPS}")
    records = sorted(end.with_name("run.json") for end in ends if ranks == 1 or together(end))
    return sorted((run_of(evidence) for evidence in read(records)), key=lambda run: run.seconds)


def fastest(folder: Path, workload: str, problem: Problem, ranks: int) -> Run:
    """The fastest run of a problem."""
    runs = runs_of(folder, workload, problem, ranks)
    if not runs:
        raise SystemExit(
            f"{workload}, {problem.named(workload)}, ranks: {ranks}: no run counts yet; repeat `measure` with more "
            "--rounds"
        )
    return runs[0]


def settled(runs: Sequence[Run]) -> bool:
    """Whether the fastest runs took the same time: other work on the machine only adds to it."""
    return len(runs) >= AGREEING and runs[AGREEING - 1].seconds <= (1 + SAME) * runs[0].seconds


# --- measuring -----------------------------------------------------------------------------------------------------


def measure(folder: Path, rounds: int, limit: Limit) -> None:
    """Makes the runs of the calibration, then the predictions, then the other runs, as far as they are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        round_trip = core_to_core(Path(made))
    if not run_all(folder, CALIBRATED, rounds, limit, round_trip):
        return
    if not (folder / PREDICTIONS).exists():
        predict(folder)
    run_all(folder, {w: (*PREDICTED["new"][w], *PREDICTED["seen"][w]) for w in PROBLEMS}, rounds, limit, round_trip)


def run_all(
    folder: Path, chosen: dict[str, tuple[Problem, ...]], rounds: int, limit: Limit, round_trip: Callable[[], float]
) -> bool:
    """Makes the runs of problems that are not settled yet, in turns. Returns whether there was time for all."""
    for turn in range(rounds):
        for workload, problems in chosen.items():
            for problem in problems:
                for ranks in RANKS:
                    output = folder_of(folder, workload, problem, ranks, turn)
                    if (output / TRIPS).exists() or settled(runs_of(folder, workload, problem, ranks)):
                        continue
                    if limit.passed():
                        print(f"{limit.seconds:g} s have passed: the same command goes on from here")
                        return False
                    before = round_trip() if ranks == 1 else when_together(round_trip)
                    run(workload, problem, ranks, output)
                    write_json(output / TRIPS, {"before": before, "after": round_trip()})
        print(f"round {turn + 1} of {rounds}", flush=True)
    return True


def when_together(round_trip: Callable[[], float]) -> float:
    """Waits at most a quarter of a minute for a common last-level cache; returns the last round trip (s)."""
    for _ in range(30):
        if round_trip() <= FAR:
            break
        time.sleep(0.5)
    return round_trip()


def run(workload: str, problem: Problem, ranks: int, output: Path) -> None:
    """One run with the recorder on."""
    launcher = shutil.which("mpiexec")
    if launcher is None:
        raise SystemExit("mpiexec is not on PATH: put the environment's bin folder there")
    words = ["weft", "run", workload, *RUNS[workload], *problem.words(workload), *EXCHANGE[workload], "--trace"]
    bound = [launcher, "-bind-to", "core", "-n", str(ranks)]
    subprocess.run([*bound, *words, "--output", str(output)], check=True, stdout=subprocess.DEVNULL, timeout=600)


# --- predicting ----------------------------------------------------------------------------------------------------

PREDICTIONS, TRIPS = "predictions.json", "round_trips.json"


@dataclass(frozen=True)
class Prediction:
    """A predicted time (s) of an iteration or step and its range."""

    workload: str
    problem: Problem
    ranks: int
    seconds: float
    low: float
    high: float


def machine_of(folder: Path, ranks: int) -> Machine:
    """Calibrated on some problems of each workload, for predictions on a number of ranks."""
    chosen = []
    for workload, problems in CALIBRATED.items():
        # The parts of a step of turbulence say what its computation costs; the others need runs that only compute.
        used = [ranks] if workload == "turbulence" else sorted({1, ranks})
        chosen += [fastest(folder, workload, p, r).evidence.path for p in problems for r in used]
    return calibrate(read(chosen), title="one node")


def predict(folder: Path) -> None:
    """Predicts all problems from the runs of the calibration alone; prints the predictions and keeps the machines."""
    machines = {ranks: machine_of(folder, ranks) for ranks in RANKS}
    for workload, problems in PROBLEMS.items():
        for problem in problems:
            for ranks, machine in machines.items():
                # Iterations of a flow as in the calibrated run of its order; `evaluate` takes those of the run itself.
                alike = [p for p in CALIBRATED[workload] if p.order == problem.order]
                made = prediction(machine, fastest(folder, workload, alike[-1], ranks), workload, problem)
                print(f"{workload}, {problem.named(workload)}, ranks: {ranks}: {duration(made.seconds)}"
                      f" ({duration(made.low)} to {duration(made.high)})")  # fmt: skip
    write_json(folder / PREDICTIONS, {
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "machines": {ranks: machine.model_dump(exclude_none=True) for ranks, machine in machines.items()},
    })  # fmt: skip


def prediction(machine: Machine, run: Run, workload: str, problem: Problem) -> Prediction:
    """The predicted time of a problem on as many ranks as a run has; a flow with the iterations of that run."""
    made = replace(run, options=run.options | sized(workload, problem, run.ranks))
    step = ranged(machine, made.on)[0]
    return Prediction(workload, problem, run.ranks, step.value, step.low, step.high)


def sized(workload: str, problem: Problem, ranks: int) -> dict[str, int]:
    """The options of a projection of a problem."""
    if workload == "turbulence":
        return {"grid": problem.size}
    return {"order": problem.order, "elements_per_rank": -(-problem.elements // ranks)}


# --- comparing -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """A prediction, the measured time (s), and that of the same problem on one rank."""

    prediction: Prediction
    measured: float
    alone: float

    @property
    def error(self) -> float:
        """Relative to the measured time."""
        return self.prediction.seconds / self.measured - 1

    @property
    def inside(self) -> bool | None:
        """Whether the range holds the measured time; None without a range: too few problems could be held out."""
        if self.prediction.low == self.prediction.high:
            return None
        return self.prediction.low <= self.measured <= self.prediction.high

    @property
    def disturbed(self) -> bool:
        """Whether several ranks took longer than one: then other work had a processor in all runs that count."""
        return self.measured > self.alone

    @property
    def kind(self) -> str:
        """ "calibrated", "seen" or "new"."""
        workload, problem = self.prediction.workload, self.prediction.problem
        found = [kind for kind, of in PREDICTED.items() if problem in of[workload]]
        return found[0] if found else "calibrated"


def comparisons(folder: Path) -> Iterator[Comparison]:
    """What the machines predict for all problems, with the fastest run of each.

    The machines were calibrated before these runs. A flow's solves have the iterations of the run: a model of time does
    not know how fast they converge.
    """
    kept = json.loads((folder / PREDICTIONS).read_text())["machines"]
    machines = {int(ranks): Machine.model_validate(content) for ranks, content in kept.items()}
    for workload, problems in PROBLEMS.items():
        for problem in problems:
            alone = fastest(folder, workload, problem, 1).seconds
            for ranks, machine in machines.items():
                run = fastest(folder, workload, problem, ranks)
                yield Comparison(prediction(machine, run, workload, problem), run.seconds, alone)


def summary(found: Sequence[Comparison]) -> dict[str, dict[str, float]]:
    """Median and largest error, and the share of measured times in the range, of those predicted."""
    of = {"all": [c for c in found if c.kind != "calibrated"]}
    of |= {kind: [c for c in found if c.kind == kind] for kind in PREDICTED}
    of |= {f"ranks: {ranks}": [c for c in of["all"] if c.prediction.ranks == ranks] for ranks in RANKS}
    if any(c.disturbed for c in of["all"]):
        of |= {f"{kind}, not disturbed": [c for c in of[kind] if not c.disturbed] for kind in ("all", "ranks: 2")}
    return {
        kind: {
            "problems": len(some), "median": statistics.median(abs(c.error) for c in some),
            "largest": max(abs(c.error) for c in some),
            "in_range": statistics.mean(c.inside for c in some if c.inside is not None),
        }
        for kind, some in of.items()
    }  # fmt: skip


def table(found: Sequence[Comparison]) -> str:
    """The tables of docs/model-experiments.md."""
    lines = ["| predicted | times | median error | largest | in the range |", "|---|---|---|---|---|"]
    for kind, s in summary(found).items():
        values = " | ".join(f"{100 * s[key]:.1f} %" for key in ("median", "largest"))
        lines.append(f"| {kind} | {s['problems']} | {values} | {100 * s['in_range']:.0f} % |")
    lines += ["", "| workload | problem | one rank | predicted | two ranks | predicted |", "|---" * 6 + "|"]
    by = {(c.prediction.workload, c.prediction.problem, c.prediction.ranks): c for c in found}
    marks = {"calibrated": " \\*", "new": " (new)", "seen": ""}
    for workload, problems in PROBLEMS.items():
        for problem in problems:
            both = [by[workload, problem, ranks] for ranks in RANKS]
            cells = [
                f"{duration(c.measured)}{' (slow)' * c.disturbed} | {100 * c.error:+.1f} %"
                f"{' (!)' * (c.inside is False)}"
                for c in both
            ]
            lines.append(f"| {workload} | {problem.named(workload)}{marks[both[0].kind]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(found: Sequence[Comparison], file: Path) -> None:
    """Predicted over measured time with its range, against the measured time, by workload."""
    figure, axes = plt.subplots(1, len(RANKS), figsize=(10, 4.2), sharey=True, layout="constrained")
    for axis, ranks in zip(axes, RANKS, strict=True):
        axis.axhspan(0.85, 1.15, color="#EEEEEE")
        axis.axhspan(0.95, 1.05, color="#DDDDDD")
        for k, workload in enumerate(PROBLEMS):
            of = [c for c in found if (c.prediction.workload, c.prediction.ranks) == (workload, ranks)]
            for kind, fill in (("seen", "none"), ("new", None)):
                some = [c for c in of if c.kind == kind]
                ratios = [c.prediction.seconds / c.measured for c in some]
                ends = [[r - c.prediction.low / c.measured for r, c in zip(ratios, some, strict=True)],
                        [c.prediction.high / c.measured - r for r, c in zip(ratios, some, strict=True)]]  # fmt: skip
                style = {**plots.style(k), "linestyle": "none", "elinewidth": 0.7}
                axis.errorbar([c.measured for c in some], ratios, yerr=ends, markerfacecolor=fill or style["color"],
                              label=workload if kind == "new" else None, **style)  # fmt: skip
        axis.set_xscale("log")
        axis.set_title(f"{ranks} rank{'s' * (ranks > 1)}")
        axis.set_xlabel("measured time of an iteration or step (s)")
    axes[0].set_ylabel("predicted / measured time")
    axes[0].legend(loc="upper left", title="filled: new problems", ncols=2)
    plots.save(figure, file)


def evaluate(folder: Path, results: Path, document: Path) -> None:
    """Prints the comparison, and writes it as JSON, as a plot and into the documentation."""
    found = list(comparisons(folder))
    text = table(found)
    print(text)
    runs = {(w, p, r): runs_of(folder, w, p, r) for w, problems in PROBLEMS.items() for p in problems for r in RANKS}
    counts, ends = [len(of) for of in runs.values()], list(folder.glob(f"*-2-*/{TRIPS}"))
    write_json(results, {
        "machine": runs["poisson", KNOWN[0], 1][0].evidence.content["machine"], "options": RUNS,
        "runs_per_problem": {"least": min(counts), "most": max(counts)},
        "not_settled": [f"{w}, {p.named(w)}, ranks: {r}" for (w, p, r), of in runs.items() if not settled(of)],
        "runs": len(ends), "not_together": sum(not together(end) for end in ends),
        "predictions_written": json.loads((folder / PREDICTIONS).read_text())["written"], "errors": summary(found),
        "comparisons": [asdict(c) | {"kind": c.kind, "error": c.error, "inside": c.inside, "disturbed": c.disturbed}
                        for c in found],
    })  # fmt: skip
    plot(found, results.with_suffix(".png"))
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
