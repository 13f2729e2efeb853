#!/usr/bin/env python3
"""A step of weft's flow solver compared with Neko's and Nek5000's: alternating rounds, medians, one JSON file.

    python benchmarks/compare_flow.py --neko NEKO --neko-mesh 512.nmsh --neko-mpiexec MPIEXEC --output results.json
    python benchmarks/compare_flow.py ... --from-time 8 --dt 0.005     # in the turbulent stretch
    python benchmarks/compare_flow.py --nek5000 CASE --output results.json

The case is the Taylor-Green vortex at Re 1600 in a periodic box of side 2 pi, by default with 8 x 8 x 8 elements of
order 7. All codes start from the same flow and take the same steps, with third-order BDF/EXT, over-integrated
convection and the same tolerances in the same norm of the residuals. NEKO is the program that Neko's own `makeneko
examples/tgv/tgv.f90` makes, and the mesh is the one next to it (0 to 8 per side, which that program scales). Neko uses
its default solvers for this case: GMRES with hybrid Schwarz multigrid and projection on 20 earlier solutions for the
pressure, CG with Jacobi for each velocity component. Without peers, weft runs alone.

CASE is the folder that benchmarks/nek5000_case.py makes. Nek5000 uses its default solvers, too: GMRES with Schwarz
multigrid (semg_xxt) and projection on 20 earlier solutions for the pressure, CG with Jacobi for the velocity. Its norm
divides residuals by the mass matrix, so its tolerances are divided by the root of the mean mass of a point.

With --from-time, weft first runs to that time (with steps of Courant number 0.4) and writes velocity and pressure to a
Nek field file, from which all codes start. --state names this file; it is kept, and reused if it exists.

The time of a step is what each code measures itself, on the slowest rank, without set-up and output. The first --skip
steps (lower orders, first use) do not count. In a round one code runs after the other. Times are medians over the steps
of a round, then over the rounds; weft is faster where a ratio is above 1. The energies at the end have to agree.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nek5000_case

from weft.run.launch import mpiexec, processor_name

CIRCLE = 6.283185307179586
POST_EVERY = 50  # steps between the lines in which Neko prints the energy


def run(command: list[str], folder: Path, limit: float) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=limit
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def neko_case(options: argparse.Namespace, mesh: Path, dt: float) -> dict[str, Any]:
    """Neko's input: its own Taylor-Green case with our viscosity, steps and tolerances, without output."""
    initial = {"type": "field", "file_name": options.state.name} if options.state else {"type": "user"}
    return {
        "version": 1.0,
        "case": {
            "mesh_file": str(mesh),
            "output_boundary": False,
            "output_checkpoints": False,
            "output_at_end": False,
            "load_balance": False,
            "job_timelimit": "00:00:00",
            "time": {"end_time": (options.steps - 0.5) * dt, "timestep": dt},
            "numerics": {"time_order": 3, "polynomial_order": options.order, "dealias": True},
            "fluid": {
                "scheme": "pnpn",
                "Re": options.reynolds,
                "initial_condition": initial,
                "velocity_solver": {
                    "type": options.neko_velocity,
                    "preconditioner": {"type": "jacobi"},
                    "projection_space_size": 0,
                    "absolute_tolerance": options.tolerance,
                    "max_iterations": 800,
                },
                "pressure_solver": {
                    "type": "gmres",
                    "preconditioner": {"type": "hsmg"},
                    "projection_space_size": 20,
                    "absolute_tolerance": options.tolerance,
                    "max_iterations": 800,
                },
                "output_control": "never",
            },
            "simulation_components": [
                {
                    "type": "curl",
                    "fields": ["u", "v", "w"],
                    "computed_field": "omega",
                    "compute_control": "tsteps",
                    "compute_value": POST_EVERY,
                }
            ],
        },
    }


