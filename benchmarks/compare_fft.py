"""weft's 3-D real transform compared with other libraries: a pair R-C + C-R of one field, in alternating rounds.

    python benchmarks/compare_fft.py --fftw PREFIX [--heffte PREFIX] [--decomp2d FOLDER] --output results.json

The contestants are `weft.fft.Plan` (process grid and exchange as its tuner chooses); FFTW-MPI on slabs with transposed
output (FFTW_MEASURE), and on one rank also FFTW's own 3-D plan; heFFTe on FFTW; 2DECOMP&FFT on FFTW; and mpi4py-fft if
Python finds it. PREFIX is the install prefix of each library, with FFTW in both precisions and with MPI. FOLDER
contains 2DECOMP&FFT's build folders `b_double` and `b_single`, whose compiler is `--mpifort`. Each contestant is a
program of its own, written here from its documentation (compare_fft/), which sleeps while it is not its turn. Every
contestant first transforms a field forward and back; `error` is the largest difference. A round takes `--seconds` per
contestant. The figures are medians over `--rounds` rounds of the time of the slowest rank. A ratio is the other
library's median over weft's: weft is faster where it is above 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "benchmarks" / "compare_fft"


class Contestant:
    """A program under mpiexec that waits for its turns, with one pipe per rank."""

    def __init__(self, name: str, ranks: int, command: list[object], folder: Path, launcher: str = "mpiexec"):
        self.name, self.rounds = name, []
        prefix = folder / name.replace(" ", "_").replace("&", "")
        paths = [Path(f"{prefix}.{rank}") for rank in range(ranks)]
        for path in paths:
            path.unlink(missing_ok=True)
            os.mkfifo(path)
        # Opened for reading too, so that opening does not block.
        self.pipes = [os.open(path, os.O_RDWR) for path in paths]
        words = [str(prefix) if word is PIPES else str(word) for word in command]
        self.log = Path(f"{prefix}.log")
        python = os.pathsep.join(
            str(Path(p).resolve()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p
        )
        self.process = subprocess.Popen(
            [shutil.which(launcher) or launcher, "-n", str(ranks), *words],
            cwd=folder,  # some write files
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": python},
            stdout=subprocess.PIPE,
            stderr=self.log.open("w"),
            text=True,
        )
        self.facts = self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        self.process.wait()
        sys.exit(f"{self.name} ended with code {self.process.returncode}:\n{self.log.read_text()}")

    def turn(self, pairs: int) -> float:
        for pipe in self.pipes:
            os.write(pipe, f"{pairs}\n".encode())
        return self.answer()["seconds"] if pairs else 0.0

    def end(self) -> None:
        self.turn(0)
        self.process.wait(60)
        for pipe in self.pipes:
            os.close(pipe)


PIPES = object()  # stands for the prefix of the pipes in a program's command


def worker(which: str, prefix: str, points: int, precision: str) -> None:
    """weft or mpi4py-fft, on every rank."""
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    dtype = np.dtype("f8" if precision == "double" else "f4")
    shape = (points,) * 3
    pipe = os.fdopen(os.open(f"{prefix}.{comm.rank}", os.O_RDONLY))
    begin = time.perf_counter()
    if which == "weft":
        import weft.fft

        plan = weft.fft.Plan(shape, comm, dtype=dtype)
        physical, spectral = np.zeros(plan.physical_shape, dtype), np.zeros(plan.spectral_shape, plan.spectral_dtype)
        facts = {**{k: v for k, v in plan.tuning.items() if k != "timings"}, "library": weft.fft.library()["name"]}
        facts["version"] = weft.__version__

        def pair() -> None:
            plan.forward(physical, spectral)
            plan.backward(spectral, physical, overwrite=True)  # FFTW may overwrite its input too
    else:
        import mpi4py_fft

        fft = mpi4py_fft.PFFT(comm, shape, axes=(0, 1, 2), dtype=dtype, grid=(-1,))
        physical, spectral = mpi4py_fft.newDistArray(fft, False), mpi4py_fft.newDistArray(fft, True)
        facts = {"version": mpi4py_fft.__version__}

        def pair() -> None:
            fft.forward(physical, spectral)
            fft.backward(spectral, physical)

    facts["setup_seconds"] = comm.allreduce(time.perf_counter() - begin, MPI.MAX)
    before = np.random.default_rng(comm.rank).random(physical.shape) - 0.5
    physical[...] = before
    pair()
    facts["error"] = comm.allreduce(float(np.abs(physical - before).max(initial=0)), MPI.MAX)
    if comm.rank == 0:
        print(json.dumps(facts), flush=True)
    while pairs := int(pipe.readline() or 0):
        comm.Barrier()
        start = MPI.Wtime()
        for _ in range(pairs):
            pair()
        seconds = comm.allreduce((MPI.Wtime() - start) / pairs, MPI.MAX)
        if comm.rank == 0:
            print(json.dumps({"seconds": seconds}), flush=True)


def build(arguments: argparse.Namespace, folder: Path) -> dict[tuple[str, str], Path]:
    """The other libraries' programs, by name and precision."""
    programs = {}
    for precision in arguments.precisions:
        single = ["-DSINGLE"] if precision == "single" else []
        f = "f" if single else ""
        if arguments.fftw:
            libs = [f"-L{arguments.fftw}/lib", f"-Wl,-rpath,{arguments.fftw}/lib"]
            program = folder / f"fftw_{precision}"
            flags = ["-O2", "-march=native", f"-I{arguments.fftw}/include", *single]
            link = [*libs, f"-lfftw3{f}_mpi", f"-lfftw3{f}", "-lm"]
            subprocess.run(["mpicc", *flags, HERE / "fftw.c", "-o", program, *link], check=True)
            programs["fftw", precision] = program
        if arguments.heffte:
            libs = [f"-L{p}/{lib}" for p in (arguments.heffte, arguments.fftw) for lib in ("lib", "lib64")]
            libs += [f"-Wl,-rpath,{arguments.heffte}/lib", f"-Wl,-rpath,{arguments.fftw}/lib"]
            program = folder / f"heffte_{precision}"
            flags = [
                "-O2",
                "-march=native",
                "-std=c++17",
                f"-I{arguments.heffte}/include",
                f"-I{arguments.fftw}/include",
                *single,
            ]
            link = [*libs, "-lheffte", "-lfftw3", "-lfftw3f"]
            subprocess.run(["mpicxx", *flags, HERE / "heffte.cpp", "-o", program, *link], check=True)
            programs["heffte", precision] = program
        if arguments.decomp2d:
            program, built = folder / f"decomp2d_{precision}", arguments.decomp2d / f"b_{precision}"
            flags = ["-O2", "-cpp", f"-I{built}/include", f"-J{folder}", *([] if single else ["-DDOUBLE_PREC"])]
            libs = [f"-L{built}/lib", f"-L{arguments.fftw}/lib", f"-Wl,-rpath,{arguments.fftw}/lib"]
            link = [*libs, "-ldecomp2d", "-lfftw3", "-lfftw3f"]
            subprocess.run([arguments.mpifort, *flags, HERE / "decomp2d.f90", "-o", program, *link], check=True)
            programs["decomp2d", precision] = program
    return programs


