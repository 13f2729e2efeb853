"""Descriptions of machines in TOML: device, links by level and topology, each number with its source.

The folder `machines` holds the descriptions that weft knows. Users describe their own machines in copies of its
`template.toml`.
"""

from __future__ import annotations

import difflib
import itertools
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from weft.model import caches
from weft.model.result import ModelError

MOST_CONSTANTS = 3  # calibrated constants per machine, or per workload if workloads have their own
MOST_EFFICIENT = 50.0  # data in caches move faster than memory streams, but not so much: larger shares are percentages
NO_NETWORK = "no network"  # beginning of the sources of a network that was not measured
WORKLOADS = ("poisson", "maxwell", "flow", "turbulence")
# The sizes of a problem on which a projection depends, outside which its range widens.
TESTED = {"turbulence": ("ranks", "grid"), "elements": ("ranks", "order", "points per rank")}
Level = Literal["device", "node", "group", "network", "host"]
# The sizes that describe a topology: fewest, most, and their meaning.
SIZES: dict[str, tuple[int, int, str]] = {
    "full": (1, 1, "nodes"),
    "torus": (1, 5, "routers per direction"),
    "fat-tree": (2, 3, "nodes per leaf, leaves, taper"),
    "dragonfly": (2, 3, "groups, nodes per group, links between two groups"),
}


