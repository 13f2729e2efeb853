"""`weft bench pingpong`: latency and bandwidth of a message by every path, within a node and between nodes.

The measurements follow the figures for Alvis in Wahlgren's "Using GPU-aware message passing to accelerate high-fidelity
fluid simulations" (host and device memory, one pair). They add all pairs at once, and every path of weft's exchanges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, TypedDict

from mpi4py import MPI

import weft
from weft import _weft, mpi
from weft.bench.link import Link, Point, crossovers, fit
from weft.bench.timing import Effort, RefusedError, alternate, budget, choices, require
from weft.files import write_json
from weft.format import gigabytes, rate, seconds, short, size_text, table
from weft.record import Machine, Versions
from weft.report import communication_plots, plots
from weft.report.console import Console, Silent
from weft.report.measured import Message
from weft.run.machine import Place, crowd_warning, machine, nodes, placement, placement_rows, versions
from weft.run.record import by_first

if TYPE_CHECKING:
    from weft.device import Device

PLAIN = "mpi"  # the reference: MPI_Send and MPI_Recv on the same memory
PATHS = (PLAIN, "direct", "staged", "ipc")
Pair = tuple[int, int]


@dataclass(frozen=True)
class Scope:
    """The ranks that exchange messages at the same time, and where they are."""

    where: str  # "within" a node or "between" nodes
    pairs: tuple[Pair, ...]

    @property
    def title(self) -> str:
        """The scope as text."""
        place = "within a node" if self.where == "within" else "between nodes"
        count = f"ranks {self.pairs[0][0]} and {self.pairs[0][1]}" if len(self.pairs) == 1 else "pairs at once"
        return f"{place}, {count if len(self.pairs) == 1 else f'{len(self.pairs)} {count}'}"


def scopes(node_of: Sequence[int]) -> list[Scope]:
    """One pair and, if there are more, all pairs at once, within the nodes and between neighbouring nodes.

    ``node_of[rank]`` is the result of `machine.nodes`. Within a node, its lower half is paired with its upper half;
    between nodes, the ranks of every second node are paired with those of the next node.
    """
    by_node = [[r for r, n in enumerate(node_of) if n == node] for node in sorted(set(node_of))]
    within = [(m[i], m[i + len(m) // 2]) for m in by_node for i in range(len(m) // 2)]
    between = [p for a, b in zip(by_node[::2], by_node[1::2], strict=False) for p in zip(a, b, strict=False)]
    found = []
    for where, pairs in (("within", within), ("between", between)):
        if pairs:
            found.append(Scope(where, (pairs[0],)))
        if len(pairs) > 1:
            found.append(Scope(where, tuple(pairs)))
    return found


@dataclass(frozen=True)
class Column:
    """A memory and a path: one line of the plots."""

    memory: str  # host, cuda, hip
    path: str

    @property
    def name(self) -> str:
        """The name in the table."""
        return f"{self.memory} {self.path}"


class LinkRecord(TypedDict):
    """One kind of link of a run: the shortest time of a message and the highest bytes / time, and the rows."""

    alpha_seconds: float
    beta_bytes_per_second: float
    rows: list[Message]


class PingPongRecord(TypedDict):
    """The content of pingpong.json."""

    versions: Versions
    machine: Machine
    placement: list[Place]
    warning: str
    rows: list[Message]
    fits: list[dict[str, object]]
    crossovers: list[dict[str, object]]


def columns(comm: MPI.Intracomm, devices: Sequence[Device], wanted: Sequence[str]) -> list[Column]:
    """The paths in `wanted` that work here, or all that are not known to be slower.

    Raises RefusedError for a requested path that works with no memory. (collective)
    """
    found: list[Column] = []
    for device in devices:
        usable = device.is_host or all(comm.allgather(mpi.gpu_aware(device).usable))
        works = [PLAIN] if usable and (not wanted or PLAIN in wanted) else []
        for path in [p for p in wanted if p != PLAIN] or ([] if wanted else ["auto"]):
            try:
                works += [c.split(":")[1] for c in choices(comm, device, [f"pairwise:{path}"])]
            except RefusedError:
                if device is devices[-1] and not any(c.path == path for c in found):
                    raise
        found += [Column(device.backend, path) for path in dict.fromkeys(works)]
    return found


def play(
    comm: MPI.Intracomm, device_of: dict[str, Device], shown: Sequence[Column], scope: Scope, size: int, effort: Effort
) -> Iterator[Message]:
    """One row for each column: a message of `size` bytes one way. (collective)"""
    partner, leads = -1, False
    for a, b in scope.pairs:
        if comm.rank in (a, b):
            partner, leads = (b, True) if comm.rank == a else (a, False)
    cases = {
        c: _weft.bench.ping_pong(
            comm, device_of[c.memory], partner, leads, size, None if c.path == PLAIN else f"pairwise:{c.path}"
        )
        for c in shown
    }
    for column, samples in alternate(cases, comm, effort).items():
        figures = samples.record(0.5)  # half of the round trip
        yield {
            "where": scope.where,
            "pairs": len(scope.pairs),
            "memory": column.memory,
            "path": column.path,
            "bytes": size,
            **figures,
            "bandwidth_bytes_per_second": size / figures["seconds"],
            "fastest_pair_seconds": 0.5 * samples.fastest(),
        }


def measure_link(comm: MPI.Intracomm, device: Device, sizes: Sequence[int], effort: Effort) -> dict[str, LinkRecord]:
    """The links of this run for a lower bound: by kind ("within", "between") the shortest time of a message and the
    highest bytes / time over all paths of the device's memory, of one pair alone. (collective)"""
    shown = columns(comm, [device], [])
    links: dict[str, LinkRecord] = {}
    for scope in scopes(nodes(comm)):
        if len(scope.pairs) == 1:
            rows = [r for size in sizes for r in play(comm, {device.backend: device}, shown, scope, size, effort)]
            links[scope.where] = {
                "alpha_seconds": min(r["seconds"] for r in rows),
                "beta_bytes_per_second": max(r["bandwidth_bytes_per_second"] for r in rows),
                "rows": rows,
            }
    return links