def neko(options: argparse.Namespace, ranks: int, dt: float) -> dict[str, Any]:
    """Seconds and iterations of each step, and the energy at the end."""
    with tempfile.TemporaryDirectory(prefix="compare-flow-") as name:
        folder = Path(name)
        (folder / "tgv.case").write_text(json.dumps(neko_case(options, options.neko_mesh.resolve(), dt)))
        if options.state:
            (folder / options.state.name).symlink_to(options.state)
        command = [options.neko_mpiexec, "-n", str(ranks), str(options.neko.resolve()), "tgv.case"]
        text = run(command, folder, options.limit)
    seconds = [float(v) for v in re.findall(r"Fluid step time \(s\): +(\S+)", text)]
    solves = re.findall(r"^ *\d+ +\| +(\S+) +(\d+) +\S+ +\S+ *$", text, flags=re.MULTILINE)
    pressure = [int(count) for field, count in solves if field.lower().startswith("p")]
    velocity = [int(count) for field, count in solves if not field.lower().startswith("p")]
    energies = re.findall(r"POST: t: +(\S+) +Ekin: +(\S+)", text)
    if len(seconds) != options.steps or len(pressure) != options.steps or len(velocity) % options.steps or not energies:
        sys.exit(f"{options.neko}: found {len(seconds)} times, {len(pressure)} solves in its output:\n{text[-3000:]}")
    each = len(velocity) // options.steps
    return {
        "seconds": seconds,
        "pressure_iterations": pressure,
        "velocity_iterations": [max(velocity[k * each : (k + 1) * each]) for k in range(options.steps)],
        "energy": float(energies[-1][1]),
        "energy_time": float(energies[-1][0]),
    }


def nek5000(options: argparse.Namespace, ranks: int, dt: float) -> dict[str, Any]:
    """The same of a case of Nek5000."""
    case = options.nek5000.resolve()
    mass = CIRCLE**3 / (options.elements * options.order) ** 3
    nek5000_case.write_parameters(
        case, options.order, options.steps, dt, options.reynolds, options.tolerance / mass**0.5, options.state
    )
    (case / "SESSION.NAME").write_text(f"{nek5000_case.NAME}\n{case}/\n")
    text = run([options.nek5000_mpiexec, "-n", str(ranks), str(case / "nek5000")], case, options.limit)
    seconds = [float(v) for v in re.findall(r"^Step +\d+, t=.*C= *\S+ +\S+ +(\S+)$", text, flags=re.MULTILINE)]
    pressure = [int(n) for n in re.findall(r"PRES gmres +(\d+)", text)]
    velocity = [int(n) for n in re.findall(r"Hmholtz VEL[XYZ] +(\d+)(?: +\S+){3}$", text, flags=re.MULTILINE)]
    energy = re.search(r"energy: *(\S+) +(\S+)", text)
    if not len(seconds) == len(pressure) == len(velocity) // 3 == options.steps or energy is None:
        sys.exit(f"{case}: found {len(seconds)} times, {len(pressure)} solves in its output:\n{text[-3000:]}")
    return {
        "seconds": seconds,
        "pressure_iterations": pressure,
        "velocity_iterations": [max(velocity[3 * k : 3 * k + 3]) for k in range(options.steps)],
        "energy": float(energy[2]),
        "energy_time": float(energy[1]),
    }


def weft_run(options: argparse.Namespace, ranks: int, folder: str, keys: dict[str, Any]) -> dict[str, Any]:
    """The record of a `weft run flow` of the vortex on the host."""
    keys = {
        "mesh.counts": [options.elements] * 3,
        "mesh.upper": [CIRCLE] * 3,
        "order": options.order,
        "parameters.Re": options.reynolds,
        "solver.pressure_tolerance": options.tolerance,
        "solver.velocity_tolerance": options.tolerance,
        **keys,
    }
    words = [w for key, value in keys.items() for w in ("--set", f"{key}={value}")]
    program = [sys.executable, "-m", "weft.cli.main", "run", "flow", "--case", "taylor-green", "--device", "host"]
    command = [mpiexec(), "-n", str(ranks), *program, "--quiet", "--output", folder, *words]
    run(command, Path.cwd(), options.limit)
    found: dict[str, Any] = json.loads((Path(folder) / "run.json").read_text())
    return found


