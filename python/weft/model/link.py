"""Transfers over PCIe and CXL: Eqs. 9, 10 and 11, and the sizes where one overtakes the other (sections 4.8.4, 9.2).

"The report" is ECP-HIHE01-35 (2021). Its b_n, "the expected bandwidth of PCIe when n bytes are transferred", is that of
Neugebauer et al., "Understanding PCIe performance for end host networking" (SIGCOMM 2018): headers, acknowledgements
and flow control take their share of the wire.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from weft.model.result import ModelError, Result, exact, require_positive

METHOD = "link"
CACHE_LINE = 64  # bytes (section 4.8.4)
CACHE_ACCESS = 40e-9  # seconds, CXL 1.1 training as the report cites it (section 4.8.4)
CXL_PENALTY = 0.6  # of PCIe's bandwidth, the report's pessimistic choice; 0.9 is its best
REPORT_RATIO = 1.66578  # CXL model 2 over PCIe at 16 MiB (section 9.2), which fixes the t_s that is not printed
REPORT_RATIO_BYTES = 16 * 2**20
FARTHEST = 2**40  # bytes up to which a crossover is looked for


class Link(Protocol):
    """Anything with a bandwidth that may depend on the size of the transfer."""

    def bandwidth(self, size: float) -> float:
        """Bytes a second while `size` bytes move."""


@dataclass(frozen=True)
class ConstantLink:
    """One bandwidth for every size, byte/s."""

    bytes_per_second: float

    def __post_init__(self) -> None:
        require_positive(bandwidth=self.bytes_per_second)

    def bandwidth(self, size: float) -> float:
        """The bandwidth, whatever the size."""
        require_positive(size=size)
        return self.bytes_per_second


# Gigatransfers a second of a lane and the payload share of its symbols (PCI Express Base Specification 5.0, 4.2).
LANE_RATE = {1: (2.5, 8 / 10), 2: (5.0, 8 / 10), 3: (8.0, 128 / 130), 4: (16.0, 128 / 130), 5: (32.0, 128 / 130)}
LANES = (1, 2, 4, 8, 16)
PAYLOADS = (128, 256, 512, 1024, 2048, 4096)
# Acknowledgement latency limit and flow-control update interval in symbol times: (payload + 28) factor / lanes + delay,
# with the internal delay of a generation and the factor of a width (the same, sections 2.6.1.2 and 3.6.3.1).
INTERNAL_DELAY = {1: 19, 2: 70, 3: 115, 4: 115, 5: 115}
TLP_OVERHEAD = 28
DLLP_BYTES = 8  # of an acknowledgement or a flow-control update on the wire
SKIP_SHARE = 4 / 1538  # ordered sets for clock compensation
# Bytes on the wire beside the payload: framing and data link 8, header 4, then address and the rest (64-bit addresses).
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
    """A PCIe slot that reads and writes at once, as the report's pipelined application does."""

    generation: int = 3
    lanes: int = 16
    payload: int = 256  # maximum payload size, bytes
    read_request: int = 512  # maximum read request size, bytes

    def __post_init__(self) -> None:
        for name, allowed in (
            ("generation", tuple(LANE_RATE)), ("lanes", LANES), ("payload", PAYLOADS), ("read_request", PAYLOADS)
        ):  # fmt: skip
            if getattr(self, name) not in allowed:
                raise ModelError(f"PCIe {name} is {getattr(self, name)}; allowed: {', '.join(map(str, allowed))}")

    @property
    def physical(self) -> float:
        """Bytes a second of the wire in one direction, after its symbol encoding: 15.75 GB/s for generation 3, x16."""
        rate, share = LANE_RATE[self.generation]
        return rate * 1e9 * share * self.lanes / 8

    @property
    def packets(self) -> float:
        """Bytes a second left for packets, after acknowledgements, flow control and clock compensation."""
        interval = (self.payload + TLP_OVERHEAD) * _factor(self.lanes, self.payload) / self.lanes
        interval = math.floor(interval + INTERNAL_DELAY[self.generation])
        return self.physical * (1 - 2 * DLLP_BYTES / interval - SKIP_SHARE)

    def bandwidth(self, size: float) -> float:
        """b_n: payload bytes a second, in each direction, of reads and writes of `size` bytes at the same time.

        The device sends write packets and read requests; completions come back the other way. The busier direction,
        always the device's, limits.
        """
        require_positive(size=size)
        writes = math.ceil(size / self.payload) * WRITE_HEADER + size
        requests = math.ceil(size / self.read_request) * READ_HEADER
        completions = math.ceil(size / self.payload) * COMPLETION_HEADER + size
        return self.packets * size / max(writes + requests, completions)


# --- the three models ----------------------------------------------------------------------------------------------


def pcie_time(size: float, link: Link, startup: float) -> float:
    """Eq. 9: seconds for `size` bytes over `link` with `startup` seconds (t_s) before the first."""
    require_positive(size=size, startup=startup)
    return size / link.bandwidth(size) + startup


def cxl_line_time(size: float, cache_access: float = CACHE_ACCESS, cache_line: int = CACHE_LINE) -> float:
    """Eq. 10: seconds for `size` bytes as one cache miss after the other."""
    require_positive(size=size, cache_access=cache_access, cache_line=cache_line)
    return size / cache_line * cache_access


