"""Machines described in TOML: devices, links by level and topology, each number with its source.

The descriptions are in the folder `machines`; a person's own is a file of the same form (`template.toml`).
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from weft.model.result import ModelError

MOST_CONSTANTS = 3  # calibrated, a machine
Level = Literal["device", "node", "network", "host"]


class Form(BaseModel):
    """A table of the file; a key that is not known is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Number(Form):
    """A number above zero and where it is from."""

    value: Annotated[float, Field(gt=0)]
    source: Annotated[str, Field(min_length=3)]


class Share(Form):
    """A number that may be zero, and where it is from."""

    value: Annotated[float, Field(ge=0)]
    source: Annotated[str, Field(min_length=3)]


class Device(Form):
    """What one rank computes on: a GPU, a die of one, or cores of a CPU."""

    name: str
    stream_bytes_per_second: Number  # streaming rate of main memory, reads and writes together
    flops_per_second: Number  # peak, FP64
    kernel_seconds: Share  # what launching a kernel adds to its time
    memory_bytes: Number
    cached_fft_bytes: Number | None = None  # a line up to this long is transformed in one pass through memory


class Link(Form):
    """A way between ranks, one direction: Hockney's latency and rate of one rank."""

    latency_seconds: Share
    bytes_per_second: Number
    node_bytes_per_second: Number | None = None  # what all ranks of a node share, where that is less

    def seconds(self, count: float, data: float) -> float:
        """Time of `count` messages one after another, `data` bytes together (Hockney 1982)."""
        return count * self.latency_seconds.value + data / self.bytes_per_second.value


class Links(Form):
    """By level: between dies of one package, packages of one node, nodes; and between a device and its host."""

    device: Link | None = None
    node: Link | None = None
    network: Link
    host: Link | None = None


class Topology(Form):
    """The network for `weft model network`."""

    kind: Literal["fat-tree", "dragonfly", "torus", "full"]
    sizes: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    source: str


class MessageCurve(Form):
    """One-sided messages from inside a kernel, for `weft model dag`: seconds of `bytes`, by level."""

    bytes: tuple[Annotated[float, Field(gt=0)], ...]
    seconds: tuple[Annotated[float, Field(gt=0)], ...]
    source: str

    @model_validator(mode="after")
    def _same_length(self) -> MessageCurve:
        if len(self.bytes) != len(self.seconds) or not self.bytes:
            raise ValueError("'bytes' and 'seconds' need the same number of entries, at least one")
        if any(b <= a for a, b in zip(self.bytes, self.bytes[1:], strict=False)):
            raise ValueError("'bytes' must ascend")
        return self