class Form(BaseModel):
    """A table of the file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Number(Form):
    """A number above zero, and its source."""

    value: Annotated[float, Field(gt=0)]
    source: Annotated[str, Field(min_length=3)]


class Share(Form):
    """A number that may be zero, and its source."""

    value: Annotated[float, Field(ge=0)]
    source: Annotated[str, Field(min_length=3)]


def largest_prime(number: int) -> int:
    """The largest prime factor of a number above zero; 1 for 1."""
    factor, largest = 2, 1
    while factor * factor <= number:
        if number % factor == 0:
            number, largest = number // factor, factor
        else:
            factor += 1
    return max(number, largest)


class Transforms(Form):
    """Measured rates of batched 1-D transforms by length, in bytes of data read plus written per second."""

    points: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    contiguous_bytes_per_second: tuple[Annotated[float, Field(gt=0)], ...]
    strided_bytes_per_second: tuple[Annotated[float, Field(gt=0)], ...]
    source: Annotated[str, Field(min_length=3)]

    @model_validator(mode="after")
    def _sound(self) -> Transforms:
        if not len(self.points) == len(self.contiguous_bytes_per_second) == len(self.strided_bytes_per_second):
            raise ValueError("'points' and the two lists of rates must have the same number of entries")
        if any(b <= a for a, b in zip(self.points, self.points[1:], strict=False)):
            raise ValueError("'points' must be in ascending order")
        return self

    def rates(self, points: int) -> tuple[float, float]:
        """The contiguous and the strided rate at a length, interpolated in the logarithm of the length.

        A transform of 3 x 2^k points takes more operations per point than one of 2^k, so only measured lengths with the
        same largest prime factor are used, or those with the nearest one if there are none.
        """
        nearest = min(map(largest_prime, self.points), key=lambda prime: abs(prime - largest_prime(points)))
        chosen = [i for i, known in enumerate(self.points) if largest_prime(known) == nearest]
        at, x = np.log(points), np.log([self.points[i] for i in chosen])
        contiguous, strided = (
            float(np.interp(at, x, [rates[i] for i in chosen]))
            for rates in (self.contiguous_bytes_per_second, self.strided_bytes_per_second)
        )
        return contiguous, strided

    def has_prime(self, points: int) -> bool:
        """Whether a measured length has the largest prime factor of this length."""
        return largest_prime(points) in map(largest_prime, self.points)

    def has_parity(self, points: int) -> bool:
        """Whether the measured lengths cover this parity: odd lengths have kernels of their own, so one must be odd."""
        return points % 2 == 0 or any(known % 2 for known in self.points)


class Device(Form):
    """The device that one rank computes on: a GPU, one die of a GPU, or cores of a CPU."""

    name: str
    stream_bytes_per_second: Number  # streaming bandwidth of main memory, reads plus writes
    flops_per_second: Number  # peak rate, FP64
    kernel_seconds: Share  # launch overhead per kernel
    memory_bytes: Number
    cached_fft_bytes: Number | None = None  # FFT lines up to this size take one pass, if `transforms` is not given
    transforms: Transforms | None = None
    gather_bytes_per_second: Number | None = None  # values on faces per second of the local gather-scatter kernels
    cache_bytes: Number | None = None  # last-level cache that one rank reaches, if it is alone on a node
    node_cache_bytes: Number | None = None  # last-level caches of a node, which its ranks share
    # Kernels on spectral elements compute a whole block of elements at a time, one per lane of a vector of this length.
    vector_bytes: Annotated[int, Field(ge=1)] | None = None


class Efficiency(Form):
    """Share of the streaming rate that a workload's kernels reach on one rank, by order and by location of their data.

    `caches.missing_share` is the share of the data that comes from memory. `beside_others` limits the rate of these
    data if several ranks of a node compute, because they share the memory.
    """

    orders: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]  # in ascending order
    in_cache: tuple[Annotated[float, Field(gt=0)], ...]
    from_memory: tuple[Annotated[float, Field(gt=0)], ...]
    # Bytes that a point of the problem keeps in memory, by order: faces and padded lines weigh more at low orders.
    bytes_per_point: tuple[Annotated[float, Field(gt=0)], ...]
    beside_others: Annotated[float, Field(gt=0)] | None = None
    source: Annotated[str, Field(min_length=3)]

    @model_validator(mode="after")
    def _sound(self) -> Efficiency:
        if len({len(self.orders), len(self.in_cache), len(self.from_memory), len(self.bytes_per_point)}) > 1:
            raise ValueError(
                "'orders', 'in_cache', 'from_memory' and 'bytes_per_point' must have the same number of entries"
            )
        if any(b <= a for a, b in itertools.pairwise(self.orders)):
            raise ValueError("'orders' must be in ascending order")
        return self

    def nearest(self, order: int) -> int:
        """The measured order that is used for an order."""
        return min(self.orders, key=lambda known: (abs(known - order), -known))

    def working_set(self, order: int, points: float) -> float:
        """Bytes that this many points keep in memory."""
        return points * self.bytes_per_point[self.orders.index(self.nearest(order))]

    def at(self, order: int, missing: float, alone: bool = True) -> float:
        """The efficiency of a rank that gets this share of its data from memory, alone on its node or not."""
        k = self.orders.index(self.nearest(order))
        own = 1 / ((1 - missing) / self.in_cache[k] + missing / self.from_memory[k])
        if alone or self.beside_others is None or missing == 0:
            return own
        return min(own, self.beside_others / missing)


class Link(Form):
    """A link between ranks, in one direction: latency and bandwidth of one rank (Hockney's model)."""

    latency_seconds: Share
    bytes_per_second: Number
    node_bytes_per_second: Number | None = None  # shared by all ranks of a node, if that is a tighter limit
    all_to_all_bytes_per_second: Number | None = None  # measured in all-to-alls, per rank with all ranks sending
    # Processor time per byte sent and per byte received, if the rank moves the messages itself (TCP): O of LogGOPS
    # (Hoefler, Schneider, Lumsdaine 2010).
    overhead_seconds_per_byte: Number | None = None

    @property
    def half_bandwidth_bytes(self) -> float:
        """Hockney's n_1/2: the message size that reaches half the bandwidth, latency times rate."""
        return self.latency_seconds.value * self.bytes_per_second.value

    def busy(self, data: float) -> float:
        """Time (s) that the processor of a rank spends on sending and receiving `data` bytes."""
        return 0.0 if self.overhead_seconds_per_byte is None else data * self.overhead_seconds_per_byte.value

    def seconds(self, count: float, data: float) -> float:
        """Time of `count` messages sent one after another, with `data` bytes in total (Hockney 1982)."""
        return count * self.latency_seconds.value + data / self.bytes_per_second.value


class Links(Form):
    """Links by level: between dies of a package, packages of a node, nodes of a group, and nodes; and to the host."""

    device: Link | None = None
    node: Link | None = None
    group: Link | None = None  # between nodes of one group of a dragonfly
    network: Link
    host: Link | None = None


class Traffic(Form):
    """Messages of a workload, counted in the trace of a run, per iteration of its solvers or per stage of a step."""

    exchanges: Annotated[float, Field(gt=0)]  # halo exchanges, by the number of their messages
    volume: Annotated[float, Field(gt=0)]  # the same by their bytes, of one word per shared point (maxwell: six)
    reductions: Annotated[float, Field(ge=0)]
    overlap: Annotated[float, Field(ge=0, lt=1)]  # share of the computation that runs while messages are on their way
    source: Annotated[str, Field(min_length=3)]


class Topology(Form):
    """Network topology: the links that switches or routers share. `weft.model.fabric` computes a job's part of them."""

    kind: Literal["fat-tree", "dragonfly", "torus", "full"]
    sizes: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    source: str
    link_bytes_per_second: Number | None = None  # of one link between switches, per direction; default: a node's card
    widths: tuple[Annotated[int, Field(ge=1)], ...] = ()  # torus: parallel links per direction; default: one each
    nodes_per_router: Annotated[int, Field(ge=1)] = 1  # torus
    usable_share: Number | None = None  # share of the links' rate; less than 1 with detours or headers
    packed_nodes: Number | None = None  # dragonfly: jobs of up to this many nodes share a group

    @model_validator(mode="after")
    def _sound(self) -> Topology:
        fewest, most, meaning = SIZES[self.kind]
        if not fewest <= len(self.sizes) <= most:
            raise ValueError(f"'sizes' of a {self.kind} are {meaning}, but {len(self.sizes)} numbers are given")
        if self.widths and len(self.widths) != len(self.sizes):
            raise ValueError("'widths' must have one entry per direction of the torus")
        if self.usable_share is not None and self.usable_share.value > 1:
            raise ValueError("'usable_share' is a share of the links' rate, so it must be at most 1")
        return self


class MessageCurve(Form):
    """Time of one-sided messages sent from inside a kernel against their size, for `weft model dag`."""

    bytes: tuple[Annotated[float, Field(gt=0)], ...]
    seconds: tuple[Annotated[float, Field(gt=0)], ...]
    source: str

    @model_validator(mode="after")
    def _same_length(self) -> MessageCurve:
        if len(self.bytes) != len(self.seconds) or not self.bytes:
            raise ValueError("'bytes' and 'seconds' must have the same number of entries, at least one")
        if any(b <= a for a, b in zip(self.bytes, self.bytes[1:], strict=False)):
            raise ValueError("'bytes' must be in ascending order")
        return self


class Accuracy(Number):
    """The error that holds 95 % of published values or 90 % of other runs, and the sizes on which it rests."""

    basis: Literal["published rows", "held-out runs"] = "published rows"
    precision: Literal["double", "single"] | None = None  # of all these rows or runs, if they have the same
    tested: dict[str, tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]]]

    @model_validator(mode="after")
    def _sound(self) -> Accuracy:
        wrong = [name for name, (low, high) in self.tested.items() if low > high]
        if wrong:
            raise ValueError(f"'tested' has the largest {wrong[0]} first, but must have the smallest first")
        return self