def contestants(arguments: argparse.Namespace, programs: dict, ranks: int, points: int, precision: str, folder: Path):
    python = [sys.executable, Path(__file__).resolve()]
    yield Contestant("weft", ranks, [*python, "--worker", "weft", PIPES, points, precision], folder)
    if ("fftw", precision) in programs:
        fftw = programs["fftw", precision]
        yield Contestant("FFTW-MPI", ranks, [fftw, PIPES, points, "measure"], folder)
        if ranks == 1:
            yield Contestant("FFTW serial", 1, [fftw, PIPES, points, "serial-measure"], folder)
    if ("heffte", precision) in programs:
        yield Contestant("heFFTe", ranks, [programs["heffte", precision], PIPES, points], folder)
    if ("decomp2d", precision) in programs:
        beside = Path(arguments.mpifort).with_name("mpiexec")
        launcher = str(beside) if beside.exists() else "mpiexec"
        command = [programs["decomp2d", precision], PIPES, points]
        yield Contestant("2DECOMP&FFT", ranks, command, folder, launcher)
    if arguments.mpi4py_fft:
        yield Contestant("mpi4py-fft", ranks, [*python, "--worker", "mpi4py-fft", PIPES, points, precision], folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fftw", type=Path, help="FFTW's install prefix, with both precisions and MPI")
    parser.add_argument("--heffte", type=Path, help="heFFTe's install prefix")
    parser.add_argument("--decomp2d", type=Path, help="folder of 2DECOMP&FFT's build folders b_double and b_single")
    parser.add_argument(
        "--mpifort",
        default="mpifort",
        help="compiler of the MPI that 2DECOMP&FFT was built with; its mpiexec is in the same folder",
    )
    parser.add_argument("--mpi4py-fft", action="store_true", help="also run mpi4py-fft, which Python must find")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 256])
    parser.add_argument("--precisions", nargs="+", default=["double", "single"], choices=["double", "single"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.15, help="seconds per round and contestant")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        which, prefix, points, precision = arguments.worker
        worker(which, prefix, int(points), precision)
        return
    if (arguments.heffte or arguments.decomp2d) and not arguments.fftw:
        parser.error("heFFTe and 2DECOMP&FFT need --fftw too")
    result: dict[str, Any] = {"rounds": arguments.rounds, "seconds_a_round": arguments.seconds, "rows": []}
    slower = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = build(arguments, folder)
        for ranks in arguments.ranks:
            for points in arguments.sizes:
                for precision in arguments.precisions:
                    those = list(contestants(arguments, programs, ranks, points, precision, folder))
                    pairs = {c: max(1, round(arguments.seconds / c.turn(1))) for c in those}
                    for turn in range(arguments.rounds):
                        for c in those[turn % len(those) :] + those[: turn % len(those)]:
                            c.rounds.append(c.turn(pairs[c]))
                    for c in those:
                        c.end()
                    medians = {c.name: statistics.median(c.rounds) for c in those}
                    ratios = {who: m / medians["weft"] for who, m in medians.items() if who != "weft"}
                    row = {
                        "ranks": ranks,
                        "points": points,
                        "precision": precision,
                        "median_seconds": medians,
                        "ratios": ratios,
                        "contestants": {c.name: {**c.facts, "pairs": pairs[c], "rounds": c.rounds} for c in those},
                    }
                    result["rows"].append(row)
                    if ratios and min(ratios.values()) < 1:
                        slower.append(row)
                    print(
                        f"{ranks} rank(s) {points}^3 {precision}: weft {1e3 * medians['weft']:.2f} ms "
                        f"({those[0].facts['process_grid']}); "
                        + ", ".join(f"{who} {1e3 * medians[who]:.2f} ms = {r:.2f}" for who, r in ratios.items()),
                        flush=True,
                    )
    print("weft is the fastest everywhere" if not slower else f"weft is slower at {len(slower)} point(s)")
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
