"""Transfers over PCIe and CXL (Eqs. 9 to 11), and the sizes at which PCIe overtakes CXL (sections 4.8.4, 9.2).

"The report" is ECP-HIHE01-35 (2021). Its b_n, "the expected bandwidth of PCIe when n bytes are transferred", follows
Neugebauer et al., "Understanding PCIe performance for end host networking" (SIGCOMM 2018), who account for the share
of the link that headers, acknowledgements and flow control take.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from weft.model.result import ModelError, Result, exact, require_positive

METHOD = "link"
CACHE_LINE = 64  # bytes (section 4.8.4)
CACHE_ACCESS = 40e-9  # seconds, from the CXL 1.1 training that the report cites (section 4.8.4)
CXL_PENALTY = 0.6  # share of PCIe's bandwidth, the report's pessimistic choice; its optimistic choice is 0.9
REPORT_RATIO = 1.66578  # CXL model 2 over PCIe at 16 MiB (section 9.2), which determines the unpublished t_s
REPORT_RATIO_BYTES = 16 * 2**20
FARTHEST = 2**40  # bytes; crossovers at larger sizes are not searched for


class Link(Protocol):
    """A link whose bandwidth may depend on the size of the transfer."""

    def bandwidth(self, size: float) -> float:
        """The bandwidth of a transfer of `size` bytes, in byte/s."""


@dataclass(frozen=True)
class ConstantLink:
    """A link with the same bandwidth for every size."""

    bytes_per_second: float

    def __post_init__(self) -> None:
        require_positive(bandwidth=self.bytes_per_second)

    def bandwidth(self, size: float) -> float:
        """The bandwidth, which does not depend on the size."""
        require_positive(size=size)
        return self.bytes_per_second


# Gigatransfers per second and lane, and efficiency of the encoding (PCI Express Base Specification 5.0, section 4.2).
LANE_RATE = {1: (2.5, 8 / 10), 2: (5.0, 8 / 10), 3: (8.0, 128 / 130), 4: (16.0, 128 / 130), 5: (32.0, 128 / 130)}
LANES = (1, 2, 4, 8, 16)
PAYLOADS = (128, 256, 512, 1024, 2048, 4096)
# Acknowledgement latency limit and flow-control update interval in symbol times: (payload + 28) factor / lanes + delay.
# The delay depends on the generation and the factor on the width (same source, sections 2.6.1.2 and 3.6.3.1).
INTERNAL_DELAY = {1: 19, 2: 70, 3: 115, 4: 115, 5: 115}
TLP_OVERHEAD = 28
DLLP_BYTES = 8  # acknowledgement or flow-control update, on the wire
SKIP_SHARE = 4 / 1538  # ordered sets for clock compensation
# Bytes on the wire in addition to the payload: 8 for framing and data link, 4 for the header, then the 64-bit address
# and other fields.
WRITE_HEADER = 24
READ_HEADER = 24
COMPLETION_HEADER = 20


def _factor(lanes: int, payload: int) -> float:
    small = payload <= 256
    if lanes == 16:
        return 3.0 if small else 2.0
    if lanes == 8:
        return 2.5 if small else 1.0
    return 1.4 if small else 1.0


@dataclass(frozen=True)
class PcieLink:
    """A PCIe slot with concurrent reads and writes, as in the report's pipelined application."""

    generation: int = 3
    lanes: int = 16
    payload: int = 256  # maximum payload size, bytes
    read_request: int = 512  # maximum read request size, bytes

    def __post_init__(self) -> None:
        for name, allowed in (
            ("generation", tuple(LANE_RATE)), ("lanes", LANES), ("payload", PAYLOADS), ("read_request", PAYLOADS)
        ):  # fmt: skip
            if getattr(self, name) not in allowed:
                raise ModelError(
                    f"PCIe {name} is {getattr(self, name)}, but must be one of {', '.join(map(str, allowed))}"
                )

    @property
    def physical(self) -> float:
        """The bandwidth of the wire per direction, after encoding, in byte/s: 15.75 GB/s for generation 3, x16."""
        rate, share = LANE_RATE[self.generation]
        return rate * 1e9 * share * self.lanes / 8

    @property
    def packets(self) -> float:
        """The bandwidth left for packets after acknowledgements, flow control and clock compensation, in byte/s."""
        interval = (self.payload + TLP_OVERHEAD) * _factor(self.lanes, self.payload) / self.lanes
        interval = math.floor(interval + INTERNAL_DELAY[self.generation])
        return self.physical * (1 - 2 * DLLP_BYTES / interval - SKIP_SHARE)

    def bandwidth(self, size: float) -> float:
        """b_n: the payload bandwidth per direction of concurrent reads and writes of `size` bytes, in byte/s.

        The device sends write packets and read requests, and completions come back in the other direction. The busier
        direction, which is always the device's, is the limit.
        """
        require_positive(size=size)
        writes = math.ceil(size / self.payload) * WRITE_HEADER + size
        requests = math.ceil(size / self.read_request) * READ_HEADER
        completions = math.ceil(size / self.payload) * COMPLETION_HEADER + size
        return self.packets * size / max(writes + requests, completions)


