"""`weft bench operator`: hipBone's Fig. 3 for this machine, and on a GPU its Table 1."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from mpi4py import MPI

import weft
from weft.files import write_json
from weft.format import short, table
from weft.model import formulas
from weft.model.limits import by_instructions, limits
from weft.record import Machine, Versions
from weft.report import plots
from weft.report.measured import OperatorRow
from weft.run.elements import box_counts
from weft.run.machine import Rates, machine, rates, versions
from weft.run.record import by_first

if TYPE_CHECKING:
    from weft.device import Device

LINE = "{:5} {:10} {:17} {:>12} {:>11} {:>10} {:>9} {:>9} {:>10} {:>8} {:>8} {:>8} {:>12}"
HEAD = LINE.format(
    "order",
    "geometry",
    "kernels",
    "box",
    "DOFs",
    "time µs",
    "GFLOP/s",
    "GDOF/s",
    "% of Eq. 4",
    "bytes %",
    "flops %",
    "instr. %",
    "bound by",
)
CG_LINE = " {:>9} {:>11}"
LARGEST_BLOCK = 1024  # threads


class OperatorRecord(TypedDict):
    """The content of operator.json."""

    versions: Versions
    machine: Machine
    precision: str
    repeats: int
    rates: Rates
    rates_before: Rates
    rates_after: Rates
    formulas: dict[str, str]
    rows: list[OperatorRow]
    occupancy: list[dict[str, int | float | str]]


def measure(operator: weft.Poisson, geometry: str, box: Sequence[int], repeats: int, iterations: int) -> OperatorRow:
    """Times the operator and, if `iterations` > 0, as many iterations of CG after a tenth as many for warm-up.

    (collective)"""
    comm = operator.comm
    comm.Barrier()
    # All ranks run at the same time and share the memory's bandwidth: the slowest rank's median counts.
    seconds = comm.allreduce(statistics.median(operator.time_kernel(repeats)), MPI.MAX)
    size = formulas.Size(operator.elements, operator.order, operator.dofs, 4 if operator.precision == "single" else 8)
    shapes = operator.elements_by_shape
    method = method_of(operator.geometry, operator.kernels, shapes, operator.boxes)
    flops = formulas.operator_flops(size)
    moved = formulas.weft_operator_bytes(size, method)
    row: OperatorRow = {
        "order": operator.order,
        "geometry": geometry,
        "kernels": operator.kernels,
        "threads": threads_of(operator),
        "box": list(box),
        "elements": size.elements,
        "dofs": size.dofs,
        "seconds": seconds,
        "gflops": flops.value / seconds / 1e9,
        "dofs_per_second": size.dofs / seconds,
        "flops": flops.value,
        "bytes_paper": formulas.operator_bytes(size).value,
        "bytes": moved.value,
        "bytes_formula": moved.text,
        "elements_by_shape": shapes,
        "boxes": operator.boxes,
        "access": operator.choices.get("access", "").partition(":")[0],
    }
    if iterations > 0:
        b = operator.random_rhs(1)
        operator.cg(b, iterations=max(1, iterations // 10))
        result = operator.cg(b, iterations=iterations)
        whole = dataclasses.replace(method, algorithm=result.algorithm, ranks=comm.size)
        row["iterations"] = done = max(1, result.iterations)  # fewer than asked for if the residual is zero
        row["seconds_per_iteration"] = comm.allreduce(result.seconds, MPI.MAX) / done
        row["fom_gflops"] = formulas.fom_flops(size).value / row["seconds_per_iteration"] / 1e9
        row["iteration_bytes"] = formulas.weft_iteration_bytes(size, whole).value
    return row


def method_of(geometry: str, kernels: str, shapes: Mapping[str, int], boxes: int) -> formulas.Method:
    """The variant of an operator with these elements by shape, and `boxes` among them; geometry `box` is that of
    parallelepipeds."""
    return formulas.Method(
        geometry="trilinear" if geometry == "box" else geometry,
        kernels=kernels,
        stored_elements=shapes["stored"],
        parallelepipeds=shapes["parallelepiped"],
        boxes=boxes,
    )


def threads_of(operator: weft.Poisson) -> str:
    """The shape of the portable kernel's thread blocks; empty for other kernels."""
    return operator.choices.get("threads", "").partition(":")[0]


