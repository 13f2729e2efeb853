"""The limit of each GPU kernel, from counters of its machine code on an emulator. See docs/model-kernels.md.

The counters were recorded by benchmarks/kernel_counters.py from sm_90 machine code, and are kept in
kernel_counters.jsonl. A kernel's blocks are customers of a closed queueing network; its throughput is that of exact
mean value analysis (Reiser and Lavenberg, J. ACM 27, 1980). No constant is fitted.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from weft.model import formulas
from weft.model.chips import Chip
from weft.model.result import ModelError

METHOD = "kernels"
SECTOR = 32  # bytes
LANES = 32
MATRIX = 8 * 8 * 4  # multiply-adds of one matrix instruction on doubles
SCHEDULERS = 4  # schedulers of a multiprocessor; each issues an instruction per clock


@dataclass(frozen=True)
class Counters:
    """The counters of one kernel, summed over its launches in one run."""

    run: str  # workload of benchmarks/kernel_counters.cpp
    kernel: str  # file.name
    real: str  # double or float
    order: int  # of the run
    tile: int  # elements per block, 1 if the kernel has no tiles
    elements: int  # elements covered by the launches of the Poisson operator; 0 for other kernels
    blocks: int
    threads: int  # in all blocks
    registers: int  # per thread
    shared_bytes: int  # per block
    instructions: int  # of warps
    lanes: int  # instructions of threads
    barriers: int
    pipes: dict[str, int]  # instructions of warps
    flops: int
    loads: tuple[int, int, int, int]  # global memory: requests, sectors, least possible sectors, wavefronts
    stores: tuple[int, int, int, int]
    shared_loads: tuple[int, int, int]  # requests, wavefronts, least possible wavefronts
    shared_stores: tuple[int, int, int]
    memory_sectors: tuple[int, int]  # read and written, each once per launch
    block_sectors: int  # read, each once per block
    path: tuple[int, int, int, int]  # of the blocks in turn: latencies of memory, L2 and shared memory, other clocks

    @property
    def threads_per_block(self) -> int:
        """Threads of one block."""
        return self.threads // self.blocks

    @property
    def sector_ratio(self) -> float:
        """Sectors of all requests to global memory over the least that the same bytes need."""
        return (self.loads[1] + self.stores[1]) / max(1, self.loads[2] + self.stores[2])

    @property
    def conflict_ratio(self) -> float:
        """Wavefronts of shared memory over the least: 1 without bank conflicts, 0 without shared memory."""
        least = self.shared_loads[2] + self.shared_stores[2]
        return (self.shared_loads[1] + self.shared_stores[1]) / least if least else 0.0

    @property
    def points(self) -> int:
        """The local points that the launches of the Poisson operator covered; 0 for other kernels."""
        return self.elements * (self.order + 1) ** 3

    @property
    def geometry(self) -> str:
        """The geometry of the Poisson operator, or an empty string."""
        name = self.kernel.rpartition("poisson_")[2]
        return name.rpartition("_")[0] if self.points else ""


@dataclass(frozen=True)
class Prediction:
    """Clocks of a multiprocessor per block, by resource, and derived figures."""

    counters: Counters
    chip: Chip
    occupancy: formulas.Occupancy
    clocks: dict[str, float]  # by resource
    least: float  # clocks of the least bytes at the streaming rate
    total: float
    least_bytes: float  # per block
    total_without_l2: float  # if the L2 kept nothing from block to block

    @property
    def share(self) -> float:
        """Share of the streaming roofline that the kernel reaches."""
        return self.least / self.total

    @property
    def share_without_l2(self) -> float:
        """`share` if the L2 kept nothing from block to block: a lower bound for meshes that are too large for it."""
        return self.least / self.total_without_l2

    @property
    def largest_cube(self) -> float:
        """Points of the largest cube of elements for which the L2 holds the operator's data of one layer of elements.

        Elements are processed in the order of their coordinates. Up to this size, neighbours find their shared data in
        the L2; far beyond it `share_without_l2` holds. 0 for other kernels.
        """
        c = self.counters
        per_element = self.least_bytes * c.blocks / c.elements if c.points else 0.0
        cube: float = (self.chip.l2_capacity.value / per_element) ** 1.5 * (c.order + 1) ** 3 if c.points else 0.0
        return cube

    @property
    def limit(self) -> str:
        """The resource that needs the most clocks."""
        return max(self.clocks, key=lambda name: self.clocks[name])

    @property
    def seconds(self) -> float:
        """Time of the counted launches if every multiprocessor always had its share of the blocks."""
        blocks = self.counters.blocks / self.chip.multiprocessors.value
        return blocks * self.total / self.chip.clock.value


# --- the model -------------------------------------------------------------------------------------------------------


def mean_value_analysis(customers: int, demands: Sequence[float], delay: float) -> float:
    """Throughput of a closed network of queues with these service demands and a delay without a queue (exact MVA)."""
    queues = [0.0] * len(demands)
    throughput = 0.0
    for n in range(1, customers + 1):
        residence = [d * (1 + q) for d, q in zip(demands, queues, strict=True)]
        throughput = n / (delay + sum(residence))
        queues = [throughput * r for r in residence]
    return throughput


def resources(counters: Counters, chip: Chip) -> dict[str, float]:
    """Clocks that a multiprocessor needs per block on each resource, without any other limit."""
    c, blocks = counters, counters.blocks
    pipes = c.pipes
    read, written = c.memory_sectors
    wavefronts = c.loads[3] + c.stores[3] + c.shared_loads[1] + c.shared_stores[1] + pipes["shuffle"]
    clocks = {
        "DRAM": SECTOR * (read + written) / chip.per_clock(chip.stream_rate),
        "L2": SECTOR * (c.block_sectors + c.stores[1]) / chip.per_clock(chip.l2.value),
        "LSU": wavefronts,
        "issue": c.instructions / SCHEDULERS,
        # Matrix multiply-adds of doubles use the same pipe (docs/model-kernels.md).
        "FP64": pipes["f64"] * LANES / chip.fp64.value + pipes["tensor"] * MATRIX / chip.fp64_matrix.value,
        # Includes integer multiply-adds, which 64 of the FP32 lanes of each of these GPUs can execute.
        "FP32": max(pipes["f32"] * LANES / chip.fp32.value, pipes["imad"] * LANES / 64),
        "integer": pipes["integer"] * LANES / chip.integer.value,
        "special": pipes["special"] * LANES / chip.special.value,
        "blocks": blocks / chip.per_clock(chip.block_rate.value),
    }
    return {name: value / blocks for name, value in clocks.items()}


def least_bytes(counters: Counters) -> float:
    """The least bytes per block: of the Poisson operator by hipBone's formula on a large mesh, else as counted."""
    if not counters.points:
        return SECTOR * sum(counters.memory_sectors) / counters.blocks
    size = formulas.large_mesh(counters.order, counters.elements, 8 if counters.real == "double" else 4)
    flat = counters.elements if counters.geometry in ("affine", "box") else 0
    method = formulas.Method(geometry="trilinear" if flat else counters.geometry, parallelepipeds=flat)
    return formulas.weft_operator_bytes(size, method).value / counters.blocks


