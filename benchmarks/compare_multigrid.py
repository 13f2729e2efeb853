#!/usr/bin/env python3
"""weft's multigrid and conjugate gradients compared with Nekbone's: alternating rounds, medians, one JSON file.

    benchmarks/compare_multigrid.py --nekbone multigrid=PATH --nekbone plain=PATH --lam 0 \\
        --output benchmarks/results/compare_multigrid.json

The problem is Nekbone's: 8 x 8 x 8 cubes of side 2, S + lambda I, all boundaries Dirichlet, a rough right-hand side
(each code's own), solved from 0 to |r| <= 1e-8 |r_0|. The time is that of the iterations.

You build the Nekbone binaries (https://github.com/Nek5000/Nekbone) yourself with its makenek: with MGRID in PPLIST for
`multigrid` and without it for `plain`; with optimisation (-O3 -march=native); with lx1 = 10 and lelt = 512 in SIZE; and
with three changes. In driver.f, niter = 2000. In cg.f, the commented test of `rtr` becomes a stop where rnorm is at
most 1.e-8 times that of iteration 0. For --lam 0, the constant .1 of `add2s2(w,u,.1,n)` in ax becomes 0.0. Pass
binaries built for the given lambda: with another one the iterations differ.
"""

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from weft.run.launch import processor_name

ELEMENTS = 8  # per direction
TOLERANCE = 1e-8


def weft_here(order: int, lam: float) -> None:
    """The work of one weft process: both solvers, each twice, of which the second counts; rank 0 prints."""
    import weft

    side = 2.0 * ELEMENTS
    mesh = weft.Mesh.box((ELEMENTS,) * 3, upper=(side,) * 3)
    op = weft.Poisson(mesh, order=order, lam=lam, dirichlet=True)
    b = op.random_rhs(1)
    found = {}
    for name, solve in (
        ("multigrid", lambda: op.multigrid(b, tolerance=TOLERANCE)),
        ("jacobi", lambda: op.cg(b, tolerance=TOLERANCE, preconditioner="jacobi")),
    ):
        solve()
        result = solve()
        ratio = result.residuals[-1] / result.residuals[0]
        found[name] = {"iterations": result.iterations, "seconds": result.seconds, "residual": ratio}
    if op.comm.rank == 0:
        print(json.dumps(found))


def run_weft(order: int, ranks: int, lam: float, limit: float) -> dict[str, Any]:
    command = [sys.executable, __file__, "--here", str(order), "--lam", str(lam)]
    done = subprocess.run(
        ["mpiexec", "-n", str(ranks), *command], capture_output=True, text=True, timeout=limit, check=False
    )
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            return {f"weft {name}": result for name, result in json.loads(line).items()}
    raise RuntimeError(f"weft: exit code {done.returncode}: {done.stderr[-400:]}")


def run_nekbone(binary: Path, mpiexec: str, order: int, ranks: int, limit: float) -> dict[str, Any]:
    each = ELEMENTS**3 // ranks
    lines = [
        ".true.",
        f"{each} {each} 1",
        f"{order + 1} {order + 1} 1",
        f"1 1 {ranks}",
        f"{ELEMENTS} {ELEMENTS} {ELEMENTS // ranks}",
    ]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data.rea").write_text("\n".join(lines) + "\n")
        done = subprocess.run(
            [mpiexec, "-n", str(ranks), str(binary)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    steps = re.findall(r"^cg:\s*(\d+)\s+(\S+)", done.stdout, re.MULTILINE)
    seconds = re.search(r"Solve Time =\s*(\S+)", done.stdout)
    if len(steps) < 2 or seconds is None:
        return {"error": f"exit code {done.returncode}: {(done.stderr or done.stdout)[-300:]}"}
    ratio = float(steps[-1][1]) / float(steps[-2][1])
    if not ratio <= 1.1 * TOLERANCE:
        return {"error": f"it ended at {ratio:.2e} of the first residual; was it built as --help asks?"}
    return {"iterations": int(steps[-1][0]), "seconds": float(seconds[1]), "residual": ratio}


def medians(record: dict[str, Any]) -> list[dict[str, Any]]:
    table = []
    for key in dict.fromkeys((r["code"], r["order"], r["ranks"]) for r in record["rounds"]):
        found = [r["result"] for r in record["rounds"] if (r["code"], r["order"], r["ranks"]) == key]
        good = [r for r in found if "seconds" in r]
        row: dict[str, Any] = dict(zip(("code", "order", "ranks"), key, strict=True))
        if good:
            seconds = [r["seconds"] for r in good]
            row |= {
                "iterations": round(statistics.median(r["iterations"] for r in good)),
                "seconds": statistics.median(seconds),
                "least": min(seconds),
                "most": max(seconds),
            }
        else:
            row["error"] = found[-1]["error"]
        table.append(row)
    return table


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nekbone", action="append", default=[], metavar="NAME=PATH", help="a Nekbone binary")
    parser.add_argument("--nekbone-mpiexec", default="mpiexec", help="launcher of the MPI that Nekbone was built with")
    parser.add_argument("--lam", type=float, default=0.0)
    parser.add_argument("--orders", default="7,9")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120, help="time limit of a command, in seconds")
    parser.add_argument("--here", type=int, metavar="ORDER", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path)
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    options = parse(argv)
    os.environ["OMP_NUM_THREADS"] = "1"
    if options.here is not None:
        weft_here(options.here, options.lam)
        return 0
    if options.output is None:
        sys.exit("--output FILE is missing: it names the JSON file")
    peers = [(name, Path(path).resolve()) for name, _, path in (peer.partition("=") for peer in options.nekbone)]
    for name, path in peers:
        if not path.is_file():
            sys.exit(f"--nekbone {name}={path}: no such file")
    record: dict[str, Any] = {
        "what": f"S + {options.lam:g} I on {ELEMENTS}^3 cubes, Dirichlet, to |r| <= {TOLERANCE:g} |r_0|",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processor": processor_name(),
        "load_at_start": os.getloadavg()[0],
        "rounds": [],
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for ranks in (int(r) for r in options.ranks.split(",")):
        for order in (int(n) for n in options.orders.split(",")):
            for number in range(options.rounds):
                results = run_weft(order, ranks, options.lam, options.limit)
                for name, path in peers:
                    results[f"Nekbone {name}"] = run_nekbone(path, options.nekbone_mpiexec, order, ranks, options.limit)
                for code, result in results.items():
                    record["rounds"].append(
                        {"code": code, "order": order, "ranks": ranks, "round": number, "result": result}
                    )
            record["medians"] = medians(record)
            record["load_at_end"] = os.getloadavg()[0]
            options.output.write_text(json.dumps(record, indent=1) + "\n")
            for row in record["medians"]:
                if (row["order"], row["ranks"]) == (order, ranks):
                    what = row.get("error") or f"{row['iterations']} iterations, {1e3 * row['seconds']:.1f} ms"
                    print(f"N={order} ranks={ranks} {row['code']}: {what}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