def run(
    comm: MPI.Intracomm, sizes: Sequence[int], output: Path, *, device: str, paths: Sequence[str], effort: Effort
) -> PingPongRecord:
    """Measures, prints a line for each size, and writes pingpong.json (after every size) and a plot for each scope.

    Raises RefusedError on all ranks for fewer than 2 ranks, paths that do not work here, sizes that do not fit.
    (collective)
    """
    if comm.size < 2:
        raise RefusedError("ping-pong needs at least 2 ranks: mpiexec -n 2 weft bench pingpong")
    for path in paths:
        if path not in PATHS:
            raise RefusedError(f"there is no path '{path}'; known: {', '.join(PATHS)}")
    opened = weft.device.open(device)
    devices = [weft.device.open("host"), *([] if opened.is_host else [opened])]
    # Each path has a send and a receive buffer, and two pinned ones if it stages; the check has three.
    on_device = 0 if opened.is_host else 2 * len(PATHS)
    needs = ((4 * len(PATHS) + 3 + on_device) * max(sizes), on_device * max(sizes))
    require(f"a message of {size_text(max(sizes))}", needs, budget(opened, comm), "use smaller --sizes")
    shown = columns(comm, devices, paths)
    console = Console() if comm.rank == 0 else Silent()
    record: PingPongRecord = {
        "versions": versions(),
        "machine": machine(opened, comm),
        "placement": placement(opened, comm),
        "warning": crowd_warning(comm),
        "rows": [],
        "fits": [],
        "crossovers": [],
    }
    console.write(table([("MPI", record["versions"]["mpi"]), *placement_rows(record["placement"])]))
    if record["warning"]:
        console.warn(record["warning"])
    for scope in scopes(nodes(comm)):
        console.write(f"\n{scope.title}: µs one way, median of the slowest pair\n{heads(shown)}")
        mine: list[Message] = []
        for size in sizes:
            if console.terminal:
                console.phase(f"{scope.title}, {size_text(size)}")
            rows = list(play(comm, {d.backend: d for d in devices}, shown, scope, size, effort))
            mine += rows
            record["rows"] += rows
            console.write(line(size, [short(1e6 * r["seconds"]) for r in rows]))
            # After every size, so that an interrupted run keeps its results.
            by_first(comm, write_json, output / "pingpong.json", record)
        finish(record, scope, mine, shown, console)
        by_first(comm, write_json, output / "pingpong.json", record)
        name = f"pingpong-{scope.where}-{'one' if len(scope.pairs) == 1 else 'all'}.png"
        by_first(comm, draw, output / name, record, scope, mine)
        console.write(f"wrote {output / name}")
    console.write(f"wrote {output / 'pingpong.json'}")
    return record


