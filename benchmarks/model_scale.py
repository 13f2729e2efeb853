"""Counts the messages of meshes' partitions on 10^3 to 10^5 ranks, and compares schedules on machines' networks.

    python benchmarks/model_scale.py --output benchmarks/results/model_scale.json --plots docs

No rank runs. The meshes are refined to about 400,000 elements and cut by weft's partitioner; who shares which point
comes from weft's numbering of points. Each message then takes the route of the machine's topology. A machine with fewer
nodes than a job needs gets more groups, leaves or routers of the same kind. Ranks fill nodes, and nodes groups, in
order. Times are those of `weft.model.project`: a latency, a gap for each further message of a rank, and then the
longest of what the rank, the card of its node, and the busiest link between switches need. `crystal` takes this once
per step and packs with a kernel before and after each. Meshes: a box, and ../shared/data/meshes/hemi.re2.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from weft import _weft
from weft.mesh_io import read_solid
from weft.mesh_io.arrays import from_arrays
from weft.mesh_io.partition import partition
from weft.model import crystal, network
from weft.model.machine import Machine, load
from weft.model.project.exchanges import waiting_seconds
from weft.report.plots import STYLE, save, style

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MESHES = Path(__file__).resolve().parents[2] / "shared/data/meshes"
MACHINES = ("frontier", "summit", "titan", "frontier-cpu")
ORDERS = (1, 3, 7)
WORD = 8


# --- meshes and partitions -----------------------------------------------------------------------------------------


def whole_of(raw: Any) -> Any:
    """The connected mesh of a reader's arrays."""
    return _weft.mesh.WholeMesh(
        raw.vertices, raw.nodes, raw.boundaries, raw.boundary_names, raw.periodic, raw.curve_sides, raw.curve_values,
        raw.source,
    )  # fmt: skip


def hexahedra(ids: Ints) -> Ints:
    """The corners of all cells of lattices of points [lattices][z][y][x], in VTK's order."""
    n = ids.shape[1] - 1
    around = ((0, 0), (1, 0), (1, 1), (0, 1))  # x, y
    corners = [ids[:, z : n + z, y : n + y, x : n + x].ravel() for z in (0, 1) for x, y in around]
    return np.stack(corners, axis=1)


def refined(raw: Any, times: int) -> Any:
    """Each element cut into times^3, at the points of that order, which are shared as the elements share them."""
    if times == 1:
        return whole_of(raw)
    mesh = _weft.mesh.distribute(whole_of(raw), np.zeros(len(raw.vertices), np.int32), 1, MPI.COMM_SELF)
    n = times + 1
    ids = np.asarray(mesh.point_ids(times)).reshape(-1, n, n, n)
    places = np.asarray(mesh.point_coordinates(times)).reshape(-1, 3)
    known, inverse = np.unique(ids, return_inverse=True)
    points = np.zeros((len(known), 3))
    points[inverse.ravel()] = places
    ids = inverse.reshape(ids.shape)
    return whole_of(from_arrays(points, hexahedra(ids)))


def box(side: int) -> Any:
    """A cube of side^3 elements."""
    line = np.arange(side + 1) / side
    z, y, x = np.meshgrid(line, line, line, indexing="ij")
    ids = np.arange((side + 1) ** 3).reshape((side + 1,) * 3)
    points = np.stack([x.ravel(), y.ravel(), z.ravel()], axis=1)
    return whole_of(from_arrays(points, hexahedra(ids[None])))


@dataclass(frozen=True)
class Messages:
    """Who sends to whom, and how many vertices, edges and faces the two ranks share."""

    source: Ints
    target: Ints
    entities: Floats  # [messages][3]

    def bytes_at(self, order: int) -> Floats:
        """The bytes of one field at an order: every shared point once."""
        return WORD * (self.entities @ np.array([1.0, order - 1.0, (order - 1.0) ** 2]))