def compare(row: OperatorRow, measured: Rates, word: int, vectors: str) -> None:
    """Adds to a row the rate of Eq. 4, with the paper's bytes, and the limits of its own variant.

    `word`: bytes per number, `vectors`: the device's architecture.
    """
    peak, bandwidth = measured["peak_flops_per_second"], measured["bandwidth_bytes_per_second"]
    row["roofline_gflops"] = formulas.roofline(row["flops"], row["bytes_paper"], peak, bandwidth) / 1e9
    row["roofline_fraction"] = row["gflops"] / row["roofline_gflops"]
    size = formulas.Size(row["elements"], row["order"], row["dofs"], word)
    method = method_of(row["geometry"], row["kernels"], row["elements_by_shape"], row["boxes"])
    flops = formulas.weft_operator_flops(size, method).value
    counted = by_instructions(size, method, "operator", row["access"], vectors, peak)
    row["limits"] = limits(row["seconds"], row["bytes"], bandwidth, flops, peak, counted)


def sweep(
    comm: MPI.Intracomm,
    orders: Sequence[int],
    geometries: Sequence[str],
    shapes: Sequence[str],
    output: Path,
    *,
    dofs: int | None,
    device: str,
    precision: str,
    kernels: str,
    repeats: int,
    iterations: int,
) -> OperatorRecord:
    """Measures every order, geometry and shape of thread blocks, and prints a line for each.

    Geometry `box` uses a box whose elements have a constant metric, and `trilinear` a deformed one. Writes
    operator.json after each line, so that an interrupted sweep keeps its rows, and operator.png at the end. Blocks of
    one thread per point are left out where they would need more than 1024 threads.

    The bandwidth of Eq. 4 is measured before and after and the mean is used: other work on the machine shows up as a
    difference between the two. (collective)
    """
    opened = weft.device.open(device)
    word = 4 if precision == "single" else 8
    dofs = dofs or (2_000_000 if opened.is_host else 40_000_000)
    say = print if comm.rank == 0 else (lambda *_, **__: None)
    before = rates(opened, precision, comm)
    where = machine(opened, comm)
    title = f"{where['device']['name']}, {comm.size} rank(s) of {where['threads_per_rank']} thread(s), {precision}"
    say(f"operator (S_L + lambda W) Z on {title}\n{HEAD}" + CG_LINE.format("CG µs", "FOM GFLOP/s") * (iterations > 0))
    record: OperatorRecord = {
        "versions": versions(),
        "machine": where,
        "precision": precision,
        "repeats": repeats,
        "rates": before,
        "rates_before": before,
        "rates_after": before,
        "formulas": counted(),
        "rows": [],
        "occupancy": [],
    }
    for order in orders:
        # box_counts takes element-local points: N_L / N_G = (N + 1)^3 / N^3 on a large mesh.
        box = box_counts(round(dofs * ((order + 1) / order) ** 3), order)
        plain, deformed = (weft.Mesh.box(box, comm=comm, deformation=how) for how in ("none", "kershaw"))
        possible = [s for s in shapes if s != "points" or opened.is_host or (order + 1) ** 3 <= LARGEST_BLOCK]
        for geometry, threads in itertools.product(geometries, possible):
            operator = weft.Poisson(
                deformed if geometry == "trilinear" else plain, order=order, device=opened, precision=precision,
                geometry="trilinear" if geometry == "box" else geometry, kernels=kernels, threads=threads,
            )  # fmt: skip
            row = measure(operator, geometry, box, repeats, iterations)
            compare(row, before, word, opened.architecture)
            record["rows"].append(row)
            if not opened.is_host:
                record["occupancy"].append(occupancy_row(row, operator, opened))
            say(line(row), flush=True)
            if comm.rank == 0:
                write_json(output / "operator.json", record)
            del operator
    after = rates(opened, precision, comm)
    record["rates_after"] = after
    record["rates"] = Rates(
        bandwidth_bytes_per_second=(before["bandwidth_bytes_per_second"] + after["bandwidth_bytes_per_second"]) / 2,
        peak_flops_per_second=(before["peak_flops_per_second"] + after["peak_flops_per_second"]) / 2,
    )
    for row in record["rows"]:
        compare(row, record["rates"], word, opened.architecture)
    by_first(comm, show, record, output, title)
    return record


