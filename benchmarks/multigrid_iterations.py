#!/usr/bin/env python3
"""Iterations of weft's multigrid to |r| <= 1e-8 |r_0| by mesh, order and smoother: the table in docs/multigrid.md.

    python benchmarks/multigrid_iterations.py --output benchmarks/results/multigrid_iterations.json
    python benchmarks/multigrid_iterations.py --table benchmarks/results/multigrid_iterations.json

The problem is the Laplacian with Dirichlet boundaries and a rough right-hand side, on boxes, boxes in Kershaw's
deformation and, if --hemi gives its file, the mesh of a flow past a hemisphere. Iterations do not depend on the
machine, and hardly on the number of ranks. Seconds are those of the iterations, on one rank. Cases with more than
--points points are left out.
"""

import argparse
import datetime
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.run.launch import processor_name

TOLERANCE = 1e-8


def meshes(hemi: Path | None) -> dict[str, Callable[[], Any]]:
    import weft

    made: dict[str, Callable[[], Any]] = {}
    for n in (4, 8, 12, 16):
        made[f"box {n}^3"] = lambda n=n: weft.Mesh.box((n, n, n))
    for epsilon in (1.0, 0.3):
        for n in (6, 12):
            made[f"kershaw {epsilon:g}, {n}^3"] = lambda n=n, epsilon=epsilon: weft.Mesh.box(
                (n, n, n), deformation="kershaw", deformation_parameter=epsilon
            )
    if hemi is not None:
        made[hemi.name] = lambda: weft.Mesh.read(str(hemi))
    return made


def table(record: dict[str, Any], seconds: bool) -> str:
    """Markdown with a row per mesh and smoother and a column per order: iterations, with --seconds also ms."""
    rows = record["solves"]
    orders = sorted({row["order"] for row in rows})
    lines = [
        "| mesh | smoother | " + " | ".join(f"N = {n}" for n in orders) + " |",
        "|---|---|" + "---|" * len(orders),
    ]
    for mesh, smoother in dict.fromkeys((row["mesh"], row["smoother"]) for row in rows):
        cells = []
        for order in orders:
            found = [r for r in rows if (r["mesh"], r["smoother"], r["order"]) == (mesh, smoother, order)]
            took = f" ({1e3 * found[0]['seconds']:.0f} ms)" if found and seconds else ""
            cells.append(f"{found[0]['iterations']}{took}" if found else "")
        lines.append(f"| {mesh} | {smoother} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", default="3,5,7,9,11")
    parser.add_argument("--smoothers", default="chebyshev-jacobi:3,schwarz:1,chebyshev-schwarz:3")
    parser.add_argument("--hemi", type=Path)
    parser.add_argument("--meshes", default="", help="run only meshes whose names contain this")
    parser.add_argument("--points", type=float, default=1.6e6, help="largest number of points of a case")
    parser.add_argument("--output", type=Path)
    parser.add_argument(
        "--seconds", action="store_true", help="also print times in the table; meant for a quiet machine"
    )
    parser.add_argument("--table", type=Path, help="print the table of an existing record, and run nothing")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    options = parse(argv)
    if options.table is not None:
        print(table(json.loads(options.table.read_text()), options.seconds))
        return 0
    if options.output is None:
        sys.exit("--output FILE is missing: it names the JSON file")
    os.environ["OMP_NUM_THREADS"] = "1"
    import weft

    record: dict[str, Any] = {
        "what": f"multigrid to |r| <= {TOLERANCE:g} |r_0|, lambda = 0, Dirichlet, one rank",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processor": processor_name(),
        "load_at_start": os.getloadavg()[0],
        "solves": [],
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for name, make in meshes(options.hemi).items():
        if options.meshes not in name:
            continue
        mesh = make()
        for order in (int(n) for n in options.orders.split(",")):
            if mesh.global_elements * (order + 1) ** 3 > options.points:
                continue
            op = weft.Poisson(mesh, order=order, lam=0.0, dirichlet=True)
            b = op.random_rhs(1)
            for choice in options.smoothers.split(","):
                smoother, _, degree = choice.partition(":")
                how = {"smoother": smoother, "degree": int(degree), "tolerance": TOLERANCE}
                op.multigrid(b, max_iterations=1, **how)
                result = op.multigrid(b, **how)
                row = {
                    "mesh": name,
                    "order": order,
                    "smoother": f"{smoother}, degree {degree}",
                    "iterations": result.iterations,
                    "converged": result.converged,
                    "seconds": result.seconds,
                }
                record["solves"].append(row)
                print(row, flush=True)
                options.output.write_text(json.dumps(record, indent=1) + "\n")
    print(table(record, options.seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