def shared(ids: Ints, part: Ints, ranks: int) -> Messages:
    """The messages of a partition, from the ids of vertices, edges and faces of all elements (points of order 2)."""
    middle = np.array([sum(c == 1 for c in place) for place in np.ndindex(3, 3, 3)])
    surface = middle < 3
    id_ = ids[:, surface].ravel()
    dimension = np.zeros(int(ids.max()) + 1, np.int8)
    dimension[id_] = np.tile(middle[surface], len(ids))
    pairs = np.unique(id_ * ranks + np.repeat(part, int(surface.sum())))  # (id, rank), each once
    id_, rank = pairs // ranks, pairs % ranks
    first = np.flatnonzero(np.diff(id_, prepend=-1))
    holders = np.diff(first, append=len(id_))
    messages, kinds = [], []
    for count in np.unique(holders[holders > 1]):
        begin = first[holders == count]
        group = rank[begin[:, None] + np.arange(count)]
        kind = dimension[id_[begin]]
        for a in range(count):
            for b in range(count):
                if a != b:
                    messages.append(group[:, a] * ranks + group[:, b])
                    kinds.append(kind)
    key, inverse = np.unique(np.concatenate(messages), return_inverse=True)
    kind = np.concatenate(kinds)
    entities = np.stack([np.bincount(inverse[kind == d], minlength=len(key)) for d in range(3)], axis=1)
    return Messages(key // ranks, key % ranks, entities.astype(float))


# --- networks ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A machine with room for a job, and the links between its switches."""

    machine: Machine
    kind: str
    sizes: tuple[int, ...]
    rates: Floats  # byte/s of each link between switches

    def links(self, a: Ints, b: Ints) -> Iterator[tuple[NDArray[np.bool_], Ints]]:
        """The links between switches on the ways from nodes a to nodes b: whose ways take one, and which."""
        if self.kind == "torus":
            router = self.machine.topology.nodes_per_router  # type: ignore[union-attr]
            here, there = a // router, b // router
            for k, size in enumerate(self.sizes):
                stride = int(np.prod(self.sizes[k + 1 :]))
                up = (there // stride % size - here // stride % size) % size
                forward = up <= size - up
                left = np.where(forward, up, size - up)
                for _ in range(size // 2):
                    moving = left > 0
                    yield moving, (here * len(self.sizes) + k) * 2 + np.where(forward, 0, 1)
                    at = here // stride % size
                    step = (at + np.where(forward, 1, -1)) % size - at
                    here = np.where(moving, here + step * stride, here)
                    left = left - moving
        elif self.kind == "dragonfly":
            groups, per_group = self.sizes[:2]
            first, last = a // per_group, b // per_group
            yield first != last, first * groups + last
        else:
            per_leaf, leaves = self.sizes[:2]
            spines = max(1, per_leaf // (*self.sizes, 1)[2])
            first, last, spine = a // per_leaf, b // per_leaf, b % spines
            yield first != last, first * spines + spine
            yield first != last, (leaves + last) * spines + spine


def place(name: str, ranks: int) -> Place:
    """A machine, with more groups, leaves or routers if the job needs them."""
    machine = load(name)
    topology = machine.topology
    assert topology is not None
    nodes = -(-ranks // machine.ranks_per_node)
    sizes, link = topology.sizes, topology.link_bytes_per_second
    rate = machine.card_bytes_per_second if link is None else link.value
    rate *= 1.0 if topology.usable_share is None else topology.usable_share.value
    if topology.kind == "torus":
        routers = -(-nodes // topology.nodes_per_router)
        if routers > np.prod(sizes):
            sizes = tuple(-(-s * round(100 * (routers / np.prod(sizes)) ** (1 / 3)) // 100) + 1 for s in sizes)
        widths = np.array(topology.widths or (1,) * len(sizes), float)
        rates = np.tile(np.repeat(rate * widths, 2), int(np.prod(sizes)))
    elif topology.kind == "dragonfly":
        groups, per_group, each = (*sizes, 1)[:3]
        groups = max(groups, -(-nodes // per_group))
        sizes, rates = (groups, per_group, each), np.full(groups * groups, each * rate)
    else:
        per_leaf, leaves, taper = (*sizes, 1)[:3]
        leaves = max(leaves, -(-nodes // per_leaf))
        sizes, rates = (per_leaf, leaves, taper), np.full(2 * leaves * max(1, per_leaf // taper), rate)
    return Place(machine, topology.kind, sizes, rates)


def check_routes(where: Place) -> None:
    """Compares the links of random pairs with those of `weft.model.network`, whose replays SimGrid confirms."""
    topology = where.machine.topology
    assert topology is not None
    kind, sizes = where.kind, where.sizes
    theirs = network.KINDS[kind](*sizes)
    per = topology.nodes_per_router if kind == "torus" else 1
    generator = np.random.default_rng(0)
    a, b = generator.integers(0, theirs.nodes * per, (2, 50))
    mine: list[list[int]] = [[] for _ in a]
    for takes, link in where.links(a, b):
        for k in np.flatnonzero(takes):
            mine[k].append(int(link[k]))
    offset = {"torus": 0, "dragonfly": 2 * theirs.nodes, "fat-tree": 2 * theirs.nodes}[kind]
    for k in range(len(a)):
        route = [i - offset for i in theirs.route(int(a[k]) // per, int(b[k]) // per)]
        if kind != "torus":
            route = route[1:-1]  # without the links of the two nodes
            route = [i for i in route if i >= 0]
        if route != mine[k]:
            raise AssertionError(f"{kind}: another route from node {a[k]} to {b[k]}: {mine[k]}, not {route}")


def step_seconds(where: Place, source: Ints, target: Ints, size: Floats, ranks: int) -> tuple[float, str]:
    """Time (s) of one set of concurrent messages on the slowest rank, node or link, and which of these it is."""
    machine = where.machine
    near, far = machine.link("node"), machine.link("network")
    a, b = source // machine.ranks_per_node, target // machine.ranks_per_node
    out = a != b
    counts = [np.bincount(source[m], minlength=ranks).tolist() for m in (~out, out)]
    data = [np.bincount(source[m], weights=size[m], minlength=ranks) for m in (~out, out)]
    leaving = np.bincount(a[out], weights=size[out], minlength=1)
    pair, inverse = np.unique(a[out] * (int(max(a.max(), b.max())) + 1) + b[out], return_inverse=True)
    together = np.bincount(inverse, weights=size[out], minlength=len(pair))
    nodes = int(max(a.max(), b.max())) + 1
    load = np.zeros(len(where.rates))
    for takes, link in where.links(pair // nodes, pair % nodes):
        load += np.bincount(link[takes], weights=together[takes], minlength=len(load))
    parts = {
        "latency": max(waiting_seconds(machine, *messages) for messages in set(zip(*counts, strict=True))),
        "links in a node": float(data[0].max()) / near.bytes_per_second.value,
        "rank's link": float(data[1].max()) / far.bytes_per_second.value,
        "node's card": float(leaving.max(initial=0.0)) / machine.card_bytes_per_second,
        "links between switches": float((load / where.rates).max(initial=0.0)),
    }
    flow = max(parts["rank's link"], parts["node's card"], parts["links between switches"])
    most = max(parts, key=lambda name: parts[name])
    return parts["latency"] + parts["links in a node"] + flow, most


def hops(where: Place, messages: Messages) -> float:
    """The mean number of links between switches that a message between nodes takes."""
    per = where.machine.ranks_per_node
    a, b = messages.source // per, messages.target // per
    out = a != b
    taken = sum(int(takes.sum()) for takes, _ in where.links(a[out], b[out]))
    return taken / max(1, int(out.sum()))


def schedules(where: Place, messages: Messages, ranks: int, order: int) -> dict[str, Any]:
    """The times of both schedules for one field, what limits pairwise, and the messages and bytes of a rank."""
    size = messages.bytes_at(order)
    source, target = messages.source, messages.target
    pairwise, limit = step_seconds(where, source, target, size, ranks)
    folded, most_sent, total = 0.0, np.zeros(ranks), 0
    device = where.machine.device
    for holder, partner, moved in crystal.steps(source, target, size, ranks):
        sent = np.bincount(holder, weights=moved, minlength=ranks)
        to = np.full(ranks, -1)
        to[holder] = partner  # one for all that a rank sends in a step
        sends = np.flatnonzero(to >= 0)
        seconds, _ = step_seconds(where, sends, to[sends], sent[sends], ranks)
        folded += seconds + 2 * device.kernel_seconds.value
        folded += 4 * float(sent.max()) / device.stream_bytes_per_second.value
        most_sent += sent
        total += len(sends)
    return {
        "order": order, "bytes_per_rank": float(size.sum() / ranks), "bytes_per_message": float(size.mean()),
        "crystal_messages_per_rank": total / ranks, "crystal_bytes_per_rank": float(most_sent.mean()),
        "pairwise_seconds": pairwise, "crystal_seconds": folded, "limit_of_pairwise": limit,
        "best": "pairwise" if pairwise <= folded else "crystal",
    }  # fmt: skip


# --- the program ---------------------------------------------------------------------------------------------------


def missing(name: str, ranks: list[int], rows: list[dict[str, Any]]) -> list[int]:
    """The numbers of ranks that the rows do not have for a mesh."""
    return [count for count in ranks if (name, count) not in {(r["mesh"], r["ranks"]) for r in rows}]


def meshes(elements: int, ranks: list[int], rows: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The meshes that rows are missing of, each with about this many elements."""
    if missing("box", ranks, rows):
        yield "box", box(round(elements ** (1 / 3)))
    if missing("hemi.re2", ranks, rows):
        raw = read_solid(MESHES / "hemi.re2")
        yield "hemi.re2", refined(raw, max(1, round((elements / len(raw.vertices)) ** (1 / 3))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=393_216)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1024, 8192, 98304])
    parser.add_argument("--output", type=Path, metavar="FILE", help="rows that it already has are not computed again")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="folder for model-scale.png")
    parser.add_argument("--plot-again", type=Path, metavar="FILE", help="only plot, from an earlier --output")
    arguments = parser.parse_args()
    if arguments.plot_again:
        rows = json.loads(arguments.plot_again.read_text())["rows"]
        plot(rows, arguments.plots / "model-scale.png")
        print(table(rows))
        return
    rows: list[dict[str, Any]] = []
    if arguments.output and arguments.output.exists():
        rows = json.loads(arguments.output.read_text())["rows"]
    for name, whole in meshes(arguments.elements, arguments.ranks, rows):
        mesh = _weft.mesh.distribute(whole, np.zeros(len(whole.neighbors), np.int32), 1, MPI.COMM_SELF)
        element = np.asarray(mesh.element_ids)
        ids = np.asarray(mesh.point_ids(2)).reshape(-1, 27)
        for ranks in missing(name, arguments.ranks, rows):
            began = time.perf_counter()
            part = partition(whole, ranks, "metis")
            by = "rcb" if np.array_equal(part, whole.recursive_bisection(ranks)) else "metis"
            seconds = time.perf_counter() - began
            messages = shared(ids, part[element].astype(np.int64), ranks)
            neighbors = np.bincount(messages.source, minlength=ranks)
            row: dict[str, Any] = {
                "mesh": name, "elements": len(element), "ranks": ranks, "partitioner": by,
                "partition_seconds": seconds, "messages": len(messages.source),
                "neighbors_mean": float(neighbors.mean()), "neighbors_max": int(neighbors.max()), "machines": {},
            }  # fmt: skip
            for machine in MACHINES:
                where = place(machine, ranks)
                check_routes(where)
                found = {"topology": where.kind, "sizes": where.sizes, "hops": hops(where, messages),
                         "orders": [schedules(where, messages, ranks, order) for order in ORDERS]}  # fmt: skip
                row["machines"][machine] = found
                times = ", ".join(
                    f"N = {o['order']}: {1e6 * o['pairwise_seconds']:.0f} and {1e6 * o['crystal_seconds']:.0f} us"
                    for o in found["orders"]
                )
                print(f"{name} {ranks} ranks ({by}), {machine}: {found['hops']:.1f} hops; {times}", flush=True)
            rows.append(row)
            if arguments.output:  # after each row, since a run takes minutes
                arguments.output.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    if arguments.plots:
        plot(rows, arguments.plots / "model-scale.png")


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a Markdown table: partitions, hops, and times (µs) of pairwise / crystal at two orders."""
    few, many = ORDERS[0], ORDERS[-1]
    head = ["mesh", "ranks", "cut by", "neighbours (most)", f"bytes per message, N = {few}, {many}"]
    head += [f"hops: {', '.join(MACHINES[:3])}", *(f"{m}: N = {few}; {many}" for m in MACHINES)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for r in rows:
        on = r["machines"]
        sizes = [on["frontier"]["orders"][k]["bytes_per_message"] for k in (0, -1)]
        cells = [
            r["mesh"], f"{r['ranks']:,}", r["partitioner"], f"{r['neighbors_mean']:.0f} ({r['neighbors_max']})",
            ", ".join(f"{s:,.0f}" for s in sizes), ", ".join(f"{on[m]['hops']:.1f}" for m in MACHINES[:3]),
        ]  # fmt: skip
        for machine in MACHINES:
            times = [on[machine]["orders"][k] for k in (0, -1)]
            cells.append(
                "; ".join(f"{1e6 * t['pairwise_seconds']:.0f} / {1e6 * t['crystal_seconds']:.0f}" for t in times)
            )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Neighbours, bytes per message and hops against ranks; and the time of both schedules on each machine."""
    names = list(dict.fromkeys(r["mesh"] for r in rows))
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(2, 4, figsize=(15, 7.4), layout="constrained")
        for index, name in enumerate(names):
            mine = [r for r in rows if r["mesh"] == name]
            x = [r["ranks"] for r in mine]
            axes[0, 0].plot(x, [r["neighbors_mean"] for r in mine], label=name, **style(index))
            axes[0, 0].plot(x, [r["neighbors_max"] for r in mine], linestyle=":", **style(index))
            for k, order in enumerate(ORDERS):
                sizes = [r["machines"]["frontier"]["orders"][k]["bytes_per_message"] for r in mine]
                line = ["-", "--", ":"][k]
                label = f"N = {order}" if index == 0 else None
                axes[0, 1].plot(x, sizes, linestyle=line, label=label, **style(index))
        axes[0, 0].set_ylabel("neighbours per rank (dotted: most)")
        axes[0, 1].set_ylabel("bytes per message, one field")
        axes[0, 1].set_yscale("log")
        mesh = "hemi.re2" if "hemi.re2" in names else names[0]
        mine = [r for r in rows if r["mesh"] == mesh]
        for index, machine in enumerate(MACHINES[:3]):
            x = [r["ranks"] for r in mine]
            hops_ = [r["machines"][machine]["hops"] for r in mine]
            kind = mine[0]["machines"][machine]["topology"]
            axes[0, 2].plot(x, hops_, label=f"{machine}, {kind}", **style(index))
        axes[0, 2].set_ylabel("switch links per message")
        for index, machine in enumerate(MACHINES):
            ratio = [r["machines"][machine]["orders"][0] for r in mine]
            x = [r["ranks"] for r in mine]
            axes[0, 3].plot(x, [o["pairwise_seconds"] / o["crystal_seconds"] for o in ratio], label=machine,
                            **style(index))  # fmt: skip
        axes[0, 3].axhline(1, color="black", linewidth=1)
        axes[0, 3].set_yscale("log")
        axes[0, 3].set_ylabel("time, pairwise / crystal, N = 1")
        for place_, machine in enumerate(MACHINES):
            panel = axes[1, place_]
            for k, order in enumerate((ORDERS[0], ORDERS[-1])):
                at = ORDERS.index(order)
                x = [r["ranks"] for r in mine]
                for schedule, line in (("pairwise", "-"), ("crystal", "--")):
                    values = [1e6 * r["machines"][machine]["orders"][at][f"{schedule}_seconds"] for r in mine]
                    panel.plot(x, values, linestyle=line, label=f"{schedule}, N = {order}", **style(k))
            panel.set_yscale("log")
            panel.set_ylabel("time of an exchange (µs)")
            panel.set_title(f"{machine}, {mesh}", fontsize=10, loc="left")
        ranks = sorted({r["ranks"] for r in rows})
        for title, panel in zip(("partitions", "one field", mesh, mesh), axes[0], strict=True):
            panel.set_title(title, fontsize=10, loc="left")
        for panel in axes.flat:
            panel.set_xscale("log")
            panel.set_xticks(ranks, [f"{count:,}" for count in ranks])
            panel.minorticks_off()
            panel.set_xlabel("ranks")
            panel.legend(fontsize=8)
        save(figure, path)


if __name__ == "__main__":
    main()
