"""Compares the tuned exchange with every forced one in the same run, on the patterns of a real mesh.

    mpiexec -n 2 python benchmarks/tuned_choice.py --mesh ../shared/data/meshes/pipe.msh --output results.json

Every order and number of fields has its own tuned gather-scatter. Rounds alternate between the tuned one and one forced
to each candidate. The time is that of a whole gather-scatter, the median over rounds of the slowest rank's. Two ratios
to the best forced one are reported. The ratio of the forced one with the chosen schedule and path shows how good the
choice was. The ratio of the tuned one shows how much two objects with the same schedule and path differ by noise alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

import weft
import weft.mpi

COMM = MPI.COMM_WORLD


def measure(ids: np.ndarray, order: int, fields: int, rounds: int, calls: int) -> dict[str, object]:
    tuned = weft.GatherScatter(ids, COMM, fields, check=False)
    tuning = tuned.tuning["gather_scatter"]
    ways = {"tuned": tuned}
    for row in tuning["timings"]:
        if not row["failure"]:
            name = row["exchange"]
            ways[name] = weft.GatherScatter(ids, COMM, fields, exchange=name, check=False)
    x = np.ones((ids.size, fields) if fields > 1 else ids.size)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for turn in range(rounds + 1):
        for k in range(len(names)):
            name = names[(turn + k) % len(names)]
            COMM.Barrier()
            begin = time.perf_counter()
            for _ in range(calls):
                ways[name](x, "max")  # sums would grow without bound
            took = COMM.allreduce(time.perf_counter() - begin, MPI.MAX) / calls
            if turn > 0:
                seconds[name].append(took)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    forced = {name: value for name, value in medians.items() if name != "tuned"}
    best = min(forced, key=forced.__getitem__) if forced else ""
    return {
        "order": order,
        "fields": fields,
        "chosen": tuning["chosen"],
        "best": best,
        "chosen_over_best": forced[tuning["chosen"]] / forced[best] if forced else 1.0,
        "tuned_over_best": medians["tuned"] / forced[best] if forced else 1.0,
        "median_seconds": medians,
        "tuning": tuning,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mesh", type=Path, required=True)
    parser.add_argument("--orders", type=int, nargs="+", default=[1, 3, 7, 9])
    parser.add_argument("--fields", type=int, nargs="+", default=[1, 6])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--calls", type=int, default=5, help="gather-scatters per round")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if COMM.size == 1:
        raise SystemExit("one rank has no exchange to choose: start this program with mpiexec -n 2 or more")
    mesh = weft.Mesh.read(arguments.mesh, comm=COMM)
    rows = []
    for order in arguments.orders:
        ids = np.asarray(mesh.point_ids(order)).ravel()
        for fields in arguments.fields:
            row = measure(ids, order, fields, arguments.rounds, arguments.calls)
            rows.append(row)
            if COMM.rank == 0:
                print(
                    f"N = {order}, {fields} field(s): chosen {row['chosen']}, best {row['best']}, "
                    f"chosen / best {row['chosen_over_best']:.3f}, tuned / best {row['tuned_over_best']:.3f}",
                    flush=True,
                )
    result = {
        "mpi": weft.mpi.library_version(),
        "ranks": COMM.size,
        "processor": weft.device.open("host").name,
        "mesh": mesh.source,
        "rounds": arguments.rounds,
        "calls": arguments.calls,
        "rows": rows,
    }
    if COMM.rank == 0 and arguments.output:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