# --- the three models ----------------------------------------------------------------------------------------------


def pcie_time(size: float, link: Link, startup: float) -> float:
    """Eq. 9: time (s) to transfer `size` bytes over `link`, including the start-up time t_s."""
    require_positive(size=size, startup=startup)
    return size / link.bandwidth(size) + startup


def cxl_line_time(size: float, cache_access: float = CACHE_ACCESS, cache_line: int = CACHE_LINE) -> float:
    """Eq. 10: time (s) to transfer `size` bytes by one cache miss after another."""
    require_positive(size=size, cache_access=cache_access, cache_line=cache_line)
    return size / cache_line * cache_access


def cxl_bandwidth_time(
    size: float, link: Link, penalty: float = CXL_PENALTY, cache_access: float = CACHE_ACCESS
) -> float:
    """Eq. 11: time (s) to transfer `size` bytes at the share `penalty` of PCIe's bandwidth, after one cache access."""
    require_positive(size=size, penalty=penalty, cache_access=cache_access)
    if penalty > 1:
        raise ModelError(f"penalty is {penalty:g}, but the share of PCIe's bandwidth that CXL reaches is at most 1")
    return size / (link.bandwidth(size) * penalty) + cache_access


def startup_from_ratio(
    ratio: float, size: float, link: Link, penalty: float = CXL_PENALTY, cache_access: float = CACHE_ACCESS
) -> float:
    """The t_s of Eq. 9 (s) with which CXL model 2 takes `ratio` times as long as PCIe for `size` bytes."""
    require_positive(ratio=ratio)
    startup = cxl_bandwidth_time(size, link, penalty, cache_access) / ratio - size / link.bandwidth(size)
    if startup <= 0:
        raise ModelError(
            f"no start-up time t_s gives a ratio of {ratio:g} at {size:g} bytes; it must be below {1 / penalty:g}"
        )
    return startup


def report_startup(link: Link) -> float:
    """The t_s (s) that follows from the only ratio that the report prints, for `link`."""
    return startup_from_ratio(REPORT_RATIO, REPORT_RATIO_BYTES, link)


def from_crossovers(
    lines: float, bandwidth: float, penalty: float = CXL_PENALTY, cache_access: float = CACHE_ACCESS
) -> tuple[ConstantLink, float]:
    """The bandwidth b and the t_s for which PCIe overtakes CXL model 1 at `lines` and model 2 at `bandwidth` bytes.

    Solves two linear equations in 1/b and t_s: lines (access / 64 - 1/b) = t_s and bandwidth (1/penalty - 1) / b =
    t_s - access.
    """
    require_positive(lines=lines, bandwidth=bandwidth, penalty=penalty, cache_access=cache_access)
    inverse = (lines * cache_access / CACHE_LINE - cache_access) / (lines + bandwidth * (1 / penalty - 1))
    if inverse <= 0:
        raise ModelError(f"no bandwidth gives a crossover at {lines:g} bytes; it must be larger than a cache line")
    return ConstantLink(1 / inverse), lines * (cache_access / CACHE_LINE - inverse)


