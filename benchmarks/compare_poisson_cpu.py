#!/usr/bin/env python3
"""weft's CPU Poisson benchmark compared with other codes: alternating rounds in one run, medians, one JSON file.

    benchmarks/compare_poisson_cpu.py --peer "deal.II merged=run_dealii_merged {order} {ranks}" \\
        --orders 3,5,7,9,11,13,15 --ranks 1,2 --rounds 5 --output benchmarks/results/poisson_cpu.json

A peer is NAME=COMMAND, in which {order} and {ranks} are replaced. The last line of its output that is a JSON object
must contain gflops_nekbone_count: Nekbone's count, 12 E (N+1)^4 + 34 E (N+1)^3 per CG iteration, over its time. A
command that fails, or takes longer than --limit, is recorded with its message and left out of the medians.
"""

import argparse
import datetime
import json
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from weft.run.launch import processor_name

ROOT = Path(__file__).resolve().parent.parent


def run(command: str, limit: float) -> dict[str, Any]:
    """The last JSON object `command` prints, or {"error": why there is none}."""
    try:
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"no result after {limit:g} s"}
    except OSError as error:
        return {"error": str(error)}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            result: dict[str, Any] = json.loads(line)
            return result
    return {"error": f"exit code {done.returncode}: {(done.stderr or done.stdout)[-300:]}"}


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", default=f"mpiexec -n {{ranks}} {ROOT / 'build/benchmarks/poisson_cpu'}")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--geometries", default="parallelepiped,trilinear,stored", help="those of weft")
    parser.add_argument("--orders", default="3,5,7,9,11,13,15")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120, help="time limit of a command, in seconds")
    parser.add_argument("--note", default="", help="a remark for the reader of the record")
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    options = parse(argv)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    commands = {
        f"weft {geometry}": f"{options.weft} {{order}} {geometry} double" for geometry in options.geometries.split(",")
    }
    for peer in options.peer:
        name, _, command = peer.partition("=")
        if not command:
            sys.exit(f"--peer {peer}: expected NAME=COMMAND")
        commands[name] = command
    environment = {"OMP_NUM_THREADS": "1"}
    os.environ.update(environment)

    record: dict[str, Any] = {
        "what": "Poisson CG, 100 iterations, GFLOP/s by Nekbone's count",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processor": processor_name(),
        "note": options.note,
        "environment": environment,
        "load_at_start": os.getloadavg()[0],
        "rounds": [],
    }
    for ranks in (int(r) for r in options.ranks.split(",")):
        for order in (int(n) for n in options.orders.split(",")):
            for number in range(options.rounds):
                for name, command in commands.items():
                    result = run(command.format(order=order, ranks=ranks), options.limit)
                    record["rounds"].append(
                        {"code": name, "order": order, "ranks": ranks, "round": number, "result": result}
                    )
            print(line(record, order, ranks, list(commands)), flush=True)
            record["medians"] = medians(record)
            record["load_at_end"] = os.getloadavg()[0]
            options.output.write_text(json.dumps(record, indent=1) + "\n")
    return 0


def values(record: dict[str, Any], name: str, order: int, ranks: int) -> list[float]:
    return [
        r["result"]["gflops_nekbone_count"]
        for r in record["rounds"]
        if (r["code"], r["order"], r["ranks"]) == (name, order, ranks) and "gflops_nekbone_count" in r["result"]
    ]


def medians(record: dict[str, Any]) -> list[dict[str, Any]]:
    keys = dict.fromkeys((r["code"], r["order"], r["ranks"]) for r in record["rounds"])
    table = []
    for name, order, ranks in keys:
        found = values(record, name, order, ranks)
        if found:
            table.append(
                {
                    "code": name,
                    "order": order,
                    "ranks": ranks,
                    "gflops_nekbone_count": round(statistics.median(found), 2),
                    "least": min(found),
                    "most": max(found),
                }
            )
    return table


def line(record: dict[str, Any], order: int, ranks: int, names: list[str]) -> str:
    parts = []
    for name in names:
        found = values(record, name, order, ranks)
        parts.append(f"{name} {statistics.median(found):.1f}" if found else f"{name} failed")
    return f"N={order:<2} ranks={ranks}: " + ", ".join(parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