def predict(counters: Counters, chip: Chip) -> Prediction:
    """The clocks per block of a kernel with many blocks. Raises ModelError for blocks that do not fit."""
    c = counters
    occupancy = formulas.occupancy(chip.multiprocessor, c.threads_per_block, c.registers, c.shared_bytes)
    if occupancy.blocks < 1:
        raise ModelError(f"{c.kernel}, N = {c.order}: a block does not fit on a multiprocessor of {chip.title}")
    clocks = resources(c, chip)
    from_memory, from_l2, from_shared, other = (value / c.blocks for value in c.path)
    inside = max(value for name, value in clocks.items() if name not in ("DRAM", "L2", "blocks"))
    # A block alone: the latencies of memory and of its chain of instructions, as far as its use of the pipes does not
    # hide them.
    chain = from_shared * chip.shared_latency.value + other
    waits = from_memory * chip.global_latency.value + from_l2 * chip.l2_latency.value
    delay = waits + max(0.0, chain - inside)

    def total(memory: float) -> float:
        return 1 / mean_value_analysis(occupancy.blocks, (memory, inside, clocks["blocks"]), delay)

    memory = max(clocks["DRAM"], clocks["L2"])
    again = SECTOR * (c.block_sectors + c.stores[1]) / c.blocks / chip.per_clock(chip.stream_rate)
    moved = least_bytes(c)
    found = Prediction(
        c, chip, occupancy, clocks, moved / chip.per_clock(chip.stream_rate), total(memory), moved,
        total(max(memory, again)),
    )  # fmt: skip
    clocks["latency"] = (delay + memory + inside + clocks["blocks"]) / occupancy.blocks
    return found


# --- the recorded counters -------------------------------------------------------------------------------------------


def parse(line: dict[str, Any]) -> Counters:
    """Counters from a line of kernel_counters.jsonl."""
    fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in line.items()}
    return Counters(**fields)


