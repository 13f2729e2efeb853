"""Builds a conducting box with any number of elements and any order as a case of NekCEM, from its case tests/3dboxpec.

    git clone https://github.com/NekCEM/NekCEM nekcem
    python benchmarks/nekcem_case.py nekcem cases/n7 --order 7 --elements 8

The program writes the mesh, map, sizes and parameters of the case into the folder and compiles NekCEM there. This needs
`mpifort` and `mpicc` of an MPI with Fortran, BLAS and LAPACK. benchmarks/compare_maxwell.py runs what it builds.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

NAME = "box"  # of the files of the case


def corners(cell: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """Lattice points of an element's corners in the order of a .rea file: around the lower face, then the upper."""
    x, y, z = cell
    return [(x + a, y + b, z + c) for c in (0, 1) for a, b in ((0, 0), (1, 0), (1, 1), (0, 1))]


def mesh_text(count: int) -> str:
    """Elements and boundary conditions of count^3 equal elements of [-1, 1]^3, all walls perfect conductors."""
    cells = [(x, y, z) for z in range(count) for y in range(count) for x in range(count)]
    number = {cell: e for e, cell in enumerate(cells, start=1)}
    if len(cells) > 999:
        sys.exit("NekCEM's .rea files of this form hold up to 999 elements")
    lines = [f"{len(cells):12d}  3{len(cells):12d}           NEL,NDIM,NELV"]
    for e, cell in enumerate(cells, start=1):
        lines.append(f"            ELEMENT{e:12d} [    1a]  GROUP  0")
        points = [[2 * p / count - 1 for p in corner] for corner in corners(cell)]
        for half in (points[:4], points[4:]):
            lines += ["".join(f"{p[d]:15.8f}" for p in half) for d in range(3)]
    lines += ["  ***** CURVED SIDE DATA *****", "            0 Curved sides follow IEDGE,IEL,CURVE(I),I=1,5, CCURVE"]
    lines += ["  ***** BOUNDARY CONDITIONS *****", "  ***** FLUID   BOUNDARY CONDITIONS *****"]
    # Faces 1..6: y-, x+, y+, x-, z-, z+; each meets its opposite.
    steps = [(0, -1, 0), (1, 0, 0), (0, 1, 0), (-1, 0, 0), (0, 0, -1), (0, 0, 1)]
    opposite = [3, 4, 1, 2, 6, 5]
    for e, cell in enumerate(cells, start=1):
        for face, step in enumerate(steps):
            other = number.get((cell[0] + step[0], cell[1] + step[1], cell[2] + step[2]))
            kind, values = ("PEC", (0, 0)) if other is None else ("E  ", (other, opposite[face]))
            lines.append(f" {kind}{e:3d}{face + 1:3d}" + "".join(f"{v:14.5f}" for v in (*values, 0, 0, 0)))
    return "\n".join(lines) + "\n"


def map_text(count: int) -> str:
    """The rank of each element (slabs in z) and the numbers of its corners, x fastest."""
    elements, side = count**3, count + 1
    depth = max(1, (elements - 1).bit_length())
    header = (elements, side**3, depth, 2**depth, 8 * elements, side**3, 0)
    lines = ["".join(f"{v:12d}" for v in header)]  # NekCEM divides by the largest position it finds, plus one
    for e in range(elements):
        x, y, z = e % count, e // count % count, e // count**2
        ids = [1 + x + a + side * (y + b + side * (z + c)) for c in (0, 1) for b in (0, 1) for a in (0, 1)]
        lines.append("".join(f"{v:12d}" for v in ((2**depth - 1) * e // max(1, elements - 1), *ids)))
    return "\n".join(lines) + "\n"


def replaced(pattern: str, by: str, text: str) -> str:
    text, count = re.subn(pattern, by, text, count=1, flags=re.MULTILINE)
    if count != 1:
        sys.exit(f"the case 3dboxpec of this NekCEM has no line {pattern!r}: its version is not supported")
    return text


def write_case(nekcem: Path, folder: Path, order: int, count: int) -> None:
    source = nekcem / "tests" / "3dboxpec"
    folder.mkdir(parents=True, exist_ok=True)
    size = (source / "SIZE").read_text()
    size = replaced(r"\(lxi *= *\d+\)", f"(lxi = {order})", size)
    size = replaced(r"\(lelg *= *\d+\)", f"(lelg= {count**3})", size)
    (folder / "SIZE").write_text(size)
    # Its check of errors assumes its own mesh and steps.
    usr = (source / "3dboxpec.usr").read_text()
    for limits in ("l2tol", "linftol"):
        usr = re.sub(rf"({limits}\(\d\)) = \S+", r"\1 = 1e-2", usr)
    (folder / f"{NAME}.usr").write_text(usr)
    rea = (source / "3dboxpec.rea").read_text()
    head, rest = rea.split("**MESH DATA**", 1)
    tail = rest[rest.index("  ***** NO THERMAL BOUNDARY CONDITIONS") :]
    first, _ = rest.split("\n", 1)
    head = head[: head.rindex("\n") + 1]
    (folder / "template.txt").write_text(head)
    body = f" **MESH DATA**{first}\n{mesh_text(count)}{tail}"
    (folder / "mesh.txt").write_text(body)
    (folder / f"{NAME}.map").write_text(map_text(count))


def write_steps(folder: Path, order: int, steps: int, dt: float) -> None:
    """The case's parameters: `steps` steps of the fourth-order Runge-Kutta scheme with upwind flux, no output."""
    head = (folder / "template.txt").read_text()
    wanted = {11: steps, 12: -dt, 13: steps, 15: 10 * steps, 17: 0, 19: 0, 20: order, 81: 0}
    for number, value in wanted.items():
        head = replaced(rf"^ *\S+( +{number}: )", rf"  {value}\1", head)
    (folder / f"{NAME}.rea").write_text(head + (folder / "mesh.txt").read_text())


def build(nekcem: Path, folder: Path) -> None:
    flags = ["--FC", os.environ.get("FC", "mpifort"), "--CC", os.environ.get("CC", "mpicc")]
    flags += ["--extra-FFLAGS=-march=native -w", "--extra-CFLAGS=-march=native -fcommon -w"]
    command = [sys.executable, nekcem.resolve() / "bin" / "configurenek", "maxwell", NAME, *flags]
    subprocess.run(command, cwd=folder, check=True)
    subprocess.run(["make", "-j1"], cwd=folder, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nekcem", type=Path, help="folder with NekCEM's source")
    parser.add_argument("folder", type=Path, help="folder for the case")
    parser.add_argument("--order", type=int, required=True)
    parser.add_argument("--elements", type=int, required=True, help="elements in each direction")
    arguments = parser.parse_args()
    write_case(arguments.nekcem, arguments.folder, arguments.order, arguments.elements)
    write_steps(arguments.folder, arguments.order, 30, 1e-4)
    build(arguments.nekcem, arguments.folder)


if __name__ == "__main__":
    main()
