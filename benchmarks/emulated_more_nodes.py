"""Predicts runs on three and four emulated nodes, and on another network, then makes the runs and compares.

    python benchmarks/emulated_more_nodes.py measure --output runs   # needs root; three minutes; repeat to continue
    python benchmarks/emulated_more_nodes.py evaluate runs           # writes the results and the table

A machine is calibrated at the first setting as in `emulated_network.py`, from a run on one node, a run on two with its
trace, and their ping-pong; for turbulence from the run on two nodes alone. `weft model project` then predicts the same
work per rank (turbulence: the same grid) on more nodes, and on two to four nodes at the other setting, whose path is
that of the first plus the difference of the nominal values. `weft model replay` and `weft model network` predict the
other setting from the traces at the first one. `measure` prints and keeps each prediction before it makes the run.

The ranks of all nodes share two cores, so the latencies of the networks are chosen so large that computation and the
ranks' turns on the cores matter little.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from emulated_network import BITS, ENVIRONMENT, PINGPONG, Limit, arguments, between_nodes, cut, moved
from emulated_network import METHODS as ALL_METHODS
from emulated_nodes import Nodes, Setting, UnavailableError
from published_tables import written_between

from weft import traces
from weft.files import write_json
from weft.format import seconds as duration
from weft.model import network as networks
from weft.model import replay as replays
from weft.model.calibrate import calibrate
from weft.model.evidence import read
from weft.model.machine import Machine
from weft.model.meetings import MessagePath
from weft.model.recorded_run import Run, run_of

SETTINGS = (Setting(5e-3, 1 * BITS), Setting(10e-3, 0.2 * BITS))  # the machine is calibrated at the first one
COUNTS = (2, 3, 4)
POINTS = 20_000  # per rank
WORKLOADS = {
    "poisson": ["--set", "solver.iterations=50"],
    "maxwell": ["--steps", "10", "--set", "output.slice=none"],
    "flow": ["--steps", "6", "--dt", "0.002", "--set", "output.slice=none"],
    "turbulence": ["--steps", "8", "--grid", "48", "--set", "batch=1", "--set", "output.slice=false"],
}
PREDICTED = "predicted.json"


@dataclass(frozen=True)
class Case:
    """A run of a workload on some nodes at SETTINGS[setting]."""

    workload: str
    nodes: int
    setting: int

    def folder(self, runs: Path) -> Path:
        """Where the run is kept."""
        return runs / f"{self.setting}" / f"{self.workload}-{self.nodes}"

    def words(self, runs: Path) -> list[str]:
        """The command of the run."""
        words = ["weft", "run", self.workload, *WORKLOADS[self.workload], "--exchange", "pairwise:direct", "--trace"]
        if self.workload == "turbulence":
            words += ["--process-grid", f"1x{self.nodes}"]
        else:
            words += ["--set", f"mesh.points={POINTS * self.nodes}"]
        return [*words, "--output", str(self.folder(runs))]

    def run(self, runs: Path) -> Run:
        """The record of the run."""
        return run_of(read([self.folder(runs)])[0])

    def __str__(self) -> str:
        return f"{self.workload}, {self.nodes} nodes, {SETTINGS[self.setting]}"


def cases() -> Iterator[Case]:
    """All runs, each after the runs that its predictions need."""
    for setting in range(len(SETTINGS)):
        for workload in WORKLOADS:
            first = () if setting or workload == "turbulence" else (1,)
            for count in (*first, *COUNTS):
                yield Case(workload, count, setting)


def known(case: Case) -> bool:
    """Whether the calibration uses the run."""
    return case.setting == 0 and case.nodes <= COUNTS[0]


# --- predicting ----------------------------------------------------------------------------------------------------


def machine_of(runs: Path, workload: str) -> Machine:
    """The machine calibrated on the measurements at the first setting on one and two nodes."""
    used = [case.folder(runs) for case in cases() if case.workload == workload and known(case)]
    return calibrate(read([runs / "pingpong", *used]), title="emulated nodes")


def predictions(runs: Path, case: Case) -> dict[str, float]:
    """Seconds predicted by each method whose inputs exist."""
    machine = machine_of(runs, case.workload)
    there = between_nodes(machine, SETTINGS[0], SETTINGS[case.setting])
    two = Case(case.workload, COUNTS[0], 0).run(runs)
    found = {"project": replace(two, ranks=case.nodes).on(there).seconds}
    if case.setting > 0:
        link = machine.links.network
        path = MessagePath(link.latency_seconds.value, link.bytes_per_second.value)
        to = moved(path, SETTINGS[0], SETTINGS[case.setting])
        traced = replace(case, setting=0).folder(runs) / "trace.json"
        loaded = traces.load(cut(traced, case.workload)[0])
        scenario = replays.Scenario(message_latency=to.latency, message_bandwidth=to.bandwidth)
        found["replay"] = replays.replay(replays.program(loaded, path), scenario).seconds
        on = networks.Network(networks.topology("full", (case.nodes,)), to.bandwidth, to.latency)
        found["network"] = networks.results(networks.of_trace(loaded), on, case.workload)[0].value
    return found


# --- measuring -----------------------------------------------------------------------------------------------------


def measure(runs: Path, limit: Limit) -> None:
    """Makes the missing runs; prints and keeps the predictions of each before the run."""
    with Nodes(max(COUNTS)) as nodes:
        nodes.set(SETTINGS[0])
        if not (runs / "pingpong").exists():
            words = ["weft", "bench", "pingpong", *PINGPONG, "--output", str(runs / "pingpong")]
            nodes.mpiexec(words, nodes=2, environment=ENVIRONMENT)
        for case in cases():
            if (case.folder(runs) / "run.json").exists():
                continue
            if limit.passed():
                print(f"{limit.seconds:g} s have passed: the same command continues from here")
                return
            if not known(case):
                keep(runs, case, predictions(runs, case))
            nodes.set(SETTINGS[case.setting])
            nodes.mpiexec(case.words(runs), nodes=case.nodes, environment=ENVIRONMENT)
            print(f"{case}: measured {duration(case.run(runs).seconds)}", flush=True)


def keep(runs: Path, case: Case, found: dict[str, float]) -> None:
    """Prints the predictions of a run, and stores them unless they are stored already."""
    print(f"{case}: predicted " + ", ".join(f"{name} {duration(seconds)}" for name, seconds in found.items()))
    file = runs / PREDICTED
    kept = json.loads(file.read_text()) if file.exists() else []
    if any(entry["case"] == asdict(case) for entry in kept):
        return
    write_json(file, [*kept, {"case": asdict(case), "seconds": found}])


# --- comparing -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """A prediction that was stored before the run, and the measured time (s)."""

    method: str
    case: Case
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Relative to the measured time."""
        return self.predicted / self.measured - 1