def weft_to(options: argparse.Namespace) -> None:
    """Writes the flow at --from-time to a field file, on one rank: its elements are in Neko's order, x fastest."""
    if options.state.exists():
        return
    with tempfile.TemporaryDirectory(prefix="compare-flow-") as name:
        keys = {
            "time.dt": 0,
            "time.courant": 0.4,
            "time.end": options.from_time,
            "output.nek": "true",
        }
        weft_run(options, 1, name, keys)
        options.state.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(Path(name) / "flow0.f00001", options.state)


def weft(options: argparse.Namespace, ranks: int, dt: float) -> dict[str, Any]:
    """The same for `weft run flow`."""
    with tempfile.TemporaryDirectory(prefix="compare-flow-") as name:
        keys = {
            "time.dt": dt,
            "time.end": 0,
            "time.steps": options.steps,
            "time.first_step_halvings": 0,  # like Neko
            "statistics.every": POST_EVERY,
            **({"initial.nek": options.state} if options.state else {}),
            **dict(text.split("=", 1) for text in options.set),
        }
        record = weft_run(options, ranks, name, keys)
    steps, last = record["statistics"]["steps"], record["statistics"]["history"][-1]
    kept = [s for s in steps if not s["recorded"]]
    return {
        "first": steps[0]["step"],
        "steps": [s["step"] for s in kept],
        "seconds": [s["seconds"] for s in kept],
        "pressure_iterations": [s["pressure_iterations"] for s in steps],
        "velocity_iterations": [s["velocity_iterations"] for s in steps],
        "energy": last["energy"],
        "energy_time": last["time"],
        "words_per_point": record["figures"]["memory_words_per_point"],
        "exchange_share": record["figures"]["exchange_share"],
        "choices": record["choices"],
    }


def of_round(found: dict[str, Any], skip: int) -> dict[str, Any]:
    """The result of a round: the median step, and the mean iterations of the steps that count."""
    steps = found.get("steps") or range(1, len(found["seconds"]) + 1)
    seconds = [s for step, s in zip(steps, found["seconds"], strict=True) if step > skip]
    return {
        "step_seconds": statistics.median(seconds),
        "pressure_iterations": statistics.mean(found["pressure_iterations"][skip:]),
        "velocity_iterations": statistics.mean(found["velocity_iterations"][skip:]),
        "energy": found["energy"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neko", type=Path, help="the program of Neko's Taylor-Green example")
    parser.add_argument("--neko-mesh", type=Path, help="Neko's mesh with the same number of elements")
    parser.add_argument("--neko-mpiexec", default="mpiexec", help="launcher of the MPI that Neko was built with")
    parser.add_argument(
        "--neko-velocity", default="cg", help="Neko's velocity solver: cg (as in its case) or coupled_cg"
    )
    parser.add_argument("--nek5000", type=Path, help="case of Nek5000 that benchmarks/nek5000_case.py made")
    parser.add_argument("--nek5000-mpiexec", default="mpiexec", help="launcher of the MPI that it was built with")
    parser.add_argument("--elements", type=int, default=8, help="elements per side")
    parser.add_argument("--order", type=int, default=7)
    parser.add_argument("--reynolds", type=float, default=1600.0)
    parser.add_argument("--dt", type=float, nargs="+", default=[0.01])
    parser.add_argument("--from-time", type=float, default=0.0, help="time to which the flow develops first")
    parser.add_argument("--state", type=Path, help="field file of that time, as NAME0.f00001; created if missing")
    parser.add_argument("--steps", type=int, default=POST_EVERY, help=f"steps per run, a multiple of {POST_EVERY}")
    parser.add_argument("--skip", type=int, default=10, help="first steps that do not count")
    parser.add_argument("--tolerance", type=float, default=1e-7)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120, help="time limit of a run, in seconds")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="key of weft's case; repeatable"
    )
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.steps % POST_EVERY or options.skip >= options.steps:
        parser.error(f"--steps: a multiple of {POST_EVERY} (Neko tells its energy that often), above --skip")
    if options.neko and not (options.neko_mesh and options.neko_mesh.exists()):
        parser.error("--neko-mesh: Neko's mesh of this many elements, as examples/tgv/512.nmsh")

    if options.state and not (options.from_time and re.fullmatch(r".+0\.f\d{5}", options.state.name)):
        parser.error("--state: a name as tgv0.f00001, with --from-time")
    with tempfile.TemporaryDirectory(prefix="compare-flow-") as name:
        if options.from_time:
            options.state = (options.state or Path(name) / "state0.f00001").resolve()
            weft_to(options)
        return compare(options)