def crossover(fast_start: Callable[[float], float], fast_stream: Callable[[float], float]) -> float:
    """The size in bytes from which `fast_stream` is no slower than `fast_start`; infinity if there is none.

    Both functions return the time for a size. b_n jumps where a transfer needs one more packet, so that they may cross
    several times within a packet; the result is the last size at which `fast_start` wins, plus one.
    """
    wins = 0
    size = 1
    while size <= FARTHEST:
        if fast_start(size) < fast_stream(size):
            wins = size
        size *= 2
    if wins == 0:
        return 1.0
    if wins * 2 > FARTHEST:
        return math.inf
    low, high = wins, wins * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fast_start(middle) < fast_stream(middle) else (low, middle)
    # Bisection finds one crossing; search the next two of the largest packets for a later one.
    last = low
    for later in range(low, low + 2 * PAYLOADS[2] + 1):
        if fast_start(later) < fast_stream(later):
            last = later
    return float(last + 1)


def transfer_results(size: float, link: Link, startup: float, penalty: float, cache_access: float) -> list[Result]:
    """The transfer times of `size` bytes by Eqs. 9 to 11, and their ratios."""
    inputs = {
        "t_s (s)": startup, "CXL penalty": penalty, "cache access (s)": cache_access, "cache line (B)": CACHE_LINE,
        "size (B)": size, "b_n (B/s)": link.bandwidth(size),
    }  # fmt: skip
    pcie = pcie_time(size, link, startup)
    lines = cxl_line_time(size, cache_access)
    stream = cxl_bandwidth_time(size, link, penalty, cache_access)
    rows = [
        ("PCIe", pcie, "s", "Eq. 9"),
        ("CXL model 1 (cache lines)", lines, "s", "Eq. 10"),
        ("CXL model 2 (bandwidth)", stream, "s", "Eq. 11"),
        ("CXL model 1 over PCIe", lines / pcie, "x", "Eqs. 9, 10"),
        ("CXL model 2 over PCIe", stream / pcie, "x", "Eqs. 9, 11"),
    ]
    return [exact(METHOD, f"{size:,.0f} B: {what}", value, unit, inputs, eq) for what, value, unit, eq in rows]


def crossover_results(link: Link, startup: float, penalty: float, cache_access: float) -> list[Result]:
    """The sizes at which PCIe overtakes the two CXL models, and the smallest gain that pays for offloading a task."""
    inputs = {"t_s (s)": startup, "CXL penalty": penalty, "cache access (s)": cache_access}

    def overtakes(cxl: Callable[[float], float]) -> float:
        return crossover(cxl, lambda n: pcie_time(n, link, startup))

    first = overtakes(lambda n: cxl_line_time(n, cache_access))
    second = overtakes(lambda n: cxl_bandwidth_time(n, link, penalty, cache_access))
    gain = offload_gain(CACHE_LINE, cache_access)
    rows = [
        ("PCIe overtakes CXL model 1 at", first, "B", "Eqs. 9, 10"),
        ("PCIe overtakes CXL model 2 at", second, "B", "Eqs. 9, 11"),
        ("least time saved that pays for offloading a task of one cache line", gain, "s", "section 10.2"),
    ]
    return [exact(METHOD, what, value, unit, inputs, equation) for what, value, unit, equation in rows]


def offload_gain(size: float, cache_access: float = CACHE_ACCESS) -> float:
    """The time (s) that a task must save to pay for moving `size` bytes in both directions: t - t' > 2 d (10.2)."""
    return 2 * cxl_line_time(size, cache_access)
