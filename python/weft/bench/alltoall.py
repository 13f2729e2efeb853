"""`weft bench alltoall`: GESTS's study of its transposes (Tables 10 to 14) for this machine.

GESTS is "GPU-enabled extreme-scale turbulence simulations: Fourier pseudo-spectral algorithms at the exascale using
OpenMP offloading" (Yeung, Ravikumar, Nichols, Uma-Vaideswaran). A field of N^3 reals of 4 bytes on P ranks is
transposed among the R ranks of a communicator: all of them (slabs), or the Pr of a row and the Pc of a column of a
Pr x Pc grid (pencils), Q variables in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from mpi4py import MPI

import weft
from weft import _weft, mpi
from weft.bench.timing import Effort, RefusedError, Samples, alternate, budget, choices, require
from weft.files import write_json
from weft.format import gigabytes, short, size_text, table
from weft.record import Machine, Versions
from weft.report import communication_plots, plots
from weft.report.console import Console, Silent
from weft.report.measured import AllToAll
from weft.run.machine import Place, crowd_warning, machine, placement, placement_rows, versions
from weft.run.record import by_first

if TYPE_CHECKING:
    from weft.device import Device

MPI_METHODS = ("alltoall", "alltoallv", "ialltoall")
WORD = 8  # bytes of a complex number in single precision, the unit of message sizes


def message_bytes(grid: int, processes: int, ranks: int, variables: int = 1) -> float:
    """Size of a P2P message: 4 Q N^3 / (P R) bytes, one R-th of the data of one of P ranks (GESTS Tables 10 to 14)."""
    return 4 * variables * grid**3 / (processes * ranks)


def effective_bandwidth(message: float, ranks: int, seconds: float) -> float:
    """Bytes per second per rank: P2P R / t, including a rank's message to itself (GESTS Eq. 13)."""
    return message * ranks / seconds


class AllToAllRecord(TypedDict):
    """The content of alltoall.json."""

    versions: Versions
    machine: Machine
    placement: list[Place]
    warning: str
    device_pointers: str | None
    formulas: dict[str, str]
    rows: list[AllToAll]


@dataclass(frozen=True)
class Transpose:
    """One all-to-all on ``ranks`` ranks, with the message size of ``paper_ranks`` ranks in a run on ``processes``."""

    grid: int
    variables: int
    processes: int
    row_ranks: int
    communicator: str  # all, row, column
    ranks: int
    paper_ranks: int

    @property
    def message(self) -> int:
        """Bytes from each rank to each."""
        return round(message_bytes(self.grid, self.processes, self.paper_ranks, self.variables))


