"""Predicts runs of weft on networks that it has not seen, makes the runs on an emulated network, and prints both.

    sudo python benchmarks/emulated_network.py measure --output runs      # a few minutes on a quiet machine
    python benchmarks/emulated_network.py evaluate runs                   # needs no root; writes results and tables

`measure` makes two nodes (emulated_nodes.py) and runs, with one rank on each: at every setting of latency and rate, a
ping-pong and the four workloads with the recorder on; each workload alone on one rank; and an exchange both ways on
links without limits, which says what the processors take per byte. Run again, it makes the runs that are missing.
`evaluate` takes what was measured at the first setting, and predicts all others in three ways:

    project   the machine by `weft model calibrate`, its path between nodes replaced, by `weft model project`
    replay    the trace of the run by `weft model replay`
    network   the same trace by `weft model network`

The path of another setting is the one that the ping-pong found at the first setting, with the difference of the nominal
latencies added, and with its time per byte changed by the difference of the nominal ones: no prediction uses anything
that was measured at the setting that it is for.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

import matplotlib.pyplot as plt
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
from weft.report import plots

ROOT = Path(__file__).parents[1]
BITS = 1e9 / 8
SETTINGS = (  # the first one is calibrated on
    Setting(100e-6, 1 * BITS), Setting(20e-6, 4 * BITS), Setting(500e-6, 1 * BITS), Setting(2e-3, 1 * BITS),
    Setting(100e-6, 0.1 * BITS), Setting(1e-3, 0.2 * BITS),
)  # fmt: skip
# Sizes of which a run takes about a second, with messages that take 10 to 80 % of it.
RUNS = {
    "poisson": ["--set", "solver.iterations=100"],
    "maxwell": ["--steps", "30", "--set", "output.slice=none"],
    "flow": ["--steps", "6", "--dt", "0.002", "--set", "output.slice=none"],
    "turbulence": ["--steps", "8", "--process-grid", "1x2", "--set", "batch=1", "--set", "output.slice=false"],
}
POINTS = {"poisson": 400_000, "maxwell": 120_000, "flow": 120_000, "turbulence": 64}  # on two ranks; a side of the grid
# The spans that mark the part of a trace that is compared; see `timed`.
TIMED = {"poisson": "conjugate gradients", "maxwell": "step", "flow": "step", "turbulence": "spectra"}
TUNED = ("maxwell", "turbulence")  # runs in which the tuner chooses the schedule, or the batch
PINGPONG = ["--sizes", "8,512,4K,16K,64K,256K,1M", "--paths", "mpi", "--rounds", "5", "--seconds", "0.02"]
# An exchange in both directions at once on links without limits, by which the processors are what limits it.
UNLIMITED = Setting(0, 1e12)
ALLTOALL = ["--grids", "32,64,96", "--row-ranks", "1", "--methods", "pairwise", "--rounds", "5", "--seconds", "0.02"]
ENVIRONMENT = {
    # As the models assume: a message is sent at once, whatever its size, and an all-reduce doubles recursively. UCX
    # and MPICH would ask before they send a long message, and reduce and broadcast: two more latencies, and one.
    "UCX_RNDV_THRESH": "inf",
    "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "recursive_doubling",
    "WEFT_BANDWIDTH_BYTES": str(64 * 2**20),
}


# --- measuring -----------------------------------------------------------------------------------------------------


class Limit:
    """A number of seconds from now on."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def passed(self) -> bool:
        """Whether they are over."""
        return time.monotonic() > self._end


def command(workload: str, ranks: int, output: Path, exchange: str = "pairwise:direct") -> list[str]:
    """The run of a workload with as much work for each rank on one rank as on two."""
    size = POINTS[workload]
    words = ["weft", "run", workload, *RUNS[workload], "--exchange", exchange, "--trace", "--output", str(output)]
    if workload == "turbulence":
        words[words.index("1x2")] = f"1x{ranks}"
        return [*words, "--grid", str(size)]
    return [*words, "--set", f"mesh.points={size * ranks // 2}"]


