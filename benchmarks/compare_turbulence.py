#!/usr/bin/env python3
"""A step of weft's turbulence solver compared with FluidSim, GHOST and spectralDNS: alternating rounds, one JSON file.

    python benchmarks/compare_turbulence.py --fluidsim-python ~/fluidsim-venv/bin/python \\
        --fluidsim-fft fft3d.with_fftw3d --output benchmarks/results/turbulence.json

All codes run on the same number of points, and all but spectralDNS take second-order Runge-Kutta steps. FluidSim runs
in double precision with truncation at 2/3, and with random phase shifts (its RK2_phaseshift_random), both with its own
FFT plug-ins; GHOST runs in one or both precisions; spectralDNS runs in double precision. weft runs with the same
truncation and precision; without a peer it runs alone, in double precision. Each round starts every code anew on each
number of ranks, in turn, and takes its median step after warm-up. Before a run on several ranks, the record states how
long a cache line takes from one processor to the other and back (`core_to_core.c`, which needs gcc). A code that fails,
or takes longer than --limit, is recorded with its message. --append adds rounds to those that the file has already.

FluidSim: pip install fluidsim mpi4py fluidfft-fftw fluidfft-fftwmpi, with your own FFTW on PKG_CONFIG_PATH, CPATH and
LIBRARY_PATH; then pass --fluidsim-fft fft3d.with_fftw3d. (The default here, pyFFTW, needs only pip and is slower.)

GHOST (https://github.com/pmininni/GHOST): one binary per grid, built by its makefile with the Taylor-Green vortex
(examples/initialv.f90_tg) as initialv.f90:

    make NX=128 NY=128 NZ=128 SOLVER=HD ORD=2 PRECISION=DOUBLE FFTP=fftp-3 FFTW3DIR=... COMPILER=GNU FC_GNU=mpifort \\
        FFLAGS_GNU='-O3 -funroll-loops -march=native' TARGET_GNU= MPI=MPICH MPIINC_MPICH= MPILIB_MPICH= MPILD_MPICH=

then pass --ghost 'ghost/HD-{grid}-{precision}' and --ghost-precisions. In main3D.fpp, FFTW_ESTIMATE is best replaced by
FFTW_MEASURE. Its time is what its benchmark mode prints: the mean of three times as many steps.

spectralDNS (https://github.com/spectralDNS/spectralDNS): its C++ program, which uses FFTW-MPI with measured plans and
needs an MPI library with C++ bindings:

    mpicxx -std=c++11 -O3 -march=native -ffast-math cpp/spectralDNS.cpp -o spectraldns -lfftw3_mpi -lfftw3

then pass --spectraldns spectraldns. It takes classical Runge-Kutta steps of four evaluations of the right-hand side, so
the record states half of a step: the time of two evaluations, as in an RK2 step. The program prints its fastest step
of ten, which is what is taken. Its grids are powers of two.
"""

import argparse
import datetime
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from threads_and_ranks import core_to_core

from weft.run.launch import mpiexec, processor_name

WEFT = """
import json, statistics, sys, time
import weft
from mpi4py import MPI
n, steps, dealiasing, precision = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
solver = weft.turbulence.Solver(n, viscosity=1 / 1600, dt=0.1 / n, dealiasing=dealiasing, precision=precision)
solver.set_taylor_green()
solver.step(2)
seconds = []
for _ in range(steps):
    begin = time.perf_counter()
    solver.step(1)
    seconds.append(MPI.COMM_WORLD.allreduce(time.perf_counter() - begin, MPI.MAX))
if MPI.COMM_WORLD.rank == 0:
    print(json.dumps({"step_seconds": statistics.median(seconds), "best": min(seconds)}))
"""

FLUIDSIM = """
import json, math, statistics, sys, time
n, steps, scheme, fft = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
from fluidsim.solvers.ns3d.solver import Simul
p = Simul.create_default_params()
p.output.HAS_TO_SAVE = False
p.oper.nx = p.oper.ny = p.oper.nz = n
p.oper.Lx = p.oper.Ly = p.oper.Lz = 2 * math.pi
phases = "phaseshift" in scheme
p.oper.truncation_shape = "spherical" if phases else "cubic"
p.oper.coef_dealiasing = 2 * math.sqrt(2) / 3 if phases else 2 / 3
p.oper.type_fft = fft
p.nu_2 = 1 / 1600
p.time_stepping.USE_CFL = False
p.time_stepping.deltat0 = 0.1 / n
p.time_stepping.type_time_scheme = scheme
p.time_stepping.USE_T_END = False
p.time_stepping.it_end = 10**9
p.init_fields.type = "noise"
p.init_fields.noise.velo_max = 1.0
sim = Simul(p)
step = sim.time_stepping.one_time_step_computation
step()
step()
seconds = []
for _ in range(steps):
    begin = time.perf_counter()
    step()
    seconds.append(time.perf_counter() - begin)
from fluiddyn.util import mpi
if mpi.rank == 0:
    print(json.dumps({"step_seconds": statistics.median(seconds), "best": min(seconds), "fft": sim.oper.type_fft}))
"""

