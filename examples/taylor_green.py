#!/usr/bin/env python3
"""The Taylor-Green vortex with weft's Python API: computes its breakdown into turbulence and draws a picture of it.

    mpiexec -n 2 python examples/taylor_green.py --output docs/taylor-green.png

The vortex decays in a periodic box of side 2 pi at Re = 1600 (Rogallo's pseudo-spectral method, RK4). The picture shows
the vorticity on the symmetry plane x = 0 at three times, and the dissipation rate. At the default 144^3 in single
precision a run takes minutes on two cores.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display needed; before pyplot

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

import weft
from weft import turbulence_statistics
from weft.mpi import MPI

TIMES = (3.0, 6.0, 9.0)  # times of the drawn planes; the dissipation peaks near t = 9


def vorticity_on_plane(solver: weft.turbulence.Solver) -> npt.NDArray[np.float64]:
    """|curl u| on the plane x = 0, [z][y] of the whole box. (collective)

    A plane x = const of a field is the sum of its modes over kx; modes with kx > 0 stand for their conjugates too.
    """
    kx, ky, kz = solver.wavenumbers()
    u, v, w = np.asarray(solver.velocity_modes())
    curl = (ky * w - kz * v, kz * u - kx * w, kx * v - ky * u)
    twice = np.where(kx > 0, 2.0, 1.0)
    nz, ny = solver.sizes[2], solver.sizes[1]
    first, count = solver.modes
    square = np.zeros((nz, ny))
    for component in curl:
        plane = np.zeros((nz, ny), complex)
        plane[first[2] : first[2] + count[2], first[1] : first[1] + count[1]] = (1j * component * twice).sum(axis=2)
        solver.comm.Allreduce(MPI.IN_PLACE, plane)
        square += np.fft.ifft2(plane, norm="forward").real ** 2
    return np.sqrt(square)


def run(grid: int) -> tuple[list[npt.NDArray[np.float64]], npt.NDArray[np.float64]]:
    """The planes at TIMES, and rows of (time, dissipation) up to t = 10. (collective)"""
    solver = weft.turbulence.Solver(grid, viscosity=1 / 1600, scheme="rk4", courant=0.9, precision="single")
    solver.set_taylor_green()
    planes, history = [], []
    while solver.time < 10:
        if solver.steps % 5 == 0:
            history.append((solver.time, turbulence_statistics.spectra(solver).scales().dissipation))
        if len(planes) < len(TIMES) and solver.time >= TIMES[len(planes)]:
            planes.append(vorticity_on_plane(solver))
        solver.step()
    return planes, np.array(history)


def draw(planes: list[npt.NDArray[np.float64]], history: npt.NDArray[np.float64], path: Path) -> None:
    """Three planes in one colour scale, and the dissipation rate."""
    figure, axes = plt.subplots(1, 4, figsize=(12, 2.9), width_ratios=[1, 1, 1, 1.35], layout="constrained", dpi=120)
    brightest = np.percentile(planes[-1], 99.5)
    for axis, plane, time in zip(axes, planes, TIMES, strict=False):
        half = plane[: plane.shape[0] // 2 + 1, : plane.shape[1] // 2 + 1]  # the rest is its mirror image
        axis.imshow(half, origin="lower", cmap="magma", vmin=0, vmax=brightest, interpolation="bicubic")
        axis.set(title=f"vorticity, t = {time:g}", xticks=[], yticks=[])
    axes[3].plot(history[:, 0], history[:, 1], color="#0072B2")
    axes[3].set(title="dissipation rate", xlabel="time", xlim=(0, 10), ylim=(0, None))
    axes[3].grid(color="#DDDDDD")
    axes[3].spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=144, help="points per side: 2^a 3^b 5^c 7^d")
    parser.add_argument("--output", type=Path, default=Path("taylor-green.png"), help="the picture's file")
    options = parser.parse_args()
    planes, history = run(options.grid)
    if MPI.COMM_WORLD.rank == 0:
        draw(planes, history, options.output)


if __name__ == "__main__":
    main()
