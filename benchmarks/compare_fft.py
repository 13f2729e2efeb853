"""weft's 3-D real transform compared with other libraries: a pair R-C + C-R of one field, in alternating rounds.

    python benchmarks/compare_fft.py --fftw PREFIX [--heffte PREFIX] [--decomp2d FOLDER] --output results.json

The contestants are `weft.fft.Plan` (process grid and exchange as its tuner chooses); FFTW-MPI on slabs with transposed
output (FFTW_MEASURE), and FFTW's own 3-D plan in one process, with as many threads as the others have ranks; heFFTe on
FFTW; 2DECOMP&FFT on FFTW; and mpi4py-fft if Python finds it. `--serial NAME...` adds the 3-D transforms of libraries
without MPI, in one process with as many threads as the others have ranks: `pyfftw` (FFTW_MEASURE) and `ducc0` if Python
finds them, and `mkl`, the FFTW3 interface of the MKL that weft opens. PREFIX is the install prefix of each library,
with FFTW in both precisions, with MPI and threads. FOLDER contains 2DECOMP&FFT's build folders `b_double` and
`b_single`, whose compiler is `--mpifort`. Each contestant is a program of its own, written here from its documentation
(compare_fft/), and sleeps while another one runs. Every contestant first transforms a field forward and back;
`error` is the largest difference. A round takes `--seconds` per contestant. The figures are medians over `--rounds`
rounds of the time of the slowest rank. A ratio is the other library's median over weft's: weft is faster where it is
above 1.
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

    def __init__(
        self, name: str, ranks: int, command: list[object], folder: Path, launcher: str = "mpiexec", threads: int = 1
    ):
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
            env={**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": python},
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


def worker(which: str, prefix: str, points: int, precision: str, clock: str) -> None:
    """A contestant in Python, on every rank."""
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
        facts: dict[str, Any] = {k: v for k, v in plan.tuning.items() if k != "timings"}
        facts["version"] = weft.__version__

        def pair() -> None:
            plan.forward(physical, spectral)
            plan.backward(spectral, physical, overwrite=True)  # FFTW may overwrite its input too
    elif which in SERIAL:
        physical, spectral = aligned(shape, dtype), aligned((*shape[:2], points // 2 + 1), np.result_type(dtype, 1j))
        facts, forward, backward = SERIAL[which](physical, spectral, int(os.environ["OMP_NUM_THREADS"]))

        def pair() -> None:
            forward()
            backward()
            if scale is not None:
                np.multiply(physical, scale, out=physical)
    else:
        import mpi4py_fft

        fft = mpi4py_fft.PFFT(comm, shape, axes=(0, 1, 2), dtype=dtype, grid=(-1,))
        physical, spectral = mpi4py_fft.newDistArray(fft, False), mpi4py_fft.newDistArray(fft, True)
        facts = {"version": mpi4py_fft.__version__}

        def pair() -> None:
            fft.forward(physical, spectral)
            fft.backward(spectral, physical)

    # Some divide by the number of points in a pass of their own or not at all: once, for the error.
    scale = facts.pop("scale", None)
    facts["setup_seconds"] = comm.allreduce(time.perf_counter() - begin, MPI.MAX)
    before = np.random.default_rng(comm.rank).random(physical.shape) - 0.5
    physical[...] = before
    pair()
    scale = None
    facts["error"] = comm.allreduce(float(np.abs(physical - before).max(initial=0)), MPI.MAX)
    if comm.rank == 0:
        print(json.dumps(facts), flush=True)
    while pairs := int(pipe.readline() or 0):
        if which in SERIAL:
            physical[...] = 0  # no pair divides by the number of points: the values must not overflow
        comm.Barrier()
        now = time.process_time if clock == "processor" else MPI.Wtime
        start = now()
        for _ in range(pairs):
            pair()
        seconds = comm.allreduce((now() - start) / pairs, MPI.MAX)
        if comm.rank == 0:
            print(json.dumps({"seconds": seconds}), flush=True)


def aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros that begin at a multiple of 64 bytes."""
    import numpy as np

    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    first = -memory.ctypes.data % 64
    return memory[first : first + size].view(dtype).reshape(shape)


def with_pyfftw(physical: Any, spectral: Any, threads: int) -> tuple:
    import pyfftw

    flags, axes = ("FFTW_MEASURE", "FFTW_DESTROY_INPUT"), (0, 1, 2)
    forward = pyfftw.FFTW(physical, spectral, axes, "FFTW_FORWARD", flags, threads)
    backward = pyfftw.FFTW(spectral, physical, axes, "FFTW_BACKWARD", flags, threads)
    return {"version": pyfftw.fftw_version, "scale": 1 / physical.size}, forward.execute, backward.execute