class Machine(Form):
    """A machine with one rank per device. `constants` holds the calibrated constants, three at most."""

    title: str
    nodes: Number
    ranks_per_node: Annotated[int, Field(ge=1)]
    ranks_per_package: Annotated[int, Field(ge=1)] = 1
    shared_fields: bool = False  # whether ranks of one node compute turbulence in fields that they share (docs/fft.md)
    device: Device
    links: Links
    topology: Topology | None = None
    messages: dict[Literal["node", "network"], MessageCurve] = {}
    constants: dict[str, Share] = {}
    traffic: dict[Literal["poisson", "maxwell", "flow"], Traffic] = {}  # by workload; else counted by formulas
    efficiency: dict[Literal["poisson", "maxwell", "flow"], Efficiency] = {}  # in place of stream_efficiency
    # By workload, from rows or runs that were not used for calibration.
    errors: dict[Literal["poisson", "maxwell", "flow", "turbulence"], Accuracy] = {}

    @model_validator(mode="after")
    def _sound(self) -> Machine:
        if self.nodes.value < 1:
            raise ValueError(f"'nodes' is {self.nodes.value:g}, but must be at least 1")
        if self.ranks_per_node % self.ranks_per_package:
            raise ValueError("'ranks_per_node' must be a multiple of 'ranks_per_package'")
        for workload in ("", *WORKLOADS):
            count = sum((n.rpartition(".")[0]) == workload for n in self.constants)
            if count > MOST_CONSTANTS:
                raise ValueError(
                    f"{count} constants are given, but at most {MOST_CONSTANTS} are allowed, or that many per workload"
                )
        if self.ranks_per_node > 1 and self.links.node is None:
            raise ValueError("'links.node' is missing; machines with several ranks per node need it")
        if self.ranks_per_package > 1 and self.links.device is None:
            raise ValueError("'links.device' is missing; machines with several ranks per package need it")
        zero = [n for n, c in self.constants.items() if c.value == 0 and n.endswith("efficiency")]
        if zero:
            raise ValueError(f"constant '{zero[0]}' is 0, but an efficiency must be above zero")
        percent = [n for n, c in self.constants.items() if c.value > MOST_EFFICIENT and n.endswith("efficiency")]
        if percent:
            value = self.constants[percent[0]].value
            raise ValueError(
                f"constant '{percent[0]}' is {value:g}, but is a share: write {value:g} % as {value / 100:g}"
            )
        for workload, accuracy in self.errors.items():
            foreign = sorted(
                set(accuracy.tested) - set(TESTED["turbulence" if workload == "turbulence" else "elements"])
            )
            if foreign:
                raise ValueError(f"'errors.{workload}.tested' has '{foreign[0]}', which is no size of {workload}")
        allowed = {*CONSTANTS, *(f"{workload}.{name}" for workload in WORKLOADS for name in CONSTANTS)}
        unknown = sorted(set(self.constants) - allowed)
        if unknown:
            raise ValueError(f"unknown constant '{unknown[0]}'; known: {', '.join(CONSTANTS)}")
        return self

    def in_place(self, ranks: int, rows: int) -> bool:
        """Whether a process grid of so many ranks and rows transforms fields without packing or sending them."""
        return ranks == 1 or (self.shared_fields and rows == 1 and ranks <= self.ranks_per_node)

    def link(self, level: Level) -> Link:
        """The link of a level. Without its own, a level uses the next wider one (device, node, group, network)."""
        if level == "host":
            if self.links.host is None:
                raise ModelError(f"{self.title}: staged transfers need 'links.host', which is not described")
            return self.links.host
        if level == "device" and self.links.device is not None:
            return self.links.device
        if level in ("device", "node") and self.links.node is not None:
            return self.links.node
        if level == "group" and self.links.group is not None:
            return self.links.group
        return self.links.network

    @property
    def why_no_more(self) -> str:
        """A hint on how to describe more nodes, if the description comes from measurements on one node."""
        if not self.links.network.latency_seconds.source.startswith(NO_NETWORK):
            return ""
        return (
            "; nothing measured says what more ranks do: add a run on more ranks of a node, for more nodes results of "
            "'weft bench pingpong' between nodes, or --machine with the network to assume"
        )

    @property
    def card_bytes_per_second(self) -> float:
        """The rate at which a node sends over the network: that of its card, or else of all its ranks."""
        network = self.links.network
        if network.node_bytes_per_second is not None:
            return network.node_bytes_per_second.value
        return network.bytes_per_second.value * self.ranks_per_node

    def cache_of(self, ranks: int) -> float:
        """The share (bytes) of the last-level caches of one of this many ranks; 0 if the caches are not known."""
        device = self.device
        if device.cache_bytes is None or device.node_cache_bytes is None:
            return 0.0
        return min(device.cache_bytes.value, device.node_cache_bytes.value / min(ranks, self.ranks_per_node))

    def stream_efficiency(self, workload: str, order: int, points: float, ranks: int) -> float:
        """The share of the streaming rate that the kernels of a workload reach on a rank with this many points."""
        known = self.efficiency.get(workload)  # type: ignore[call-overload]
        if known is None:
            return self.constant("stream_efficiency", workload)
        missing = self.missing_share(workload, order, points, ranks)
        return known.at(order, missing, min(ranks, self.ranks_per_node) == 1)

    def missing_share(self, workload: str, order: int, points: float, ranks: int) -> float:
        """The share of the data that comes from memory on a rank with this many points. Needs `efficiency`."""
        known = self.efficiency[workload]  # type: ignore[index]
        return caches.missing_share(workload, known.working_set(order, points), self.cache_of(ranks))

    def constant(self, name: str, workload: str = "") -> float:
        """A constant of this machine, that of a workload if it has its own, or the default in `CONSTANTS`."""
        key = self.key(name, workload)
        return CONSTANTS[name][0] if key is None else self.constants[key].value

    def key(self, name: str, workload: str) -> str | None:
        """The key in `constants`: the workload's own, else the one for all workloads, else None (not calibrated)."""
        return next((key for key in (f"{workload}.{name}", name) if key in self.constants), None)

    def constant_range(self, name: str, workload: str = "") -> tuple[float, float]:
        """The range of a constant: a single value if it is calibrated, else that of all machines that are."""
        value = self.constant(name, workload)
        if self.key(name, workload) is not None:
            return value, value
        return RANGES_OF.get(f"{workload}.{name}", CONSTANTS[name][1:])

    def require(self, ranks: int) -> None:
        """Raises ModelError if the machine has fewer ranks than this."""
        most = int(self.nodes.value) * self.ranks_per_node
        if not 1 <= ranks <= most:
            nodes = int(self.nodes.value)
            raise ModelError(
                f"{ranks} ranks do not fit on {self.title}, which has {nodes} node{'s' * (nodes > 1)} and {most} "
                f"rank{'s' * (most > 1)}{self.why_no_more}"
            )