def transposes(
    grids: Sequence[int], size: int, processes: int, row_ranks: Sequence[int], variables: Sequence[int]
) -> list[Transpose]:
    """The all-to-alls of every grid, shape and Q on `size` ranks: of all ranks for Pr = 1, else of rows and columns.

    Raises RefusedError where a shape does not divide the ranks, here or in the run on ``processes``, and where a
    message would not be whole words.
    """
    found = []
    for grid in grids:
        for row in row_ranks:
            if size % row or processes % row:
                at = f"{size} ranks" if size % row else f"{processes} processes"
                raise RefusedError(f"rows of {row} ranks do not divide {at}")
            shapes = [("all", size, processes)] if row == 1 else []
            if row > 1:
                shapes.append(("row", row, row))
            if row > 1 and size > row:
                shapes.append(("column", size // row, processes // row))
            for q in variables:
                for name, ranks, paper_ranks in shapes:
                    if 4 * q * grid**3 % (WORD * processes * paper_ranks):
                        raise RefusedError(
                            f"N = {grid} does not split into whole messages on {processes} processes "
                            f"({name} communicator of {paper_ranks}): use a multiple of {2 * processes}"
                        )
                    found.append(Transpose(grid, q, processes, row, name, ranks, paper_ranks))
    return found


def needs(transpose: Transpose, host_cases: int, device_cases: int, on_gpu: bool) -> tuple[int, int]:
    """Maximum bytes (host, device) per rank: each method has its own send and receive buffers, and as many pinned ones
    if it stages; the check compares messages one by one."""
    volume = transpose.message * transpose.ranks
    host = 4 * volume * host_cases + 3 * transpose.message
    if not on_gpu:
        return host, 0
    return host + 2 * volume * (device_cases + 1), 2 * volume * (device_cases + 1)


def default_grids(processes: int, limit: int, on_gpu: bool) -> list[int]:
    """Grid sizes: powers of two, rounded up so that all ranks get equal parts, of at most `limit` bytes per rank."""
    step = 2 * processes
    grids = sorted({-(-n // step) * step for n in ((64, 128, 256, 512, 1024, 2048) if on_gpu else (32, 64, 128, 256))})
    return [n for n in grids if 4 * n**3 / processes <= limit] or grids[:1]


def methods_here(comm: MPI.Intracomm, device: Device, wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """The methods in `wanted`, from host memory and, if there is a GPU, from device memory. (collective)

    Raises RefusedError for names that are neither a collective of MPI nor a choice of the exchange layer that works
    here.
    """
    usable = not device.is_host and all(comm.allgather(mpi.gpu_aware(device).usable))
    of_mpi = [m for m in MPI_METHODS if m in wanted]
    # A name of both, such as alltoallv, means MPI's own; the exchange layer's has its path.
    others = [m for m in wanted if m not in MPI_METHODS]
    # With a GPU, the path applies to device memory; host pointers use their default path.
    on_host = others if device.is_host else [m for m in others if ":" not in m]
    host = choices(comm, weft.device.open("host"), on_host)
    own = [] if device.is_host else choices(comm, device, others)
    return of_mpi + host, (of_mpi if usable else []) + own


def measure(
    comm: MPI.Intracomm, device: Device, transpose: Transpose, methods: tuple[list[str], list[str]], effort: Effort
) -> list[AllToAll]:
    """A row for each method and memory. All rows, or columns, of the grid run at once. (collective)"""
    column = comm.rank // transpose.row_ranks
    colour = {"all": 0, "row": column, "column": comm.rank % transpose.row_ranks}[transpose.communicator]
    group = cast(MPI.Intracomm, comm.Split(colour, comm.rank))
    host = weft.device.open("host")
    b, size = _weft.bench, transpose.message
    cases: dict[tuple[str, str], _weft.bench.Timed] = {}
    if not device.is_host:
        cases["host", "copies"] = b.copies(group, device, size * transpose.ranks)
    for memory, on, names in (("host", host, methods[0]), (device.backend, device, methods[1])):
        for name in names:
            if name in MPI_METHODS:
                # With a GPU, host pointers are memory pinned by its driver.
                cases[memory, name] = b.mpi_all_to_all(
                    group, device, "host" if memory == "host" else "device", size, name
                )
            else:
                cases[memory, name] = b.channel_all_to_all(group, on, size, name)
    measured: dict[tuple[str, str], Samples] = alternate(cases, comm, effort)
    copies = measured.pop(("host", "copies"), None)
    copy = copies.record()["seconds"] if copies else None
    rows: list[AllToAll] = []
    for (memory, method), samples in measured.items():
        figures = samples.record()
        rows.append(
            {
                "grid": transpose.grid,
                "variables": transpose.variables,
                "processes": transpose.processes,
                "row_ranks": transpose.row_ranks,
                "column_ranks": transpose.processes // transpose.row_ranks,
                "communicator": transpose.communicator,
                "ranks": transpose.ranks,
                "message_bytes": size,
                "memory": memory,
                "method": method,
                **figures,
                "copy_seconds": copy if memory == "host" else None,
                "total_seconds": figures["seconds"] + (copy or 0.0 if memory == "host" else 0.0),
                "bandwidth_bytes_per_second": effective_bandwidth(size, transpose.ranks, figures["seconds"]),
            }
        )
    cases.clear()
    group.Free()
    return rows


def run(
    comm: MPI.Intracomm,
    output: Path,
    *,
    grids: Sequence[int],
    processes: int | None,
    row_ranks: Sequence[int],
    variables: Sequence[int],
    methods: Sequence[str],
    device: str,
    effort: Effort,
) -> AllToAllRecord:
    """Measures, prints a block for each grid, shape and Q, and writes alltoall.json (after each) and alltoall.png.

    Raises RefusedError on all ranks, before anything is allocated, for grids that do not fit into memory or cannot be
    divided. (collective)
    """
    if comm.size < 2:
        raise RefusedError("an all-to-all needs at least 2 ranks: mpiexec -n 2 weft bench alltoall")
    opened = weft.device.open(device)
    console = Console() if comm.rank == 0 else Silent()
    of = processes or comm.size
    if of < comm.size:
        raise RefusedError(f"--processes {of} are fewer than the {comm.size} ranks here")
    if not methods:
        raise RefusedError(f"no --methods: name some of {', '.join(MPI_METHODS)}, or a choice of the exchange layer")
    chosen = methods_here(comm, opened, methods)
    has = budget(opened, comm)
    if not grids:
        share = min((64 << 20) if opened.is_host else (1 << 30), has[0] // 64)
        grids = default_grids(of, share, not opened.is_host)
    shapes = row_ranks or [d for d in (1, 2, 4, 8) if comm.size % d == 0 and of % d == 0 and d < comm.size]
    todo = transposes(grids, comm.size, of, shapes, variables)
    for transpose in todo:
        what = f"N = {transpose.grid}, {transpose.variables} variables, {transpose.communicator} communicator"
        require(what, needs(transpose, len(chosen[0]), len(chosen[1]), not opened.is_host), has, "use smaller --grids")
    record: AllToAllRecord = {
        "versions": versions(),
        "machine": machine(opened, comm),
        "placement": placement(opened, comm),
        "warning": crowd_warning(comm),
        "device_pointers": None if opened.is_host else mpi.gpu_aware(opened).reason,
        "formulas": {
            "message_bytes": "4 Q N^3 / (P R), GESTS Tables 10 to 14",
            "bandwidth_bytes_per_second": "P2P R / t, own message included, GESTS Eq. 13",
        },
        "rows": [],
    }
    rows = [("MPI", f"{record['versions']['mpi']}, {comm.size} rank(s)"), *placement_rows(record["placement"])]
    if record["device_pointers"]:
        rows.append(("device pointers", record["device_pointers"]))
    console.write(table(rows))
    if record["warning"]:
        console.warn(record["warning"])
    previous = None
    for transpose in todo:
        if console.terminal:
            console.phase(f"N = {transpose.grid}, {transpose.communicator} communicator")
        measured = measure(comm, opened, transpose, chosen, effort)
        record["rows"] += measured
        group = (transpose.grid, transpose.row_ranks, transpose.variables)
        console.write(("\n" + title(transpose) + "\n" if group != previous else "") + block(measured))
        previous = group
        by_first(comm, write_json, output / "alltoall.json", record)
    console.write("\nP2P = 4 Q N^3 / (P R); GB/s = P2P R / t per rank (GESTS Eq. 13).\nCopies are timed separately.")
    by_first(comm, draw, output / "alltoall.png", record)
    console.write(f"wrote {output / 'alltoall.json'}, {output / 'alltoall.png'}")
    return record


def draw(path: Path, record: AllToAllRecord) -> None:
    """Writes the plot."""
    where = record["machine"]
    name = f"{where['ranks']} rank(s), {where['device']['name']}, {record['versions']['mpi']}"
    plots.save(communication_plots.all_to_all(record["rows"], name), path)


def title(t: Transpose) -> str:
    """The line above a block, and the headings of its columns."""
    shape = f"{t.row_ranks} x {t.processes // t.row_ranks}"
    words = f"N = {t.grid}, P = {t.processes} = {shape}, Q = {t.variables}; times in ms"
    heads = ("R", "P2P", "copies", "host", "total", "device", "GB/s")
    return words + f"\n{'comm':7}{'method':18}" + "".join(f"{h:>{w}}" for h, w in zip(heads, WIDTHS, strict=True))


WIDTHS = (4, 9, 8, 8, 8, 8, 8)


def block(rows: Sequence[AllToAll]) -> str:
    """A line for each method, host and device pointers side by side as in the paper's tables."""
    lines = []
    for method in dict.fromkeys(r["method"] for r in rows):
        host = next((r for r in rows if r["method"] == method and r["memory"] == "host"), None)
        own = next((r for r in rows if r["method"] == method and r["memory"] != "host"), None)
        first = own or host
        assert first is not None

        def ms(seconds: float | None) -> str:
            return "-" if seconds is None else short(1e3 * seconds)

        cells = (
            str(first["ranks"]),
            size_text(first["message_bytes"]),
            ms(host and host["copy_seconds"]),
            ms(host and host["seconds"]),
            ms(host and host["total_seconds"]),
            ms(own and own["seconds"]),
            gigabytes(first["bandwidth_bytes_per_second"]),
        )
        lines.append(
            f"{first['communicator']:7}{method:18}" + "".join(f"{c:>{w}}" for c, w in zip(cells, WIDTHS, strict=True))
        )
    return "\n".join(lines)
