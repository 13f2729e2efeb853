"""Builds the Taylor-Green vortex in a periodic box, with any number of elements and any order, as a case of Nek5000.

    git clone https://github.com/Nek5000/Nek5000 nek5000
    (cd nek5000/tools && ./maketools genbox genmap)
    python benchmarks/nek5000_case.py nek5000 CASE --order 7 --elements 8

The program writes the sizes, mesh, map and flow of the case into the folder CASE and compiles Nek5000 there. This needs
an MPI with Fortran: FC and CC name its compilers (mpif77 and mpicc by default). benchmarks/compare_flow.py writes the
case's parameters and runs what this builds.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

NAME = "tgv"  # of the files of the case

# Nek5000 calls these routines; the vortex is the one of weft's and Neko's cases.
FLOW = """      subroutine uservp(ix,iy,iz,eg)
      integer ix,iy,iz,eg
      end
      subroutine userf(ix,iy,iz,eg)
      include 'SIZE'
      include 'NEKUSE'
      integer eg
      ffx = 0.0
      ffy = 0.0
      ffz = 0.0
      end
      subroutine userq(ix,iy,iz,eg)
      integer ix,iy,iz,eg
      end
      subroutine userbc(ix,iy,iz,iside,eg)
      integer ix,iy,iz,iside,eg
      end
      subroutine useric(ix,iy,iz,eg)
      include 'SIZE'
      include 'NEKUSE'
      integer eg
      ux =  sin(x)*cos(y)*cos(z)
      uy = -cos(x)*sin(y)*cos(z)
      uz = 0.0
      end
      subroutine userchk
      include 'SIZE'
      include 'TOTAL'
      if (istep.ne.nsteps) return
      n = lx1*ly1*lz1*nelv
      e = glsc3(vx,bm1,vx,n) + glsc3(vy,bm1,vy,n) + glsc3(vz,bm1,vz,n)
      volume = glsum(bm1,n)
      if (nid.eq.0) write(6,'(a,1p2e22.14)') 'energy:',time,e/2/volume
      end
      subroutine usrdat
      end
      subroutine usrdat2
      end
      subroutine usrdat3
      end
"""


def replaced(pattern: str, by: str, text: str) -> str:
    text, count = re.subn(pattern, by, text, count=1)
    if count != 1:
        sys.exit(f"SIZE.template of this Nek5000 has no {pattern!r}: its version is not supported")
    return text


def write_case(nek5000: Path, folder: Path, order: int, elements: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    size = (nek5000 / "core" / "SIZE.template").read_text()
    points = order + 1
    for name, value in (("lx1", points), ("lxd", (3 * points + 1) // 2), ("lelg", elements**3)):
        size = replaced(rf"\({name}=\d+\)", f"({name}={value})", size)
    (folder / "SIZE").write_text(size)
    (folder / f"{NAME}.usr").write_text(FLOW)
    counts = f"{-elements} {-elements} {-elements}"  # below 0: equal elements
    sides = ["0.0 6.283185307179586 1.0"] * 3
    lines = ["-3 dimensions, below 0: a binary mesh", "1 field", "Box", counts, *sides, "P  ,P  ,P  ,P  ,P  ,P"]
    (folder / "box.txt").write_text("\n".join(lines) + "\n")
    tools = nek5000.resolve() / "bin"
    subprocess.run([tools / "genbox"], cwd=folder, input="box.txt\n", text=True, check=True)
    (folder / "box.re2").rename(folder / f"{NAME}.re2")
    subprocess.run([tools / "genmap"], cwd=folder, input=f"{NAME}\n0.05\n", text=True, check=True)


def write_parameters(
    folder: Path, order: int, steps: int, dt: float, reynolds: float, tolerance: float, state: Path | None = None
) -> None:
    """`steps` steps of BDF3, with the solvers of Nek5000's examples and projection on earlier pressures.

    They start from the field file `state` if one is given.
    """
    start = []
    if state:
        (folder / state.name).unlink(missing_ok=True)
        (folder / state.name).symlink_to(state)
        start = [f"startFrom = {state.name}"]
    lines = [
        "[GENERAL]", f"polynomialOrder = {order}", "PnPnFormulation = yes", "stopAt = numSteps", f"numSteps = {steps}",
        f"dt = {dt:g}", "timeStepper = bdf3", "variableDt = no", "writeInterval = 0", "dealiasing = yes", *start,
        "[PROBLEMTYPE]", "equation = incompNS",
        "[PRESSURE]", "preconditioner = semg_xxt", f"residualTol = {tolerance:g}", "residualProj = yes",
        "[VELOCITY]", f"residualTol = {tolerance:g}", "residualProj = no", "density = 1", f"viscosity = {-reynolds:g}",
    ]  # fmt: skip
    (folder / f"{NAME}.par").write_text("\n".join(lines) + "\n")


def build(nek5000: Path, folder: Path) -> None:
    names = {
        "NEK_SOURCE_ROOT": str(nek5000.resolve()), "FC": os.environ.get("FC", "mpif77"),
        "CC": os.environ.get("CC", "mpicc"), "FFLAGS": "-O3 -march=native -std=legacy", "CFLAGS": "-O3 -march=native",
    }  # fmt: skip
    subprocess.run([nek5000.resolve() / "bin" / "makenek", NAME], cwd=folder, env={**os.environ, **names}, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nek5000", type=Path, help="folder with Nek5000's source and its tools genbox and genmap")
    parser.add_argument("folder", type=Path, help="folder for the case")
    parser.add_argument("--order", type=int, required=True)
    parser.add_argument("--elements", type=int, required=True, help="elements in each direction")
    arguments = parser.parse_args()
    write_case(arguments.nek5000, arguments.folder, arguments.order, arguments.elements)
    build(arguments.nek5000, arguments.folder)


if __name__ == "__main__":
    main()