def comparisons(runs: Path) -> Iterator[Comparison]:
    """All stored predictions with the runs; those from traces are compared with the same part of the new trace."""
    for entry in json.loads((runs / PREDICTED).read_text()):
        case = Case(**entry["case"])
        whole = cut(case.folder(runs) / "trace.json", case.workload)[1] if case.setting else 0.0
        for method, seconds in entry["seconds"].items():
            yield Comparison(method, case, seconds, case.run(runs).seconds if method == "project" else whole)


def summary(found: Sequence[Comparison]) -> dict[str, dict[str, float]]:
    """Median and largest error of each method."""
    errors = {m: [abs(c.error) for c in found if c.method == m] for m in ALL_METHODS}
    return {m: {"runs": len(e), "median": statistics.median(e), "largest": max(e)} for m, e in errors.items()}


def table(found: Sequence[Comparison], now: Mapping[Case, float]) -> str:
    """The tables of docs/model-experiments.md.

    `now` has the predictions (s) of `weft model project` of this version.
    """
    lines = ["| method | runs | median error | largest error |", "|---|---|---|---|"]
    for name, s in summary(found).items():
        lines.append(f"| `{name}` | {s['runs']} | {100 * s['median']:.1f} % | {100 * s['largest']:.1f} % |")
    names = " | ".join(f"`{m}`" for m in ALL_METHODS)
    lines += ["", f"| workload | nodes | setting | measured | {names} | `project` now |", "|---" * 8 + "|"]
    for case in dict.fromkeys(c.case for c in found):
        of = {c.method: c for c in found if c.case == case}
        cells = [f"{100 * of[m].error:+.1f} %" if m in of else "" for m in ALL_METHODS]
        cells.append(f"{100 * (now[case] / of['project'].measured - 1):+.1f} %")
        measured = duration(of["project"].measured)
        lines.append(
            f"| {case.workload} | {case.nodes} | {SETTINGS[case.setting]} | {measured} | {' | '.join(cells)} |"
        )
    return "\n".join(lines)


def evaluate(runs: Path, results: Path, document: Path) -> None:
    """Prints the comparison, and writes it as JSON and into the documentation."""
    found = list(comparisons(runs))
    now = {case: predictions(runs, case)["project"] for case in dict.fromkeys(c.case for c in found)}
    text = table(found, now)
    print(text)
    write_json(results, {
        "machine": found[0].case.run(runs).evidence.content["machine"],
        "settings": [asdict(s) for s in SETTINGS], "points_per_rank": POINTS, "options": WORKLOADS,
        "errors": summary(found), "comparisons": [asdict(c) | {"error": c.error} for c in found],
        "project_now": [asdict(case) | {"predicted": seconds} for case, seconds in now.items()],
    })  # fmt: skip
    document.write_text(written_between(document.read_text(), "more nodes", "emulated_more_nodes.py", text))


def main() -> None:
    """The command line."""
    given = arguments(__doc__ or "", "emulated_more_nodes", "predict and make the runs; needs root")
    try:
        if given.command == "measure":
            given.output.mkdir(parents=True, exist_ok=True)
            measure(given.output, Limit(given.seconds))
        else:
            evaluate(given.folder, given.results, given.document)
    except UnavailableError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