def measure(folder: Path, settings: tuple[Setting, ...], rounds: int, limit: Limit) -> None:
    """Makes the runs that the folder does not have yet, in turns."""
    folder.mkdir(parents=True, exist_ok=True)
    settings_file = [asdict(s) for s in settings]
    (folder / "settings.json").write_text(json.dumps({"settings": settings_file, "rounds": rounds}))
    with Nodes(2) as nodes:
        for words, output, count, setting in planned(folder, settings, rounds):
            if (output / "relay.json").exists():
                continue
            if limit.passed():
                print(f"{limit.seconds:g} s have passed: the same command goes on from here")
                return
            nodes.set(setting)
            nodes.mpiexec(words, nodes=count, environment=ENVIRONMENT)
            (output / "relay.json").write_text(json.dumps(asdict(nodes.set(setting))))
            print(f"{output.relative_to(folder)}: {setting}", flush=True)


def planned(folder: Path, settings: tuple[Setting, ...], rounds: int) -> Iterator[tuple[list[str], Path, int, Setting]]:
    """All runs in their order: the command, its folder, the number of nodes and the setting."""
    for k in range(rounds):
        for workload in RUNS:
            output = folder / f"alone-{workload}-{k}"
            yield command(workload, 1, output), output, 1, settings[0]
        output = folder / f"processors-{k}"
        yield ["weft", "bench", "alltoall", *ALLTOALL, "--output", str(output)], output, 2, UNLIMITED
        for i, setting in enumerate(settings):
            here = folder / f"{i}"
            output = here / f"pingpong-{k}"
            yield ["weft", "bench", "pingpong", *PINGPONG, "--output", str(output)], output, 2, setting
            for workload in RUNS:
                output = here / f"{workload}-{k}"
                yield command(workload, 2, output), output, 2, setting
            for workload in TUNED if k == 0 else ():
                output = here / f"tuned-{workload}"
                words = command(workload, 2, output, "auto")
                yield [{"batch=1": "batch=auto"}.get(word, word) for word in words], output, 2, setting


# --- predicting ----------------------------------------------------------------------------------------------------


def moved(path: MessagePath, base: Setting, other: Setting) -> MessagePath:
    """A path that was measured at one setting, with the links of another one."""
    per_byte = 1 / path.bandwidth - 1 / base.rate + 1 / other.rate
    return MessagePath(path.latency - base.latency + other.latency, 1 / max(per_byte, 1e-12))


@dataclass(frozen=True)
class Comparison:
    """A predicted and a measured time (s). `messages` is the measured time's share that was spent in MPI."""

    method: str
    workload: str
    setting: Setting
    predicted: float
    measured: float
    messages: float

    @property
    def error(self) -> float:
        """Relative to the measured time."""
        return self.predicted / self.measured - 1


def processor_seconds(folder: Path, rounds: range) -> float:
    """Seconds per byte of an exchange both ways at once that the processors limit: its growth with the size."""
    files = [json.loads((folder / f"processors-{k}" / "alltoall.json").read_text()) for k in rounds]
    rows = [row for file in files for row in file["rows"]]
    best = {size: min(r["total_seconds"] for r in rows if r["message_bytes"] == size)
            for size in {r["message_bytes"] for r in rows}}  # fmt: skip
    small, large = min(best), max(best)
    return float((best[large] - best[small]) / (large - small))


def between_nodes(machine: Machine, base: Setting, other: Setting) -> Machine:
    """The machine with its path between nodes replaced by that of another setting."""
    content = machine.model_dump(exclude_none=True)
    link = content["links"]["network"]
    found = moved(MessagePath(link["latency_seconds"]["value"], link["bytes_per_second"]["value"]), base, other)
    values = {"latency_seconds": found.latency, "bytes_per_second": found.bandwidth}
    if "all_to_all_bytes_per_second" in link:
        rate = link["all_to_all_bytes_per_second"]["value"]
        values["all_to_all_bytes_per_second"] = moved(MessagePath(0, rate), base, other).bandwidth
    for key, value in values.items():
        link[key] = {"value": value, "source": f"calibrated at {base}, for {other}"}
    return Machine.model_validate(content)


def timed(workload: str, spans: list[tuple[float, float]]) -> tuple[float, float]:
    """Begin and end of the solve or the steps without anything else, from the spans named TIMED[workload]."""
    if workload == "flow":
        return spans[0][0], spans[-1][1]
    if workload == "turbulence":  # the steps are between the spectra of the first and the last
        spans = [(a[1], b[0]) for a, b in pairwise(spans)]
    return max(spans, key=lambda span: span[1] - span[0])