def counted() -> dict[str, str]:
    """The definitions of the columns."""
    size = formulas.large_mesh(7)
    flops, moved = formulas.operator_flops(size), formulas.operator_bytes(size)
    fom = formulas.fom_flops(size)
    return {
        "gflops": f"({flops.text}) / time; {flops.source}",
        "fom_gflops": f"({fom.text}) / time per iteration of CG; {fom.source}",
        "roofline_gflops": f"min(C, ({flops.text}) / ({moved.text}) B), words of 8 bytes; {moved.source}",
        "limits": "share of each limit of the row's own variant; the largest binds; docs/figures.md",
    }


def line(row: OperatorRow) -> str:
    """The printed line of a row."""
    share = {limit["name"]: f"{100 * limit['share']:.0f}" for limit in row["limits"]}
    return LINE.format(
        row["order"],
        row["geometry"],
        f"{row['kernels']} {row['threads']}".strip(),
        "x".join(map(str, row["box"])),
        row["dofs"],
        f"{1e6 * row['seconds']:.1f}",
        short(row["gflops"]),
        short(row["dofs_per_second"] / 1e9),
        f"{100 * row['roofline_fraction']:.0f}",
        share["bandwidth"],
        share["arithmetic"],
        share.get("instructions", "-"),
        row["limits"][0]["name"],
    ) + (
        CG_LINE.format(f"{1e6 * row['seconds_per_iteration']:.1f}", short(row["fom_gflops"]))
        if "fom_gflops" in row
        else ""
    )


def occupancy_row(row: OperatorRow, operator: weft.Poisson, device: Device) -> dict[str, int | float | str]:
    """hipBone's Table 1 for the kernel of a row: the resources it uses, and the resulting occupancy of a
    multiprocessor."""
    resources = operator.resources
    chip = formulas.multiprocessor(device.limits, device.architecture)
    o = formulas.occupancy(chip, resources["threads_per_block"], resources["registers"], resources["shared_bytes"])
    return {
        "order": row["order"],
        "geometry": row["geometry"],
        "threads": row["threads"],
        **resources,
        "warps_per_block": o.warps_per_block,
        "masked_lanes": o.masked_lanes,
        "occupancy_warps": o.warps,
        "blocks_per_multiprocessor": o.blocks,
        "elements_per_multiprocessor": o.blocks * resources["elements_per_block"],
        "limited_by": o.limited_by,
    }


def show(record: OperatorRecord, output: Path, title: str) -> None:
    """Prints the lines after the rows, and writes the files."""
    before, after = record["rates_before"], record["rates_after"]
    print(
        f"bandwidth {before['bandwidth_bytes_per_second'] / 1e9:.1f} GB/s before and "
        f"{after['bandwidth_bytes_per_second'] / 1e9:.1f} after (8 reads : 1 write), FMA peak "
        f"{before['peak_flops_per_second'] / 1e9:.0f} and {after['peak_flops_per_second'] / 1e9:.0f} GFLOP/s"
    )
    for name, text in record["formulas"].items():
        print(f"{name}: {text}")
    if record["occupancy"]:
        print("\n" + table(table_1(record["occupancy"])))
    write_json(output / "operator.json", record)
    bandwidth = record["rates"]["bandwidth_bytes_per_second"]
    plots.save(plots.operator(record["rows"], title, bandwidth), output / "operator.png")
    print(f"wrote {output / 'operator.json'}, {output / 'operator.png'}")


def table_1(rows: Sequence[Mapping[str, object]]) -> list[tuple[str, ...]]:
    """hipBone's Table 1."""
    columns = {
        "ORDER": "order",
        "GEOMETRY": "geometry",
        "THREADS": "threads",
        "THREADS/BLOCK": "threads_per_block",
        "ELEMENTS/BLOCK": "elements_per_block",
        "WARPS/BLOCK": "warps_per_block",
        "REGISTERS": "registers",
        "SHARED B": "shared_bytes",
        "SPILLS B": "spill_bytes",
        "WARPS/SM": "occupancy_warps",
        "ELEMENTS/SM": "elements_per_multiprocessor",
        "LIMITED BY": "limited_by",
    }
    return [tuple(columns), *(tuple(str(row[key]) for key in columns.values()) for row in rows)]