GHOST = """
import json, re, subprocess, sys, tempfile
binary, steps, launcher = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
parameters = {
    "status": {"idir": "'.'", "odir": "'.'", "stat": 0, "mult": 1, "bench": 1, "outs": 0, "mean": 0, "trans": 0,
               "iswap": 0},
    "parameter": {"dt": 1e-3, "step": 3 * steps, "tstep": 10**6, "sstep": 10**6, "cstep": 10**6, "rand": 0,
                  "cort": 1.0, "seed": 1000},
    "velocity": {"f0": 0.0, "u0": 1.0, "kdn": 1.0, "kup": 1.0, "nu": 1 / 1600},
}
with tempfile.TemporaryDirectory() as folder:
    with open(folder + "/parameter.inp", "w") as file:
        for group, values in parameters.items():
            print(f"&{group}", *(f"{key} = {value}" for key, value in values.items()), "/", sep="\\n", file=file)
    done = subprocess.run([*launcher, binary], cwd=folder, capture_output=True, text=True)
found = re.search(r"wtime= *(\\S+)", done.stdout)
if found is None:
    sys.exit(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
print(json.dumps({"step_seconds": float(found[1])}))
"""

SPECTRALDNS = """
import json, math, re, subprocess, sys
binary, grid, launcher = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
done = subprocess.run([*launcher, binary, str(round(math.log2(grid)))], capture_output=True, text=True)
found = re.search(r"Slowest = *([^,]+),", done.stdout)  # on the slowest rank: its fastest step, its slowest
if found is None:
    sys.exit(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
print(json.dumps({"step_seconds": float(found[1]) / 2}))
"""


def run(command: list[str], limit: float, **environment: str) -> dict[str, Any]:
    """The last JSON object `command` prints, or {"error": why there is none}."""
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, **environment},
        )  # fmt: skip
    except OSError as error:
        return {"error": str(error)}
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"error": f"no result after {limit:g} s"}
    for line in reversed(out.splitlines()):
        if line.startswith("{"):
            return dict(json.loads(line))
    return {"error": f"exit code {process.returncode}: {(err or out).strip()[-300:]}"}


def launched(launcher: str, ranks: int, command: list[str]) -> list[str]:
    return [launcher, "-n", str(ranks), *command] if ranks > 1 else command