def finish(
    record: PingPongRecord, scope: Scope, rows: Sequence[Message], shown: Sequence[Column], console: Console
) -> None:
    """Adds the fits and crossovers of a scope to the record, and prints bandwidths, fits and crossovers."""
    of = {c: [r for r in rows if (r["memory"], r["path"]) == (c.memory, c.path)] for c in shown}
    console.write(f"\n{scope.title}: GB/s one way, of a pair\n{heads(shown)}")
    for at in zip(*of.values(), strict=True):
        console.write(line(at[0]["bytes"], [gigabytes(r["bandwidth_bytes_per_second"]) for r in at]))
    where = {"where": scope.where, "pairs": len(scope.pairs)}
    text = [("PATH", "ALPHA", "BETA", "N1/2", "HIGHEST", "FIT WITHIN")]
    for column, mine in of.items():
        if len(mine) < 2:
            continue
        link: Link = fit([r["bytes"] for r in mine], [r["seconds"] for r in mine])
        record["fits"].append(
            {
                **where,
                **asdict(column),
                "alpha_seconds": link.alpha,
                # None: the sizes are too small to see it.
                "beta_bytes_per_second": link.beta if isfinite(link.beta) else None,
                "half_bytes": link.half if isfinite(link.beta) else None,
                "largest_relative_error": link.error,
            }
        )
        cells = (rate(link.beta, "B/s"), rate(link.half, "B")) if isfinite(link.beta) else ("not seen", "-")
        best = max(r["bandwidth_bytes_per_second"] for r in mine)
        text.append(
            (column.name, seconds(link.alpha), *cells, rate(best, "B/s"),
             f"{100 * link.error:.0f} %")
        )  # fmt: skip
    if len(text) > 1:
        console.write(
            "\nt(n) = alpha + n / beta by least squares of relative errors; n1/2 = alpha beta\n" + table(text)
        )
    for memory in dict.fromkeys(c.memory for c in shown):
        curves = {
            c.path: [Point(r["bytes"], r["seconds_low"], r["seconds"], r["seconds_high"]) for r in mine]
            for c, mine in of.items()
            if c.memory == memory
        }
        if len(curves) < 2:
            continue
        first, changes = crossovers(curves)
        record["crossovers"].append(
            {**where, "memory": memory, "first": first, "changes": [asdict(c) for c in changes]}
        )
        words = [f"{first} first", *(f"{c.faster} from {size_text(c.size)} on" for c in changes)]
        console.write(fill(f"fastest from {memory} memory: {', '.join(words)}", 80, subsequent_indent="  "))


def draw(path: Path, record: PingPongRecord, scope: Scope, rows: Sequence[Message]) -> None:
    """Writes the plot of a scope."""
    title = f"{record['machine']['device']['name']}, {record['versions']['mpi']}"
    plots.save(communication_plots.ping_pong(rows, scope.title, title), path)


def heads(shown: Sequence[Column]) -> str:
    """The two heading lines of the columns."""
    return line("", [c.memory for c in shown]) + "\n" + line("size", [c.path for c in shown])


def line(size: int | str, cells: Sequence[str]) -> str:
    """The printed line of a row."""
    first = size if isinstance(size, str) else size_text(size)
    return f"{first:>8}" + "".join(f"{cell:>9}" for cell in cells)