def read_record(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The lines of a record that comes with weft: the first, which describes its origin, and the others."""
    text = (files("weft.model") / name).read_text(encoding="utf-8")
    head, *lines = (json.loads(line) for line in text.splitlines())
    return head, lines


@functools.cache
def recorded() -> tuple[dict[str, str], list[Counters]]:
    """A description of how the counters were recorded, and the counters."""
    head, lines = read_record("kernel_counters.jsonl")
    return head, [parse(line) for line in lines]


def select(
    found: Iterable[Counters], kernel: str = "", precision: str = "", orders: Sequence[int] = ()
) -> list[Counters]:
    """The counters of kernels whose name contains `kernel`, of one precision, and of some orders."""
    real = {"": "", "double": "double", "single": "float"}[precision]
    return [
        c
        for c in found
        if kernel in c.kernel and real in ("", c.real) and (not orders or not c.order or c.order in orders)
    ]


# --- measured times --------------------------------------------------------------------------------------------------


def measured_shares(path: str | Path, chip: Chip) -> dict[tuple[str, int, str, int], float]:
    """Shares of the streaming roofline in an operator.json of `weft bench operator` on a GPU.

    By geometry, order, real and threads per block. The roofline is that of `chip`. Raises ModelError if the file is not
    such a record.
    """
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        real = {"double": "double", "single": "float"}[record["precision"]]
        threads = {
            (o["geometry"], o["order"], o.get("threads", "")): o["threads_per_block"] for o in record["occupancy"]
        }
        rows = [
            ((r["geometry"], r["order"], r.get("threads", "")), r["bytes"] / r["seconds"])
            for r in record["rows"]
            if r["kernels"] == "portable"
        ]
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ZeroDivisionError) as error:
        raise ModelError(f"{path}: not an operator.json of 'weft bench operator' ({error})") from None
    if not threads:
        raise ModelError(f"{path}: measured on the host; give a record that was measured on a GPU")
    return {(of[0], of[1], real, threads[of]): rate / chip.stream_rate for of, rate in rows if of in threads}


# --- output ----------------------------------------------------------------------------------------------------------

COLUMNS = ("DRAM", "L2", "LSU", "issue", "FP64", "FP32", "integer", "blocks", "latency")


def rows(
    predictions: Sequence[Prediction], measured: dict[tuple[str, int, str, int], float] | None = None
) -> list[tuple[str, ...]]:
    """The table: clocks of a multiprocessor per 32 points of the Poisson operator, and per block of other kernels."""
    head = [
        "KERNEL",
        "N",
        "REAL",
        "REGS",
        "WARPS",
        "SECTORS",
        "CONFLICTS",
        "CLOCKS PER",
        *(c.upper() for c in COLUMNS),
        "TOTAL",
        "LIMIT",
    ]
    head += ["% OF ROOFLINE", "% WITHOUT L2", *(["MEASURED %", "ERROR"] if measured else [])]
    lines = [tuple(head)]
    for p in predictions:
        c = p.counters
        per = c.points / c.blocks / LANES if c.points else 1.0
        cells = [c.kernel, str(c.order or "-"), c.real, str(c.registers), str(p.occupancy.warps)]
        cells += [f"{c.sector_ratio:.1f}x", f"{c.conflict_ratio:.1f}x" if c.conflict_ratio else "-"]
        cells += ["32 points" if c.points else "block"]
        cells += [f"{p.clocks[name] / per:.0f}" for name in COLUMNS]
        cells += [f"{p.total / per:.0f}", p.limit]
        cells += [f"{100 * p.share:.0f}", f"{100 * p.share_without_l2:.0f}"]
        if measured:
            found = measured.get((c.geometry, c.order, c.real, c.threads_per_block))
            cells += ["", ""] if found is None else [f"{100 * found:.0f}", f"{100 * (p.share - found):+.0f}"]
        lines.append(tuple(cells))
    return lines


def as_json(predictions: Sequence[Prediction], chip: Chip) -> dict[str, Any]:
    """The predictions with the figures of the GPU and their sources, for a JSON file."""
    head, _ = recorded()
    return {
        "gpu": chip.title,
        "figures": {name: {"value": f.value, "source": f.source} for name, f in chip.figures().items()},
        "recorded": head,
        "kernels": [
            {
                "kernel": p.counters.kernel, "run": p.counters.run, "order": p.counters.order, "real": p.counters.real,
                "registers": p.counters.registers, "threads_per_block": p.counters.threads_per_block,
                "warps_per_multiprocessor": p.occupancy.warps, "occupancy_limited_by": p.occupancy.limited_by,
                "clocks_per_block": p.clocks, "total_clocks_per_block": p.total, "least_bytes_per_block": p.least_bytes,
                "sectors_over_least": p.counters.sector_ratio,
                "shared_wavefronts_over_least": p.counters.conflict_ratio,
                "limit": p.limit, "share_of_streaming_roofline": p.share, "share_without_l2": p.share_without_l2,
                "points_of_largest_cube_that_l2_serves": p.largest_cube,
            }
            for p in predictions
        ],
    }  # fmt: skip


def operator_rates(predictions: Sequence[Prediction]) -> dict[str, dict[int, tuple[float, float]]]:
    """hipBone's Fig. 3 as predicted: for each kernel of the Poisson operator, GFLOP/s and roofline by order.

    The count of operations is that of Eq. 4, the roofline that of the kernel's own bytes at the streaming rate.
    """
    lines: dict[str, dict[int, tuple[float, float]]] = {}
    for p in predictions:
        c = p.counters
        if not c.points:
            continue
        flops = formulas.operator_flops(formulas.large_mesh(c.order, c.elements)).value
        rate = flops / p.seconds / 1e9
        lines.setdefault(f"{c.kernel}, {c.real}", {})[c.order] = (rate, rate / p.share)
    return lines