def compare(options: argparse.Namespace) -> int:
    """Measures all rows, each in alternating rounds; returns 1 if the energies at the end disagree."""
    record: dict[str, Any] = {
        "what": "seconds of a step of the Taylor-Green vortex: medians over steps and rounds that take turns",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processor": processor_name(),
        "load_at_start": os.getloadavg()[0],
        "case": {
            key: getattr(options, key)
            for key in ("elements", "order", "reynolds", "from_time", "steps", "skip", "tolerance")
        },
        "rows": [],
    }
    disagree = False
    for dt in options.dt:
        for ranks in options.ranks:
            peers = [peer for peer in (neko, nek5000) if getattr(options, peer.__name__)]
            rounds: dict[str, list[dict[str, Any]]] = {"weft": [], **{peer.__name__: [] for peer in peers}}
            iterations: dict[str, list[int]] = {}  # pressure iterations of each step; the same in all rounds
            for _ in range(options.rounds):
                for peer in peers:
                    other = peer(options, ranks, dt)
                    rounds[peer.__name__].append(of_round(other, options.skip))
                    iterations[peer.__name__] = other["pressure_iterations"]
                found = weft(options, ranks, dt)
                rounds["weft"].append(of_round(found, options.skip))
                iterations["weft"] = found["pressure_iterations"]
            row = {"dt": dt, "ranks": ranks, "rounds": rounds, **medians(rounds), "pressure_iterations": iterations}
            row |= {key: found[key] for key in ("words_per_point", "exchange_share", "choices")}
            disagree |= any(row[peer.__name__]["energy_difference"] > 1e-6 for peer in peers)
            record["rows"].append(row)
            record["load_at_end"] = os.getloadavg()[0]
            print(line(row), flush=True)
            if options.output:
                options.output.parent.mkdir(parents=True, exist_ok=True)
                options.output.write_text(json.dumps(record, indent=1) + "\n")
    if disagree:
        print(
            "the energies at the end differ by more than 1e-6: the codes did not compute the same flow",
            file=sys.stderr,
        )
    return int(disagree)


def medians(rounds: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The medians of every code over its rounds, and with a peer its time over weft's."""
    found: dict[str, Any] = {}
    for code, runs in rounds.items():
        if runs:
            found[code] = {key: statistics.median(r[key] for r in runs) for key in runs[0]}
    for code in found.keys() - {"weft"}:
        found[code]["ratio"] = found[code]["step_seconds"] / found["weft"]["step_seconds"]
        found[code]["energy_difference"] = abs(found["weft"]["energy"] / found[code]["energy"] - 1)
    return found


def line(row: dict[str, Any]) -> str:
    words = [f"dt {row['dt']:g}, {row['ranks']} rank(s)"]
    for code in ("weft", "neko", "nek5000"):
        if code in row:
            r = row[code]
            words.append(
                f"{code} {1e3 * r['step_seconds']:.1f} ms a step, {r['pressure_iterations']:.1f} pressure and "
                f"{r['velocity_iterations']:.1f} velocity iterations, energy {r['energy']:.9f}"
            )
            if "ratio" in r:
                words.append(f"weft is {r['ratio']:.2f} times as fast, energies differ by {r['energy_difference']:.1e}")
    return "; ".join(words)


if __name__ == "__main__":
    sys.exit(main())
