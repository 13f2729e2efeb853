"""Predicts runs on three and four emulated nodes from runs on one and two, makes them, and compares.

    python benchmarks/emulated_more_nodes.py --output runs     # needs root; two minutes; runs that are there are kept

A machine is calibrated as `emulated_network.py` does, from a run on one node, a run on two with its trace, and their
ping-pong. `weft model project` then predicts the same work per rank on more nodes. Their ranks share two cores, so the
network has a latency beside which the computation and the turns of the ranks count little.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from emulated_network import BITS, ENVIRONMENT, PINGPONG, ROOT
from emulated_nodes import Nodes, Setting, UnavailableError

from weft.files import write_json
from weft.format import seconds as duration
from weft.model.calibrate import calibrate, run_of
from weft.model.evidence import read

SETTING = Setting(5e-3, 1 * BITS)
POINTS = 20_000  # per rank
WORKLOADS = {
    "poisson": ["--set", "solver.iterations=50"],
    "maxwell": ["--steps", "10", "--set", "output.slice=none"],
}


def measure(folder: Path, workload: str, nodes: Nodes, count: int) -> Path:
    """A run on some of the nodes."""
    output = folder / f"{workload}-{count}"
    words = ["weft", "run", workload, *WORKLOADS[workload], "--set", f"mesh.points={POINTS * count}"]
    words += ["--exchange", "pairwise:direct", "--trace", "--output", str(output)]
    if not (output / "run.json").exists():
        nodes.mpiexec(words, nodes=count, environment=ENVIRONMENT)
    return output


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("weft-output/emulated_more_nodes"), metavar="DIR")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks/results/emulated_more_nodes.json")
    given = parser.parse_args()
    found = []
    try:
        with Nodes(4) as nodes:
            nodes.set(SETTING)
            pings = given.output / "pingpong"
            if not pings.exists():
                words = ["weft", "bench", "pingpong", *PINGPONG, "--output", str(pings)]
                nodes.mpiexec(words, nodes=2, environment=ENVIRONMENT)
            for workload in WORKLOADS:
                runs = {count: measure(given.output, workload, nodes, count) for count in (1, 2, 3, 4)}
                machine = calibrate(read([pings, runs[1], runs[2]]), title="emulated nodes")
                for count in (2, 3, 4):
                    run = run_of(read([runs[count]])[0])
                    predicted = run.on(machine).seconds
                    found.append({"workload": workload, "nodes": count, "measured": run.seconds,
                                  "predicted": predicted, "error": predicted / run.seconds - 1})  # fmt: skip
                    print(f"{workload}, {count} nodes: {duration(run.seconds)}, predicted {duration(predicted)}")
    except UnavailableError as error:
        sys.exit(str(error))
    write_json(given.results, {"latency_seconds": SETTING.latency, "bytes_per_second": SETTING.rate,
                               "points_per_rank": POINTS, "comparisons": found})  # fmt: skip


if __name__ == "__main__":
    main()