class Machine(Form):
    """A machine: `ranks_per_node` ranks, one a device; `constants` are those calibrated, three at most."""

    title: str
    nodes: Number
    ranks_per_node: Annotated[int, Field(ge=1)]
    ranks_per_package: Annotated[int, Field(ge=1)] = 1
    device: Device
    links: Links
    topology: Topology | None = None
    messages: dict[Literal["node", "network"], MessageCurve] = {}
    constants: dict[str, Share] = {}
    errors: dict[str, Number] = {}  # by workload: the largest relative error on published rows not calibrated on

    @model_validator(mode="after")
    def _sound(self) -> Machine:
        if self.ranks_per_node % self.ranks_per_package:
            raise ValueError("'ranks_per_node' must be a multiple of 'ranks_per_package'")
        if len(self.constants) > MOST_CONSTANTS:
            raise ValueError(f"{len(self.constants)} calibrated constants: at most {MOST_CONSTANTS} are allowed")
        if self.ranks_per_node > 1 and self.links.node is None:
            raise ValueError("'links.node' is needed where a node has more than one rank")
        if self.ranks_per_package > 1 and self.links.device is None:
            raise ValueError("'links.device' is needed where a package has more than one rank")
        zero = [n for n, c in self.constants.items() if c.value == 0 and n.endswith("efficiency")]
        if zero:
            raise ValueError(f"constant '{zero[0]}' is 0: an efficiency is above zero")
        unknown = sorted(set(self.constants) - set(CONSTANTS))
        if unknown:
            raise ValueError(f"unknown constant '{unknown[0]}': known are {', '.join(CONSTANTS)}")
        return self

    def link(self, level: Level) -> Link:
        """The link of a level; a package without one of its own uses the node's, a lone rank the network's."""
        if level == "host":
            if self.links.host is None:
                raise ModelError(f"{self.title}: no 'links.host' is described, which staged transfers need")
            return self.links.host
        if level == "device" and self.links.device is not None:
            return self.links.device
        if level in ("device", "node") and self.links.node is not None:
            return self.links.node
        return self.links.network

    def constant(self, name: str) -> float:
        """A calibrated constant, else the value every machine starts from (`CONSTANTS`)."""
        return self.constants[name].value if name in self.constants else CONSTANTS[name][0]

    def constant_range(self, name: str) -> tuple[float, float]:
        """Where the constant lies: a calibrated one where it is, else the range of `CONSTANTS`."""
        value = self.constant(name)
        return (value, value) if name in self.constants else CONSTANTS[name][1:]

    def require(self, ranks: int) -> None:
        """Raises ModelError where the machine has not so many ranks."""
        most = int(self.nodes.value) * self.ranks_per_node
        if not 1 <= ranks <= most:
            raise ModelError(f"{ranks} ranks on {self.title}: it has {most} ({int(self.nodes.value)} nodes)")


# Name: (value where a machine has none of its own, low, high). What each means is in docs/model-project.md. The values
# are those of the machine that the published tables calibrate best; the ranges span the calibrated machines.
CONSTANTS: dict[str, tuple[float, float, float]] = {
    "stream_efficiency": (0.93, 0.8, 1.0),  # of the streaming rate, reached by the solver's own kernels
    "split_overhead": (0.03, 0.0, 0.06),  # extra time of an operator split in three for overlap
    # Seconds of a halo's transfer that are seen, over those at the links' rates: overlap lowers, contention raises it.
    "exchange_factor": (0.8, 0.2, 1.2),
    "network_efficiency": (0.6, 0.3, 1.0),  # of a rank's share of the network, in all-to-alls
    "strided_efficiency": (0.16, 0.1, 0.5),  # of the streaming rate, by transforms of strided lines
    "kernel_efficiency": (0.45, 0.3, 1.0),  # of the streaming rate, by packing and pointwise kernels
    "exchange_efficiency": (0.6, 0.3, 1.0),  # of the network's rate, in a gather-scatter over faces
}


def names() -> list[str]:
    """The machines that weft describes; the template is none."""
    folder = files("weft.model") / "machines"
    found = (p.name.removesuffix(".toml") for p in folder.iterdir() if p.name.endswith(".toml"))
    return sorted(n for n in found if n != "template")


def parse(text: str, where: str) -> Machine:
    """A machine from the text of a TOML file. Raises ModelError that names the key and what is wrong with it."""
    try:
        return Machine.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"{where}: no valid TOML ({error})") from None
    except (ValidationError, RecursionError) as error:
        raise ModelError(f"{where}: {_first(error)}") from None


def _first(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "tables are nested too deeply"
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return (f"'{key}': " if key else "") + first["msg"].removeprefix("Value error, ") + more


def load(name: str | Path) -> Machine:
    """A described machine by its name, or one's own by its file. Raises ModelError with the list of those known."""
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
        raise ModelError(f"unknown machine '{text}': known are {', '.join(known)}, or a .toml file{hint}")
    return parse((files("weft.model") / "machines" / f"{text.lower()}.toml").read_text(encoding="utf-8"), text)


def with_constants(machine: Machine, values: Mapping[str, float], source: str) -> Machine:
    """The machine with these constants in place of its own."""
    constants: dict[str, Any] = {n: {"value": v, "source": source} for n, v in values.items()}
    return Machine.model_validate({**machine.model_dump(), "constants": constants})