def cut(trace_file: Path, workload: str) -> tuple[Path, float]:
    """The part of a trace that the record gives the time of, cut for each rank by its own spans, and its seconds."""
    content = json.loads(trace_file.read_text())
    kept = [e for e in content["traceEvents"] if e.get("ph") != "X"]
    seconds = 0.0
    for rank in sorted({e["pid"] for e in content["traceEvents"]}):
        events = [e for e in content["traceEvents"] if e.get("ph") == "X" and e["pid"] == rank]
        spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["name"] == TIMED[workload])
        begin, end = timed(workload, spans)
        kept += [e for e in events if begin <= e["ts"] and e["ts"] + e["dur"] <= end]
        seconds = max(seconds, (end - begin) * 1e-6)
    found = trace_file.with_name("timed.json")
    found.write_text(json.dumps({**content, "traceEvents": kept}))
    return found, seconds


def predictions(folder: Path) -> Iterator[Comparison]:
    """All predictions from what was measured at the first setting, each beside what was measured at another one."""
    told = json.loads((folder / "settings.json").read_text())
    settings = [Setting(**s) for s in told["settings"]]
    rounds = range(told["rounds"])
    base = settings[0]
    yield from _ping_pongs(folder, settings, rounds)
    machine = _machine(folder, rounds, list(RUNS))
    link = machine.links.network
    path = MessagePath(link.latency_seconds.value, link.bytes_per_second.value)
    busy = link.busy(1.0)
    for workload in RUNS:
        run = _fastest([folder / "0" / f"{workload}-{k}" for k in rounds])
        traced = [
            min((cut(folder / f"{i}" / f"{workload}-{k}" / "trace.json", workload) for k in rounds), key=itemgetter(1))
            for i in range(len(settings))
        ]
        loaded = traces.load(traced[0][0])
        program, graph = replays.program(loaded, path), networks.of_trace(loaded, overhead=busy / 2)
        for i, setting in enumerate(settings):
            there, (_, whole) = moved(path, base, setting), traced[i]
            fastest = _fastest([folder / f"{i}" / f"{workload}-{k}" for k in rounds])
            share = _share(fastest)
            made = run.on(between_nodes(machine, base, setting)).seconds
            yield Comparison("project", workload, setting, made, fastest.seconds, share)
            # The trace has what the sender does, so half of the cost is left for the receiver.
            scenario = replays.Scenario(message_latency=there.latency, message_bandwidth=there.bandwidth,
                                        message_overhead=busy / 2)  # fmt: skip
            yield Comparison("replay", workload, setting, replays.replay(program, scenario).seconds, whole, share)
            on = networks.Network(networks.topology("full", (2,)), there.bandwidth, there.latency)
            found = networks.results(graph, on, workload)[0].value
            yield Comparison("network", workload, setting, found, whole, share)


def _machine(folder: Path, rounds: range, workloads: list[str]) -> Machine:
    """The machine by what was measured at the first setting, on one rank, and on links without limits."""
    # The parts of a step of turbulence say what its computation costs; the others need a run that only computes.
    alone = [[folder / f"alone-{w}-{k}" for k in rounds] for w in workloads if w != "turbulence"]
    here = [[folder / "0" / f"{w}-{k}" for k in rounds] for w in workloads]
    pings = [folder / "0" / f"pingpong-{k}" for k in rounds]
    runs = [_fastest(folders).evidence.path for folders in (*alone, *here)]
    evidence = read([*pings, *runs])
    content = calibrate(evidence, title="emulated nodes").model_dump(exclude_none=True)
    content["links"]["network"]["overhead_seconds_per_byte"] = {
        "value": processor_seconds(folder, rounds), "source": "weft bench alltoall on links without limits",
    }  # fmt: skip
    return calibrate(evidence, Machine.model_validate(content), "emulated nodes")  # again, with this cost known


def _fastest(folders: list[Path]) -> Run:
    """The fastest of the same run in several rounds: what else the machine does only adds time."""
    return min((run_of(evidence) for evidence in read(folders)), key=lambda run: run.seconds)


def _ping_pongs(folder: Path, settings: list[Setting], rounds: range) -> Iterator[Comparison]:
    """The emulation's own check: the time of 8 B and of 1 MiB from the nominal latency and rate."""
    for i, setting in enumerate(settings):
        files = [json.loads((folder / f"{i}" / f"pingpong-{k}" / "pingpong.json").read_text()) for k in rounds]
        for size in (8, 2**20):
            seconds = min(r["seconds"] for f in files for r in f["rows"] if r["bytes"] == size)
            nominal = setting.latency + size / setting.rate
            yield Comparison("nominal", f"ping-pong, {size} B", setting, nominal, seconds, 1.0)


