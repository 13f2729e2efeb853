"""`weft bench operator`: hipBone's Fig. 3 for this machine, and on a GPU its Table 1."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from mpi4py import MPI

import weft
from weft.files import write_json
from weft.format import short, table
from weft.model import formulas
from weft.record import Machine, Versions
from weft.report import plots
from weft.report.measured import OperatorRow
from weft.run.elements import box_counts
from weft.run.machine import Rates, machine, rates, versions
from weft.run.record import by_first

if TYPE_CHECKING:
    from weft.device import Device

LINE = "{:5} {:10} {:9} {:>12} {:>11} {:>10} {:>9} {:>9} {:>9} {:>9}"
HEAD = LINE.format(
    "order", "geometry", "kernels", "box", "DOFs", "time µs", "GFLOP/s", "GDOF/s", "% of Eq. 4", "% of own"
)


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


def measure(
    comm: MPI.Intracomm,
    order: int,
    dofs: int,
    geometry: str,
    kernels: str,
    device: Device,
    precision: str,
    repeats: int,
) -> tuple[OperatorRow, weft.Poisson]:
    """Times the operator at one order on a box of about `dofs` degrees of freedom. (collective)"""
    box = box_counts(round(dofs * ((order + 1) / order) ** 3), order)
    mesh = weft.Mesh.box(box, comm=comm)
    operator = weft.Poisson(mesh, order=order, device=device, precision=precision, geometry=geometry, kernels=kernels)
    comm.Barrier()
    # All ranks run at the same time and share the memory's bandwidth: the slowest rank's median counts.
    seconds = comm.allreduce(statistics.median(operator.time_kernel(repeats)), MPI.MAX)
    size = formulas.Size(operator.elements, order, operator.dofs, 4 if precision == "single" else 8)
    method = formulas.Method(geometry=operator.geometry, kernels=operator.kernels)
    flops = formulas.operator_flops(size)
    moved = formulas.weft_operator_bytes(size, method)
    row: OperatorRow = {
        "order": order,
        "geometry": operator.geometry,
        "kernels": operator.kernels,
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
    }
    return row, operator


def roofline(row: OperatorRow, measured: Rates) -> None:
    """Adds to a row the rates of Eq. 4, with the paper's bytes and with those this variant moves."""
    peak, bandwidth = measured["peak_flops_per_second"], measured["bandwidth_bytes_per_second"]
    row["roofline_gflops"] = formulas.roofline(row["flops"], row["bytes_paper"], peak, bandwidth) / 1e9
    row["own_roofline_gflops"] = formulas.roofline(row["flops"], row["bytes"], peak, bandwidth) / 1e9
    row["roofline_fraction"] = row["gflops"] / row["roofline_gflops"]
    row["own_roofline_fraction"] = row["gflops"] / row["own_roofline_gflops"]


def sweep(
    comm: MPI.Intracomm,
    orders: Sequence[int],
    geometries: Sequence[str],
    output: Path,
    *,
    dofs: int | None,
    device: str,
    precision: str,
    kernels: str,
    repeats: int,
) -> OperatorRecord:
    """Measures every order and geometry, prints a line for each, and writes operator.json and operator.png.

    The bandwidth of Eq. 4 is measured before and after and the mean is used: other work on the machine shows up as a
    difference between the two. (collective)
    """
    opened = weft.device.open(device)
    dofs = dofs or (2_000_000 if opened.is_host else 40_000_000)
    say = print if comm.rank == 0 else (lambda *_, **__: None)
    before = rates(opened, precision, comm)
    where = machine(opened, comm)
    title = f"{where['device']['name']}, {comm.size} rank(s) of {where['threads_per_rank']} thread(s), {precision}"
    say(f"operator (S_L + lambda W) Z on {title}\n{HEAD}", flush=True)
    rows: list[OperatorRow] = []
    resources: list[dict[str, int | float | str]] = []
    for order in orders:
        for geometry in geometries:
            row, operator = measure(comm, order, dofs, geometry, kernels, opened, precision, repeats)
            roofline(row, before)
            rows.append(row)
            if not opened.is_host:
                resources.append(occupancy_row(row, operator, opened))
            say(line(row), flush=True)
            del operator
    after = rates(opened, precision, comm)
    measured = Rates(
        bandwidth_bytes_per_second=(before["bandwidth_bytes_per_second"] + after["bandwidth_bytes_per_second"]) / 2,
        peak_flops_per_second=(before["peak_flops_per_second"] + after["peak_flops_per_second"]) / 2,
    )
    for row in rows:
        roofline(row, measured)
    record: OperatorRecord = {
        "versions": versions(),
        "machine": where,
        "precision": precision,
        "repeats": repeats,
        "rates": measured,
        "rates_before": before,
        "rates_after": after,
        "formulas": counted(),
        "rows": rows,
        "occupancy": resources,
    }
    by_first(comm, show, record, output, title)
    return record


def counted() -> dict[str, str]:
    """What the columns count."""
    size = formulas.large_mesh(7)
    flops, moved = formulas.operator_flops(size), formulas.operator_bytes(size)
    return {
        "gflops": f"({flops.text}) / time; {flops.source}",
        "roofline_gflops": f"min(C, ({flops.text}) / ({moved.text}) B), words of 8 bytes; {moved.source}",
        "own_roofline_gflops": "the same with the bytes of each row's own variant",
    }


def line(row: OperatorRow) -> str:
    """A row as it is printed."""
    return LINE.format(
        row["order"],
        row["geometry"],
        row["kernels"],
        "x".join(map(str, row["box"])),
        row["dofs"],
        f"{1e6 * row['seconds']:.1f}",
        short(row["gflops"]),
        short(row["dofs_per_second"] / 1e9),
        f"{100 * row['roofline_fraction']:.0f}",
        f"{100 * row['own_roofline_fraction']:.0f}",
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