def cxl_bandwidth_time(
    size: float, link: Link, penalty: float = CXL_PENALTY, cache_access: float = CACHE_ACCESS
) -> float:
    """Eq. 11: seconds for `size` bytes at `penalty` of PCIe's bandwidth, after one cache access."""
    require_positive(size=size, penalty=penalty, cache_access=cache_access)
    if penalty > 1:
        raise ModelError(f"penalty is {penalty:g}: the share of PCIe's bandwidth that CXL reaches, at most 1")
    return size / (link.bandwidth(size) * penalty) + cache_access


def startup_from_ratio(
    ratio: float, size: float, link: Link, penalty: float = CXL_PENALTY, cache_access: float = CACHE_ACCESS
) -> float:
    """The t_s of Eq. 9 at which CXL model 2 takes `ratio` times as long as PCIe for `size` bytes, seconds."""
    require_positive(ratio=ratio)
    startup = cxl_bandwidth_time(size, link, penalty, cache_access) / ratio - size / link.bandwidth(size)
    if startup <= 0:
        raise ModelError(
            f"no t_s above zero gives a ratio of {ratio:g} at {size:g} bytes: it must be below {1 / penalty:g}"
        )
    return startup


def report_startup(link: Link) -> float:
    """t_s as the report's one printed ratio fixes it for `link`, seconds."""
    return startup_from_ratio(REPORT_RATIO, REPORT_RATIO_BYTES, link)


def from_crossovers(
    lines: float, bandwidth: float, penalty: float = CXL_PENALTY, cache_access: float = CACHE_ACCESS
) -> tuple[ConstantLink, float]:
    """The constant bandwidth and t_s at which PCIe overtakes CXL model 1 at `lines`, model 2 at `bandwidth` bytes.

    Two linear equations in 1/b and t_s: lines (access / 64 - 1/b) = t_s, bandwidth (1/penalty - 1) / b = t_s - access.
    """
    require_positive(lines=lines, bandwidth=bandwidth, penalty=penalty, cache_access=cache_access)
    inverse = (lines * cache_access / CACHE_LINE - cache_access) / (lines + bandwidth * (1 / penalty - 1))
    if inverse <= 0:
        raise ModelError(f"no bandwidth gives a crossover at {lines:g} bytes: it must be above one cache line")
    return ConstantLink(1 / inverse), lines * (cache_access / CACHE_LINE - inverse)


def crossover(fast_start: Callable[[float], float], fast_stream: Callable[[float], float]) -> float:
    """The size in bytes from which `fast_stream` is no slower than `fast_start`, infinity where it never is.

    Both are seconds of a size. b_n jumps where a transfer needs one more packet, so the two may cross more than once
    within a packet; this is the last size at which `fast_start` still wins, plus one.
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
    # Bisection finds one crossing; look on over the two largest packets for a later one.
    last = low
    for later in range(low, low + 2 * PAYLOADS[2] + 1):
        if fast_start(later) < fast_stream(later):
            last = later
    return float(last + 1)


def transfer_results(size: float, link: Link, startup: float, penalty: float, cache_access: float) -> list[Result]:
    """The times of `size` bytes by Eqs. 9 to 11, and their ratios."""
    inputs = {
        "t_s (s)": startup, "CXL penalty": penalty, "cache access (s)": cache_access, "cache line (B)": CACHE_LINE,
        "size (B)": size, "b_n (B/s)": link.bandwidth(size),
    }  # fmt: skip
    pcie = pcie_time(size, link, startup)
    lines = cxl_line_time(size, cache_access)
    stream = cxl_bandwidth_time(size, link, penalty, cache_access)
    rows = [
        ("PCIe", pcie, "s", "Eq. 9"),
        ("CXL by cache lines (model 1)", lines, "s", "Eq. 10"),
        ("CXL by bandwidth (model 2)", stream, "s", "Eq. 11"),
        ("model 1 over PCIe", lines / pcie, "x", "Eqs. 9, 10"),
        ("model 2 over PCIe", stream / pcie, "x", "Eqs. 9, 11"),
    ]
    return [exact(METHOD, f"{size:,.0f} B: {what}", value, unit, inputs, eq) for what, value, unit, eq in rows]


def crossover_results(link: Link, startup: float, penalty: float, cache_access: float) -> list[Result]:
    """Where PCIe overtakes the two CXL models, and what pays for offloading a task of one cache line."""
    inputs = {"t_s (s)": startup, "CXL penalty": penalty, "cache access (s)": cache_access}

    def overtakes(cxl: Callable[[float], float]) -> float:
        return crossover(cxl, lambda n: pcie_time(n, link, startup))

    first = overtakes(lambda n: cxl_line_time(n, cache_access))
    second = overtakes(lambda n: cxl_bandwidth_time(n, link, penalty, cache_access))
    gain = offload_gain(CACHE_LINE, cache_access)
    rows = [
        ("PCIe overtakes model 1 at", first, "B", "Eqs. 9, 10"),
        ("PCIe overtakes model 2 at", second, "B", "Eqs. 9, 11"),
        ("a task of one cache line must save, to be offloaded", gain, "s", "section 10.2"),
    ]
    return [exact(METHOD, what, value, unit, inputs, equation) for what, value, unit, equation in rows]


def offload_gain(size: float, cache_access: float = CACHE_ACCESS) -> float:
    """Section 10.2: t - t' > 2 d, the seconds that a task must save to pay for moving `size` bytes both ways."""
    return 2 * cxl_line_time(size, cache_access)