def _share(run: Run) -> float:
    """The share of MPI in the recorded time, mean over the ranks."""
    parts = run.evidence.content["timings"]["breakdown"]
    return float(parts["mpi"]["mean_seconds"] / sum(part["mean_seconds"] for part in parts.values()))


# --- choices -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """What the tuner chose at a setting, and what the model says."""

    setting: Setting
    batch: int  # fields per transpose of turbulence
    batch_of_model: int
    batch_seconds: dict[int, float]  # tuner's median for each
    schedules: dict[str, float]  # tuner's medians (s) of an exchange of maxwell
    exchange_of_model: float  # seconds of the same exchange, by latency and rate, whatever the schedule


def choices(folder: Path) -> list[Choice]:
    """The tuner's choices at all settings, beside those of the model that was calibrated at the first one."""
    told = json.loads((folder / "settings.json").read_text())
    settings = [Setting(**s) for s in told["settings"]]
    machine = _machine(folder, range(told["rounds"]), ["turbulence"])
    found = []
    for i, setting in enumerate(settings):
        turbulence = run_of(read([folder / f"{i}" / "tuned-turbulence"])[0])
        there = between_nodes(machine, settings[0], setting)
        races = [t for t in turbulence.evidence.content["choices"]["timings"] if t["race"] == "batch"]
        sizes = {t["batch"]: float(t["median_seconds"]) for t in races}
        made = {q: replace(turbulence, options={**turbulence.options, "batch": q}).on(there).seconds for q in sizes}
        maxwell = json.loads((folder / f"{i}" / "tuned-maxwell" / "run.json").read_text())
        timings = maxwell["choices"]["exchange"]["faces"]["timings"]
        figures, link = maxwell["figures"], there.links.network
        size = figures["step_bytes_sent"] / figures["step_messages"]
        seconds = link.latency_seconds.value + size / link.bytes_per_second.value
        found.append(Choice(
            setting, turbulence.options["batch"], min(made, key=lambda q: made[q]), sizes,
            {t["exchange"]: float(t["median_seconds"]) for t in timings}, seconds,
        ))  # fmt: skip
    return found


# --- showing -------------------------------------------------------------------------------------------------------

METHODS = ("project", "replay", "network")


def summary(found: list[Comparison]) -> dict[str, dict[str, float]]:
    """Median and largest error of each method, over all settings but the first."""
    errors = {m: [abs(c.error) for c in found if c.method == m and c.setting != found[0].setting] for m in METHODS}
    return {m: {"median": statistics.median(e), "largest": max(e)} for m, e in errors.items()}


def page(found: list[Comparison], chosen: list[Choice]) -> str:
    """The tables of docs/model-experiments.md."""
    lines = ["| method | median error | largest error |", "|---|---|---|"]
    lines += [f"| `{m}` | {100 * e['median']:.1f} % | {100 * e['largest']:.1f} % |" for m, e in summary(found).items()]
    lines += ["", "| setting | 8 B, nominal | measured | 1 MiB, nominal | measured |", "|---|---|---|---|---|"]
    by = {(c.workload, c.setting, c.method): c for c in found}
    settings = list(dict.fromkeys(c.setting for c in found))
    small, large = list(dict.fromkeys(c.workload for c in found if c.method == "nominal"))
    for s in settings:
        a, b = by[small, s, "nominal"], by[large, s, "nominal"]
        lines.append(f"| {s} | {' | '.join(duration(t) for c in (a, b) for t in (c.predicted, c.measured))} |")
    names = " | ".join(f"`{m}`" for m in METHODS)
    lines += ["", f"| workload | setting | in MPI | measured | {names} |", "|---" * 7 + "|"]
    for workload in RUNS:
        for s in settings:
            of = [by[workload, s, m] for m in METHODS]
            cells = [f"{100 * c.error:+.1f} %" for c in of]
            cells[0] = f"{duration(of[0].predicted)} ({cells[0]})"
            star = " \\*" if s == settings[0] else ""
            first = f"{workload} | {s}{star} | {100 * of[0].messages:.0f} % | {duration(of[0].measured)}"
            lines.append(f"| {first} | {' | '.join(cells)} |")
    lines += ["", "| setting | Q: tuner | Q: model | schedules: slowest, fastest | model |",
              "|---|---|---|---|---|"]  # fmt: skip
    for c in chosen:
        low, high = min(c.schedules.values()), max(c.schedules.values())
        cells = f"{c.batch} | {c.batch_of_model} | {duration(high)}, {duration(low)} | {duration(c.exchange_of_model)}"
        lines.append(f"| {c.setting} | {cells} |")
    return "\n".join(lines)


