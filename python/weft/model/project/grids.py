"""Projection of turbulence: transforms, transposes and pointwise kernels of a grid of points."""

from __future__ import annotations

from weft.model.fabric import fabric
from weft.model.machine import Machine
from weft.model.project.projection import WORDS, OutOfMemoryError, Precision, Projection, at_least_one, with_figures
from weft.model.result import ModelError

STAGES = 2  # second-order Runge-Kutta (GESTS section 3.1)
INVERSE, FORWARD_X, FORWARD_Y = 3, 5, 4  # fields: velocities; Rogallo's five products in x and z, of which four in y
COLUMN_CALLS = STAGES * (INVERSE + FORWARD_Y)  # 14, GESTS section 4.3
ROW_CALLS = STAGES * (INVERSE + FORWARD_X)  # 16, section 5.2
CONTIGUOUS_LINES = STAGES * (INVERSE + FORWARD_X)  # transforms in x, contiguous in memory
STRIDED_LINES = STAGES * (2 * INVERSE + FORWARD_X + FORWARD_Y)  # transforms in y and z, strided (section 2.1)
# Fields that the pointwise kernels of a step read or write (GESTS section 3.2; the truncation mask is half a field).
# Per stage: phase shift of three velocities, mask (6.5); five products of three velocities (8); derivatives of five
# products with the inverse shift, mask (8.5). Predictor: Courant number (3); projection and update from three terms and
# three velocities to the new velocities and the partial sums (12). Corrector: update from terms and partial sums (9).
POINTWISE = STAGES * (6.5 + 8 + 8.5) + 3 + 12 + 9
WORD = 4  # bytes per real number in single precision, as in GESTS


def turbulence_memory_gib(grid: int, ranks: int, batch: int = 1, word: int = WORD) -> float:
    """GESTS Eq. 9: memory per rank in GiB, with `word` bytes per real number."""
    return (8 + 2 * batch + 0.5) * grid**3 / (2 * ranks) * 2 * word / 1024**3


def all_to_all_rate(machine: Machine, ranks: int) -> float:
    """Byte/s over the network of a rank in all-to-alls in which all ranks of a job take part.

    The least of the rank's injection, its part of the node's card, and its part of the links that switches share.
    """
    links = fabric(machine, ranks)
    link = machine.link("group") if links.groups == 1 else machine.link("network")
    if link.all_to_all_bytes_per_second is not None:
        own = link.all_to_all_bytes_per_second.value
    else:
        part = machine.card_bytes_per_second / min(ranks, machine.ranks_per_node)
        own = min(link.bytes_per_second.value, part) * machine.constant("network_efficiency", "turbulence")
    return min(own, links.random_rate)