def with_ducc0(physical: Any, spectral: Any, threads: int) -> tuple:
    import ducc0

    def backward() -> None:
        ducc0.fft.c2r(
            spectral, out=physical, lastsize=physical.shape[-1], forward=False, nthreads=threads,
            allow_overwriting_input=True,
        )  # fmt: skip

    facts = {"version": ducc0.__version__, "scale": 1 / physical.size}
    return facts, lambda: ducc0.fft.r2c(physical, out=spectral, nthreads=threads), backward


def with_mkl(physical: Any, spectral: Any, threads: int) -> tuple:
    from ctypes import CDLL, c_int, c_uint, c_void_p

    import weft.fft

    found = next((library for library in weft.fft.libraries() if library["name"] == "mkl"), None)
    if found is None:
        sys.exit("weft opened no MKL")
    mkl = CDLL(found["path"])
    mkl.MKL_Set_Threading_Layer(1 if threads == 1 else 3)  # sequential, GNU's OpenMP
    prefix = "fftw" if physical.itemsize == 8 else "fftwf"
    getattr(mkl, f"{prefix}_plan_with_nthreads")(threads)
    calls = []
    for name, (a, b) in {"r2c": (physical, spectral), "c2r": (spectral, physical)}.items():
        plan, execute = getattr(mkl, f"{prefix}_plan_dft_{name}_3d"), getattr(mkl, f"{prefix}_execute")
        plan.restype, plan.argtypes, execute.argtypes = c_void_p, [c_int] * 3 + [c_void_p] * 2 + [c_uint], [c_void_p]
        made = plan(*physical.shape, a.ctypes.data, b.ctypes.data, 1 << 6)
        calls.append(lambda made=made, execute=execute: execute(made))
    return {"version": found["version"], "scale": 1 / physical.size}, *calls


SERIAL = {"pyfftw": with_pyfftw, "ducc0": with_ducc0, "mkl": with_mkl}


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
            link = [*libs, f"-lfftw3{f}_mpi", f"-lfftw3{f}_threads", f"-lfftw3{f}", "-lm", "-lpthread"]
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
    yield Contestant("weft", ranks, [*python, "--worker", "weft", PIPES, points, precision, arguments.clock], folder)
    for which in arguments.serial:
        command = [*python, "--worker", which, PIPES, points, precision, arguments.clock]
        yield Contestant(which, 1, command, folder, threads=ranks)
    if ("fftw", precision) in programs:
        fftw = programs["fftw", precision]
        yield Contestant("FFTW-MPI", ranks, [fftw, PIPES, points, "measure"], folder)
        name = "FFTW serial" if ranks == 1 else "FFTW threads"
        yield Contestant(name, 1, [fftw, PIPES, points, "serial-measure"], folder, threads=ranks)
    if ("heffte", precision) in programs:
        yield Contestant("heFFTe", ranks, [programs["heffte", precision], PIPES, points], folder)
    if ("decomp2d", precision) in programs:
        beside = Path(arguments.mpifort).with_name("mpiexec")
        launcher = str(beside) if beside.exists() else "mpiexec"
        command = [programs["decomp2d", precision], PIPES, points]
        yield Contestant("2DECOMP&FFT", ranks, command, folder, launcher)
    if arguments.mpi4py_fft:
        yield Contestant(
            "mpi4py-fft", ranks, [*python, "--worker", "mpi4py-fft", PIPES, points, precision, arguments.clock], folder
        )


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
    parser.add_argument("--serial", nargs="+", default=[], choices=list(SERIAL), help="libraries without MPI")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 256])
    parser.add_argument("--precisions", nargs="+", default=["double", "single"], choices=["double", "single"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.15, help="seconds per round and contestant")
    parser.add_argument(
        "--clock",
        choices=["wall", "processor"],
        default="wall",
        help="processor: the processor's time, for a machine that does other work; one rank, contestants in Python",
    )
    parser.add_argument("--output", type=Path)
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        which, prefix, points, precision, clock = arguments.worker
        worker(which, prefix, int(points), precision, clock)
        return
    if (arguments.heffte or arguments.decomp2d) and not arguments.fftw:
        parser.error("heFFTe and 2DECOMP&FFT need --fftw too")
    if arguments.clock == "processor" and (arguments.fftw or arguments.ranks != [1]):
        parser.error("--clock processor needs --ranks 1, and no programs in C")
    result: dict[str, Any] = {
        "clock": arguments.clock,
        "rounds": arguments.rounds,
        "seconds_a_round": arguments.seconds,
        "rows": [],
    }
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
                    if arguments.output:
                        arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print("weft is the fastest everywhere" if not slower else f"weft is slower at {len(slower)} point(s)")


if __name__ == "__main__":
    main()