# Name: (default, low, high). docs/model-project.md explains each constant. The defaults are those of the machine that
# the published tables calibrate best; the ranges span the calibrated machines, which a test checks.
CONSTANTS: dict[str, tuple[float, float, float]] = {
    "stream_efficiency": (0.93, 0.8, 1.0),  # share of the streaming bandwidth that the solver's kernels reach
    "split_overhead": (0.03, 0.0, 0.06),  # extra time of an operator split in three for overlap
    # Time of an exchange on several ranks that does not depend on its size: calls, and waits for other ranks.
    "exchange_seconds": (0.0, 0.0, 0.0),
    # Visible time of a halo exchange over its time at the links' rates: overlap lowers it, contention raises it.
    "exchange_factor": (0.8, 0.2, 1.4),
    # Share of a rank's network bandwidth reached in all-to-alls, where no link has a measured rate for them.
    "network_efficiency": (0.6, 0.3, 1.0),
    "strided_efficiency": (0.16, 0.1, 0.65),  # share of the streaming bandwidth reached by strided FFTs
    "kernel_efficiency": (0.6, 0.3, 1.0),  # share of the streaming bandwidth reached by packing, pointwise kernels
    # Extra time of these kernels per 1000 points of a brick's side N / P_c.
    "brick_overhead": (0.0, 0.0, 1.6),
    "exchange_efficiency": (0.6, 0.25, 1.0),  # share of the network bandwidth reached in gather-scatters over faces
}
# Where the machines that a workload calibrates are apart from the others: NekCEM's kernels on Titan reach 0.13.
RANGES_OF = {"maxwell.stream_efficiency": (0.12, 1.0)}


