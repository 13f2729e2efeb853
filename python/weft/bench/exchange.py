"""`weft bench exchange`: every schedule and path on the patterns of a real mesh, compared with a lower bound."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, TypedDict

from mpi4py import MPI

import weft
from weft import _weft
from weft.bench.link import lower_bound
from weft.bench.pingpong import LinkRecord, measure_link
from weft.bench.timing import Effort, RefusedError, alternate, budget, choices, require
from weft.files import write_json
from weft.format import gigabytes, rate, seconds, short, size_text, table
from weft.record import Machine, Versions
from weft.report import communication_plots, plots
from weft.report.console import Console, Silent
from weft.report.measured import Exchange, Traffic
from weft.run.launch import launch
from weft.run.machine import Place, crowd_warning, machine, nodes, placement, placement_rows, versions
from weft.run.record import by_first

if TYPE_CHECKING:
    from weft.device import Device
    from weft.mesh import Mesh

OPERATIONS = ("halo", "gather", "gather-scatter")
LINK_SIZES = (8, 64, 1024, 16384, 262144, 4194304)
BOUND = (
    "max over ranks and kinds of link of alpha + bytes / beta; alpha is the shortest time of a message of one pair and "
    "beta its highest bytes / time, by ping-pong over all paths in this run; local work is not included"
)


class MeshRecord(TypedDict):
    """The mesh of a run."""

    source: str
    elements: int


class ExchangeRecord(TypedDict):
    """One run in exchange.json."""

    versions: Versions
    machine: Machine
    placement: list[Place]
    warning: str
    mesh: MeshRecord
    bound: str
    links: dict[str, LinkRecord]
    rows: list[Exchange]


def traffic(
    comm: MPI.Intracomm, messages: Sequence[tuple[int, int]], node_of: Sequence[int], links: Mapping[str, LinkRecord]
) -> Traffic:
    """The messages of one operation, over all ranks, and a lower bound on its time. (collective)"""
    kinds = {"within": 0, "between": 0}
    for rank, size in messages:
        kinds["within" if node_of[rank] == node_of[comm.rank] else "between"] += size
    pairs = {kind: (link["alpha_seconds"], link["beta_bytes_per_second"]) for kind, link in links.items()}
    # A kind of link without a measured pair (within a node, if each has one rank) is taken to be as good as the best
    # measured one.
    best = (min(a for a, _ in pairs.values()), max(b for _, b in pairs.values()))
    bound = lower_bound(kinds, {kind: pairs.get(kind, best) for kind in kinds})
    sizes = sorted(size for one in comm.allgather([size for _, size in messages]) for size in one)
    return {
        "messages": comm.allreduce(len(messages), MPI.MAX),
        "bytes": comm.allreduce(sum(size for _, size in messages), MPI.MAX),
        "total_messages": len(sizes),
        "total_bytes": sum(sizes),
        "smallest_message_bytes": sizes[0] if sizes else 0,
        "median_message_bytes": int(median(sizes)) if sizes else 0,
        "largest_message_bytes": sizes[-1] if sizes else 0,
        "bound_seconds": comm.allreduce(bound, MPI.MAX),
    }


def measure(
    comm: MPI.Intracomm,
    mesh: Mesh,
    device: Device,
    texts: Sequence[str],
    order: int,
    fields: int,
    links: Mapping[str, LinkRecord],
    effort: Effort,
) -> list[Exchange]:
    """A row for each operation and choice, at one order and number of fields. (collective)"""
    ids = mesh.point_ids(order).reshape(-1)
    timing = _weft.bench.ExchangeTiming(comm, device, ids, fields)
    node_of = nodes(comm)
    rows: list[Exchange] = []
    for operation in OPERATIONS:
        messages = timing.messages(operation)
        sent = traffic(comm, messages, node_of, links)
        mine = choices(comm, device, texts, [size for _, size in messages])
        cases = {choice: timing.timed(comm, device, operation, choice) for choice in mine}
        measured = alternate(cases, comm, effort)
        tuned = timing.tuned(operation)
        for choice, samples in measured.items():
            figures = samples.record()
            schedule, path = choice.split(":")[:2]
            rows.append(
                {
                    "ranks": comm.size,
                    "order": order,
                    "fields": fields,
                    "operation": operation,
                    "choice": choice,
                    "schedule": schedule,
                    "path": path,
                    "tuned": choice == tuned,  # by weft's own tuner, with its own timings
                    **figures,
                    **sent,
                    "bandwidth_bytes_per_second": sent["bytes"] / figures["seconds"],
                    "times_bound": figures["seconds"] / sent["bound_seconds"] if sent["bound_seconds"] > 0 else None,
                }
            )
    return rows


def run(
    comm: MPI.Intracomm,
    orders: Sequence[int],
    fields: Sequence[int],
    output: Path,
    *,
    mesh: str | None,
    box: Sequence[int],
    device: str,
    asked: Sequence[str],
    effort: Effort,
) -> ExchangeRecord:
    """Measures on the ranks this was started with, prints a block for each order and number of fields, and writes
    exchange.json (after every block) and exchange-ranks-P.png. (collective)

    Raises RefusedError on all ranks for fewer than 2 ranks, choices that do not work here, and sizes that do not fit.
    """
    if comm.size < 2:
        raise RefusedError("an exchange needs at least 2 ranks: start with mpiexec -n 2, or give --ranks")
    opened = weft.device.open(device)
    console = Console() if comm.rank == 0 else Silent()
    texts = asked or ["auto"]
    works = choices(comm, opened, texts)
    dealt = None
    if mesh:
        dealt = weft.Mesh.read(mesh, comm=comm)
    elements = comm.allreduce(dealt.elements, MPI.MAX) if dealt else math.ceil(math.prod(box) / comm.size)
    # A value and an index per point and choice; the vectors of points and of degrees of freedom; the ids and their
    # look-up tables; the elements, and the numbering of their faces and edges.
    points = elements * (max(orders) + 1) ** 3
    vectors = points * (8 * max(fields) * 4 + 16 * len(works))
    require(
        f"order {max(orders)} with {max(fields)} fields on {mesh or ' x '.join(map(str, box))} elements",
        (2048 * elements + 64 * points + vectors, 0 if opened.is_host else vectors),
        budget(opened, comm),
        "use a smaller mesh, lower orders or fewer fields",
    )
    if dealt is None:
        dealt = weft.Mesh.box(list(box), comm=comm)
    record: ExchangeRecord = {
        "versions": versions(),
        "machine": machine(opened, comm),
        "placement": placement(opened, comm),
        "warning": crowd_warning(comm),
        "mesh": {"source": dealt.source, "elements": dealt.global_elements},
        "bound": BOUND,
        "links": measure_link(comm, opened, LINK_SIZES, effort),
        "rows": [],
    }
    console.write(table(header(record)))
    if record["warning"]:
        console.warn(record["warning"])
    for order in orders:
        for count in fields:
            if console.terminal:
                console.phase(f"order {order}, {count} fields")
            rows = measure(comm, dealt, opened, texts, order, count, record["links"], effort)
            record["rows"] += rows
            console.write("\n" + block(rows))
            # After every block, so that an interrupted run keeps its results.
            by_first(comm, write_json, output / "exchange.json", {"runs": [record]})
    console.write("\n* fastest, + chosen by the tuner, # both")
    by_first(comm, draw, output, record)
    console.write(f"wrote {plot(output, record)}\nwrote {output / 'exchange.json'}")
    return record


def sweep(ranks: Sequence[int], arguments: Sequence[str], output: Path, time_limit: int) -> list[ExchangeRecord]:
    """Starts `run` by mpiexec on each number of ranks.

    Prints their output, and writes one exchange.json of all runs.
    """
    records: list[ExchangeRecord] = []
    for count in ranks:
        with tempfile.TemporaryDirectory(prefix="weft-exchange-") as folder:
            said = launch(count, ["bench", "exchange", *arguments, "--output", folder], time_limit)
            print("\n".join(text for text in said.splitlines() if not text.startswith("wrote")), flush=True)
            records += json.loads((Path(folder) / "exchange.json").read_text())["runs"]
        write_json(output / "exchange.json", {"runs": records})
        draw(output, records[-1])
        print(f"wrote {plot(output, records[-1])}")
    print(f"wrote {output / 'exchange.json'}")
    return records


def plot(output: Path, record: ExchangeRecord) -> Path:
    """The file that has the plot of a run."""
    return output / f"exchange-ranks-{record['machine']['ranks']}.png"


def draw(output: Path, record: ExchangeRecord) -> None:
    """Writes the plot of a run."""
    title = f"{record['mesh']['source']}, {record['machine']['ranks']} ranks, {record['machine']['device']['name']}"
    title += f", {record['versions']['mpi']}"
    plots.save(communication_plots.exchange(record["rows"], title), plot(output, record))


def header(record: ExchangeRecord) -> list[tuple[str, str]]:
    """The lines above the tables: what is measured, where, and the bound."""
    rows = [
        ("mesh", f"{record['mesh']['source']}: {record['mesh']['elements']:,} elements"),
        ("MPI", f"{record['versions']['mpi']}, {record['machine']['ranks']} ranks"),
        *placement_rows(record["placement"]),
    ]
    for kind, link in record["links"].items():
        where = "within a node" if kind == "within" else "between nodes"
        rows.append(
            (where, f"alpha {seconds(link['alpha_seconds'])}, beta {rate(link['beta_bytes_per_second'], 'B/s')}")
        )
    return rows


def times(ratio: float | None) -> str:
    """A multiple of the bound, in four characters."""
    if ratio is None:
        return "-"
    return f"{ratio:.2f}" if ratio < 9.995 else short(ratio) if ratio < 999.5 else ">999"


def block(rows: Sequence[Exchange]) -> str:
    """The rows of one order and number of fields, a line for each choice."""
    first = rows[0]
    of = {op: {r["choice"]: r for r in rows if r["operation"] == op} for op in OPERATIONS}
    lines = [
        f"order {first['order']}, {first['fields']} field{'s' if first['fields'] > 1 else ''}, {first['ranks']} ranks"
    ]
    for operation, mine in of.items():
        r = next(iter(mine.values()))
        low, high = size_text(r["smallest_message_bytes"]), size_text(r["largest_message_bytes"])
        lines.append(
            f"  {operation:15} {r['messages']} x {low}{f' - {high}' if high != low else ''}, {size_text(r['bytes'])} "
            f"per rank, bound {seconds(r['bound_seconds'])}"
        )
    lines.append(f"{'':20}" + "".join(f"{operation:>20}" for operation in OPERATIONS))
    lines.append(f"{'choice':20}" + f"{'µs':>8} {'GB/s':>6} {'/bnd':>4}" * len(OPERATIONS))
    for choice in dict.fromkeys(r["choice"] for r in rows):
        cells = []
        for operation in OPERATIONS:
            if choice not in of[operation]:  # the path of small messages, where there are none
                cells.append(f"{'-':>7}{'':13}")
                continue
            r = of[operation][choice]
            best = r["seconds"] == min(x["seconds"] for x in of[operation].values())
            star = {(True, True): "#", (True, False): "*", (False, True): "+"}.get((best, r["tuned"]), " ")
            over = times(r["times_bound"])
            speed = gigabytes(r["bandwidth_bytes_per_second"], 2)
            cells.append(f"{short(1e6 * r['seconds']):>7}{star} {speed:>6} {over:>4}")
        lines.append(f"{choice:20}" + "".join(cells))
    return "\n".join(lines)
