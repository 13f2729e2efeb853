"""Times weft's 3-D transforms on one GPU beside cuFFT's own 3-D plans (through CuPy), in alternation.

    python benchmarks/compare_fft_gpu.py --sizes 128,256,512 --output compare_fft_gpu.json

A pair is a transform of real data forward and backward. cuFFT's does not scale the result, weft's does.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cupy.cuda import cufft
from cupyx.scipy.fft import get_fft_plan
from mpi4py import MPI

import weft
from weft.bench.fft import Pair, pair_bytes
from weft.files import write_json
from weft.format import table


class CufftPair:
    """The same pair by two plans of cuFFT, each of all three dimensions."""

    def __init__(self, points: int, dtype: np.dtype[Any]) -> None:
        shape = (points,) * 3
        self.physical = cupy.random.random(shape).astype(dtype) - 0.5
        complex_type = np.result_type(dtype, np.complex64)
        self.spectral = cupy.zeros((points, points, points // 2 + 1), complex_type)
        self.forward = get_fft_plan(self.physical, shape, value_type="R2C")
        self.backward = get_fft_plan(self.spectral, shape, value_type="C2R")
        self.given = self.physical.copy()
        self.run(1)
        worst = float(abs(self.physical / points**3 - self.given).max())
        if not worst < 200 * np.finfo(dtype).eps:
            raise RuntimeError(f"cuFFT loses the field: largest difference {worst:.2g}")

    def run(self, repetitions: int) -> float:
        """Seconds that a pair takes."""
        stream = cupy.cuda.get_current_stream()
        stream.synchronize()
        begin = time.perf_counter()
        for _ in range(repetitions):
            self.forward.fft(self.physical, self.spectral, cufft.CUFFT_FORWARD)
            self.backward.fft(self.spectral, self.physical, cufft.CUFFT_INVERSE)
            stream.synchronize()  # weft's transforms return when they are done
        return (time.perf_counter() - begin) / repetitions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default="128,256,512", help="points per side")
    parser.add_argument("--rounds", type=int, default=7, help="rounds, of which the median counts")
    parser.add_argument("--output", type=Path, default=Path("compare_fft_gpu.json"))
    options = parser.parse_args()
    gpu = weft.device.open("cuda")
    rows = []
    for points in map(int, options.sizes.split(",")):
        for dtype in (np.dtype("f8"), np.dtype("f4")):
            plan = weft.fft.Plan((points,) * 3, MPI.COMM_WORLD, dtype=dtype, device=gpu)
            own, theirs = Pair(plan, MPI.COMM_WORLD, 1), CufftPair(points, dtype)
            own.check()
            repetitions = max(2, round(0.02 / max(own.run(2), 1e-5)))
            times: dict[str, list[float]] = {"weft": [], "cufft": []}
            for _ in range(options.rounds):
                times["weft"].append(own.run(repetitions))
                theirs.physical[...] = theirs.given  # each pair, which is not scaled, multiplies it by points^3
                times["cufft"].append(theirs.run(min(repetitions, 4)))
            seconds = {name: statistics.median(samples) for name, samples in times.items()}
            rows.append({
                "points": points, "precision": {8: "double", 4: "single"}[dtype.itemsize], "seconds": seconds,
                "samples": times, "ratio": seconds["cufft"] / seconds["weft"],
                "weft_bytes_per_second": pair_bytes(points, dtype.itemsize) / seconds["weft"],
            })  # fmt: skip
            del plan, own, theirs
            cupy.get_default_memory_pool().free_all_blocks()
    lines = [("POINTS", "PRECISION", "WEFT (ms)", "CUFFT (ms)", "CUFFT / WEFT")]
    for row in rows:
        milliseconds = (f"{1e3 * row['seconds'][name]:.3f}" for name in ("weft", "cufft"))
        lines.append((f"{row['points']}^3", row["precision"], *milliseconds, f"{row['ratio']:.2f}"))
    print(table(lines))
    write_json(options.output, {"device": gpu.name, "rounds": options.rounds, "rows": rows})


if __name__ == "__main__":
    main()