def names() -> list[str]:
    """The names of the machines that weft describes."""
    folder = files("weft.model") / "machines"
    found = (p.name.removesuffix(".toml") for p in folder.iterdir() if p.name.endswith(".toml"))
    return sorted(n for n in found if n != "template")


def parse(text: str, where: str) -> Machine:
    """A machine from the text of a TOML file. Raises ModelError naming the wrong key."""
    try:
        return Machine.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"{where}: not valid TOML ({error})") from None
    except (ValidationError, RecursionError) as error:
        raise ModelError(f"{where}: {first_of(error)}") from None


def first_of(error: ValidationError | RecursionError) -> str:
    """The first error in a description, and the number of further errors."""
    if isinstance(error, RecursionError):
        return "tables are nested too deeply"
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return (f"'{key}': " if key else "") + first["msg"].removeprefix("Value error, ") + more


def load(name: str | Path) -> Machine:
    """A machine by its name, or by the path of a .toml file. Raises ModelError for unknown names."""
    text = str(name)
    if text.endswith(".toml"):
        try:
            return parse(Path(name).read_text(encoding="utf-8"), text)
        except UnicodeDecodeError:
            raise ModelError(f"{text}: not a text file") from None
    known = names()
    if text.lower() not in known:
        near = difflib.get_close_matches(text.lower(), known, 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ModelError(f"unknown machine '{text}'; known: {', '.join(known)}, or the path of a .toml file{hint}")
    return parse((files("weft.model") / "machines" / f"{text.lower()}.toml").read_text(encoding="utf-8"), text)


def numbers_of(machine: Machine) -> dict[str, tuple[float, str]]:
    """All numbers of a description that have a source, with it, by their keys, such as links.node.latency_seconds.

    Lists of numbers with one source appear as one entry per number, such as topology.sizes.0. `errors` do not appear.
    """
    found: dict[str, tuple[float, str]] = {}

    def walk(form: dict[str, object], where: str) -> None:
        source = form.get("source")
        for key, value in form.items():
            here = f"{where}.{key}" if where else key
            if isinstance(value, dict):
                if {"value", "source"} <= set(value):
                    found[here] = (float(value["value"]), str(value["source"]))
                elif here != "errors":
                    walk(value, here)
            elif isinstance(value, tuple) and source is not None and key not in ("points", "bytes", "orders"):
                found.update({f"{here}.{i}": (float(v), str(source)) for i, v in enumerate(value)})

    walk(machine.model_dump(), "")
    return found


def with_number(machine: Machine, key: str, value: float) -> Machine:
    """The machine with another value of a number that `numbers_of` lists."""
    content = machine.model_dump()
    *path, last = key.split(".")
    if key.startswith("constants."):  # whose names may contain the workload
        path, last = path[:1], key.partition(".")[2]
    form: Any = content
    for part in path:
        form = form[part]
    if isinstance(form, tuple):
        whole = type(form[int(last)])
        changed = tuple(whole(max(1, round(value)) if whole is int else value) if i == int(last) else v
                        for i, v in enumerate(form))  # fmt: skip
        parent: Any = content
        for part in path[:-1]:
            parent = parent[part]
        parent[path[-1]] = changed
    else:
        form[last]["value"] = value
    return Machine.model_validate(content)


def with_constants(machine: Machine, values: Mapping[str, float], source: str) -> Machine:
    """The machine with these constants in place of its own."""
    constants = {n: {"value": v, "source": source} for n, v in values.items()}
    return Machine.model_validate({**machine.model_dump(), "constants": constants})