def all_to_all_seconds(machine: Machine, ranks: int, members: int, stride: int, volume: float, calls: float) -> float:
    """Time (s) of `calls` all-to-alls among the ranks 0, stride, 2 stride, …, each with `volume` bytes per rank.

    All other ranks of the job exchange in communicators of the same shape at the same time. Inside a node, the messages
    to each level take its rate, one after another, because a copy engine serves one message at a time (GESTS section
    5.2). Between nodes, all messages take the rate of the network, the slowest link (section 5). A message takes its
    transfer or the gap of LogGP (Alexandrov et al. 1995), whichever is longer. The gap is what the software takes for a
    message, and that is the latency inside a node. The latency of the network counts once: all messages are on their
    way at the same time. What a rank keeps is copied in its memory meanwhile; one that is alone copies nothing
    (docs/fft.md).
    """
    if ranks == 1:
        return 0.0
    message = volume / members
    kept = 2 * message / machine.device.stream_bytes_per_second.value
    if members == 1:
        return calls * kept

    gap = machine.link("node").latency_seconds.value

    def sent(count: int, rate: float, least: float) -> float:
        return count * max(message / rate, least)

    if (members - 1) * stride >= machine.ranks_per_node:
        network = machine.link("network")
        least = min(gap, network.latency_seconds.value)
        travel = sent(members - 1, all_to_all_rate(machine, ranks), least)
        travel = max(travel, network.busy(message * (members - 1)))
        return calls * max(kept, travel + network.latency_seconds.value)
    package = -(-min(machine.ranks_per_package, members * stride) // stride) - 1  # others of the first rank's package
    travel, waits = 0.0, []
    for count, link in ((package, machine.link("device")), (members - 1 - package, machine.link("node"))):
        rate = link.all_to_all_bytes_per_second or link.bytes_per_second
        travel += sent(count, rate.value, link.latency_seconds.value)
        waits += [link.latency_seconds.value] * (count > 0)
    return calls * max(kept, travel + max(waits))


def transform_rates(machine: Machine, grid: int, word: int = WORD) -> tuple[float, float]:
    """Byte/s of transforms of contiguous and of strided lines of `grid` points: measured ones, or by efficiency."""
    device = machine.device
    if device.transforms is not None:
        return device.transforms.rates(grid)
    stream, limit = device.stream_bytes_per_second.value, device.cached_fft_bytes
    # A line that does not fit into the local memory of a multiprocessor takes two passes through memory.
    passes = 2 if limit is not None and 2 * word * grid > limit.value else 1
    return stream / passes, stream * machine.constant("strided_efficiency", "turbulence") / passes


def turbulence(
    machine: Machine, ranks: int, *, grid: int, rows: int = 1, batch: int = 1, precision: Precision = "single"
) -> Projection:
    """One time step of GESTS's Fourier pseudo-spectral DNS on `rows` x (ranks / rows) ranks; one row means slabs.

    `batch` fields are exchanged per call (Q of Eq. 9). Raises ModelError if the grid does not fit.
    """
    machine.require(ranks)
    at_least_one(grid=grid, rows=rows, batch=batch)
    if ranks % rows:
        raise ModelError(f"{ranks} ranks cannot be divided into {rows} rows; the number of rows must divide the ranks")
    columns = ranks // rows
    if columns > grid or rows > grid:
        raise ModelError(
            f"the process grid {rows} x {columns} is too large for {grid}^3 points: at most {grid} ranks per direction"
        )
    word = WORDS[precision]
    memory = turbulence_memory_gib(grid, ranks, batch, word)
    if memory * 1024**3 > machine.device.memory_bytes.value:
        room = machine.device.memory_bytes.value / 1024**3
        raise OutOfMemoryError(
            f"{grid}^3 points on {ranks} rank{'s' * (ranks > 1)} need {memory:.4g} GiB per rank (GESTS Eq. 9), but a "
            f"device has {room:.4g} GiB: use more ranks or a smaller grid"
        )
    volume = word * grid**3 / ranks  # bytes per field and rank
    contiguous, strided = transform_rates(machine, grid, word)
    kernels = machine.device.stream_bytes_per_second.value * machine.constant("kernel_efficiency", "turbulence")
    kernels /= 1 + machine.constant("brick_overhead", "turbulence") * grid / columns / 1000
    # One rank per column still packs and copies to itself (GESTS Table 4, case 3); one row skips its exchange (4.3).
    # In fields that ranks share, an exchange is a wait for the others.
    row_calls, column_calls = ROW_CALLS if rows > 1 else 0, COLUMN_CALLS
    in_place = machine.in_place(ranks, rows)
    sent = 0.0 if in_place else volume * batch
    phases = {
        "FFT": 2 * volume * (CONTIGUOUS_LINES / contiguous + STRIDED_LINES / strided),
        "pack and unpack": 0.0 if in_place else 4 * volume * (row_calls + column_calls) / kernels,
        "row MPI": all_to_all_seconds(machine, ranks, rows, 1, sent, row_calls / batch),
        "column MPI": all_to_all_seconds(machine, ranks, columns, rows, sent, column_calls / batch),
        "other": POINTWISE * volume / kernels,
    }
    projection = Projection("turbulence", machine.title, ranks, "step", phases, precision=precision)
    return with_figures(projection, {"memory (GiB)": memory, "points/s": grid**3 / projection.seconds}, grid=grid)


def alltoall_bandwidth(volume: float, seconds: float) -> float:
    """GESTS Eq. 13: P2P x R / t, in byte/s per rank."""
    return volume / seconds