def computation(folder: Path, settings: int, rounds: range) -> dict[str, list[list[float]]]:
    """Seconds per iteration or recorded step outside MPI: by workload, setting and round; mean over the ranks."""

    def seconds(run: Run) -> float:
        figures, timings = run.evidence.content["figures"], run.evidence.content["timings"]
        times = figures["iterations"] if run.workload == "poisson" else {**timings, **figures}["profiled_steps"]
        return float(timings["breakdown"]["cpu"]["mean_seconds"]) / int(times)

    return {
        w: [[seconds(run_of(read([folder / f"{i}" / f"{w}-{k}"])[0])) for k in rounds] for i in range(settings)]
        for w in RUNS
    }


def plot(found: list[Comparison], file: Path) -> None:
    """Predicted over measured time against the measured time, by method and workload."""
    figure, axes = plt.subplots(1, len(METHODS), figsize=(12, 4.2), sharey=True, layout="constrained")
    base = found[0].setting
    for axis, method in zip(axes, METHODS, strict=True):
        axis.axhspan(0.85, 1.15, color="#EEEEEE")
        axis.axhspan(0.95, 1.05, color="#DDDDDD")
        for k, workload in enumerate(RUNS):
            of = [c for c in found if c.method == method and c.workload == workload and c.setting != base]
            line = plots.style(k)
            axis.plot([100 * c.messages for c in of], [c.predicted / c.measured for c in of], linestyle="none",
                      label=workload, **line)  # fmt: skip
        axis.set_title(f"weft model {method}")
        axis.set_xlabel("share of the measured time in MPI (%)")
        axis.set_ylim(0.5, 1.5)
    axes[0].set_ylabel("predicted / measured time")
    axes[-1].legend(loc="upper right")
    plots.save(figure, file)


def evaluate(folder: Path, results: Path, document: Path) -> None:
    """Prints the comparison, and writes it as JSON, as a plot and into the documentation."""
    found, chosen = list(predictions(folder)), choices(folder)
    text = page(found, chosen)
    print(text)
    relays = {
        f.parent.relative_to(folder).as_posix(): json.loads(f.read_text()) for f in sorted(folder.rglob("relay.json"))
    }
    told = json.loads((folder / "settings.json").read_text())
    write_json(results, {
        "machine": json.loads((folder / "0" / "poisson-0" / "run.json").read_text())["machine"],
        "overhead_seconds_per_byte": processor_seconds(folder, range(told["rounds"])),
        "environment": ENVIRONMENT, "points": POINTS, "options": RUNS,
        **told, "computation_seconds": computation(folder, len(told["settings"]), range(told["rounds"])),
        "errors": summary(found), "comparisons": [asdict(c) | {"error": c.error} for c in found],
        "choices": [asdict(c) for c in chosen], "relay": relays,
    })  # fmt: skip
    plot(found, results.with_suffix(".png"))
    document.write_text(written_between(document.read_text(), "emulated network", "emulated_network.py", text))


def arguments(about: str, name: str, measuring: str) -> argparse.Namespace:
    """The command line of a program that measures runs and evaluates them: `name` is that of its results."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("measure", help=measuring)
    measure.add_argument("--output", type=Path, default=Path("weft-output") / name, metavar="DIR")
    measure.add_argument("--rounds", type=int, default=3)
    measure.add_argument(
        "--seconds", type=float, default=float("inf"), metavar="S",
        help="stop after so long; the same command goes on with the runs that are missing",
    )  # fmt: skip
    evaluate = commands.add_parser("evaluate", help="predict, compare, write results")
    evaluate.add_argument("folder", type=Path)
    evaluate.add_argument("--results", type=Path, default=ROOT / f"benchmarks/results/{name}.json")
    evaluate.add_argument("--document", type=Path, default=ROOT / "docs/model-experiments.md")
    return parser.parse_args()


def main() -> None:
    """The command line."""
    given = arguments(__doc__ or "", "emulated_network", "make the runs; needs root")
    try:
        if given.command == "measure":
            measure(given.output, SETTINGS, given.rounds, Limit(given.seconds))
        else:
            evaluate(given.folder, given.results, given.document)
    except UnavailableError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