def commands(options: argparse.Namespace, grid: int, ranks: int, steps: int) -> dict[str, list[str]]:
    """The command line of every code by its name; the peers follow weft with their truncation and precision."""

    def weft(dealiasing: str, precision: str) -> list[str]:
        words = [sys.executable, "-c", WEFT, str(grid), str(steps), dealiasing, precision]
        return launched(mpiexec(), ranks, words)

    def fluidsim(scheme: str) -> list[str]:
        fft = options.fluidsim_fft if ranks == 1 else options.fluidsim_fft_parallel
        words = [options.fluidsim_python, "-c", FLUIDSIM, str(grid), str(steps), scheme, fft]
        return launched(options.fluidsim_mpiexec or mpiexec(), ranks, words)

    def with_binary(program: str, binary: str, argument: int, own_mpiexec: str | None) -> list[str]:
        launcher = launched(own_mpiexec or mpiexec(), ranks, [])
        return [sys.executable, "-c", program, str(Path(binary).absolute()), str(argument), *launcher]

    def ghost(precision: str) -> list[str]:
        binary = options.ghost.format(grid=grid, precision=precision)
        return with_binary(GHOST, binary, steps, options.ghost_mpiexec)

    alone = not (options.fluidsim_python or options.ghost or options.spectraldns)
    ghost_precisions = options.ghost_precisions.split(",") if options.ghost else []
    found = {}
    if alone or options.fluidsim_python or options.spectraldns or "double" in ghost_precisions:
        found["weft two-thirds f64"] = weft("two-thirds", "double")
    if options.fluidsim_python:
        found["FluidSim two-thirds f64"] = fluidsim("RK2")
    if options.spectraldns:
        found["spectralDNS two-thirds f64"] = with_binary(
            SPECTRALDNS, options.spectraldns, grid, options.spectraldns_mpiexec
        )
    if "double" in ghost_precisions:
        found["GHOST two-thirds f64"] = ghost("double")
    if alone or options.fluidsim_python:
        found["weft phase shifts f64"] = weft("phase-shift", "double")
    if options.fluidsim_python:
        found["FluidSim phase shifts f64"] = fluidsim("RK2_phaseshift_random")
    if "single" in ghost_precisions:
        found["weft two-thirds f32"] = weft("two-thirds", "single")
        found["GHOST two-thirds f32"] = ghost("single")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fluidsim-python", help="Python of the environment that contains FluidSim")
    parser.add_argument("--fluidsim-fft", default="fft3d.with_pyfftw", help="FluidSim's FFT class on one rank")
    parser.add_argument("--fluidsim-fft-parallel", default="fft3d.mpi_with_fftwmpi3d", help="on several ranks")
    parser.add_argument("--fluidsim-mpiexec", help="launcher of the MPI that its mpi4py uses [default: weft's]")
    parser.add_argument(
        "--ghost", metavar="BINARY", help="GHOST's binary; {grid} and {precision} are replaced, as each has its own"
    )
    parser.add_argument("--ghost-precisions", default="single", help="double, single or both, with a comma")
    parser.add_argument("--ghost-mpiexec", help="launcher of the MPI that GHOST was built with [default: weft's]")
    parser.add_argument("--spectraldns", metavar="BINARY", help="the C++ program of spectralDNS")
    parser.add_argument("--spectraldns-mpiexec", help="launcher of the MPI that it was built with [default: weft's]")
    parser.add_argument("--grids", default="128,256")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--rounds", default="3,2", help="number of rounds, by grid")
    parser.add_argument("--steps", default="6,3", help="steps per round, by grid")
    parser.add_argument("--limit", type=float, default=120, help="time limit of a command, in seconds")
    parser.add_argument("--builds", default="", help="versions and flags of the peers, for the record")
    parser.add_argument("--append", action="store_true", help="add rounds to those that the output has already")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    grids = [int(n) for n in options.grids.split(",")]
    rounds, steps = ([int(n) for n in text.split(",")] for text in (options.rounds, options.steps))
    os.environ["OMP_NUM_THREADS"] = "1"
    options.output.parent.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {
        "what": "seconds of an RK2 step of incompressible turbulence: medians of rounds that take turns",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processor": processor_name(),
        "load_at_start": os.getloadavg()[0],
        "rounds": [],
    }
    if options.append and options.output.exists():
        record = json.loads(options.output.read_text())
    if options.builds:
        record["builds"] = options.builds
    with tempfile.TemporaryDirectory() as folder:
        round_trip = core_to_core(Path(folder))
    for index, grid in enumerate(grids):
        all_ranks = [int(r) for r in options.ranks.split(",")]
        chosen = {ranks: commands(options, grid, ranks, steps[min(index, len(steps) - 1)]) for ranks in all_ranks}
        first = 1 + max((r["round"] for r in record["rounds"] if r["grid"] == grid), default=-1)
        for number in range(first, first + rounds[min(index, len(rounds) - 1)]):
            for ranks, codes in chosen.items():
                for name, words in codes.items():
                    entry: dict[str, Any] = {"code": name, "grid": grid, "ranks": ranks, "round": number}
                    if ranks > 1:
                        entry["round_trip"] = round_trip()
                    entry["result"] = run(words, options.limit)
                    record["rounds"].append(entry)
            record["medians"] = medians(record["rounds"])
            record["load_at_end"] = os.getloadavg()[0]
            options.output.write_text(json.dumps(record, indent=1) + "\n")
        for ranks in all_ranks:
            print(line(record["medians"], record["rounds"], grid, ranks), flush=True)
    return 0


def medians(rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The medians for every code, grid and number of ranks."""
    table = []
    for code, grid, ranks in dict.fromkeys((r["code"], r["grid"], r["ranks"]) for r in rounds):
        found = [
            r["result"]["step_seconds"]
            for r in rounds
            if (r["code"], r["grid"], r["ranks"]) == (code, grid, ranks) and "step_seconds" in r["result"]
        ]
        if found:
            table.append(
                {"code": code, "grid": grid, "ranks": ranks, "step_seconds": statistics.median(found),
                 "least": min(found), "most": max(found)}
            )  # fmt: skip
    return table


def line(table: list[dict[str, Any]], rounds: list[dict[str, Any]], grid: int, ranks: int) -> str:
    """Times, and the ratio to weft of each code that ran in the same rounds."""
    seconds = {m["code"]: m["step_seconds"] for m in table if (m["grid"], m["ranks"]) == (grid, ranks)}
    words = []
    for code in dict.fromkeys(r["code"] for r in rounds if (r["grid"], r["ranks"]) == (grid, ranks)):
        if code not in seconds:
            words.append(f"{code} failed")
            continue
        ours = seconds.get("weft " + code.partition(" ")[2])
        ratio = f" ({seconds[code] / ours:.1f} x weft's)" if ours and not code.startswith("weft") else ""
        words.append(f"{code} {1e3 * seconds[code]:.0f} ms{ratio}")
    return f"{grid}^3 on {ranks}: " + ", ".join(words)


if __name__ == "__main__":
    sys.exit(main())
