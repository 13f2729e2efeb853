"""The formulas behind every figure of the Poisson benchmark, each with its source.

hipBone is "HipBone: A performance-portable GPU-accelerated C++ version of the NekBone benchmark" (Chalmers, Mishra,
McDougall, Warburton). E elements of order N have n = N + 1 points a direction; N_L = E n^3 element-local points and N_G
degrees of freedom. Bytes are those that must pass through main memory, with perfect caching of what is used again.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """What a problem counts: elements E, order N, degrees of freedom N_G; `word` is the bytes of a floating number."""

    elements: int
    order: int
    dofs: int
    word: int = 8

    @property
    def n(self) -> int:
        """Points of an element in each direction, N + 1."""
        return self.order + 1

    @property
    def points(self) -> int:
        """N_L = E (N + 1)^3, element-local points."""
        return self.elements * self.n**3


def large_mesh(order: int, elements: int = 1, word: int = 8) -> Size:
    """A size with N_G = E N^3, what the paper's equations take for a large mesh."""
    return Size(elements, order, elements * order**3, word)


@dataclass(frozen=True)
class Formula:
    """A count and the words it is printed with."""

    value: float
    text: str
    source: str


# --- floating-point operations -------------------------------------------------------------------------------------


def fom_flops(size: Size) -> Formula:
    """Operations of one CG iteration as NekBone counts them, whatever is really done: the figure of merit's count."""
    e, n = size.elements, size.n
    return Formula(12 * e * n**4 + 34 * e * n**3, "12 E (N+1)^4 + 34 E (N+1)^3", "hipBone Eq. 3")


def operator_flops(size: Size) -> Formula:
    """Operations of (S_L + lambda W) Z x: 12 n^4 for D and its transpose, 15 n^3 for G, 3 n^3 for lambda W."""
    e, n = size.elements, size.n
    return Formula(12 * e * n**4 + 18 * e * n**3, "12 E (N+1)^4 + 18 E (N+1)^3", "hipBone Eq. 4")


def iteration_flops(size: Size) -> Formula:
    """Operations hipBone does in a CG iteration: the operator, one per point for the gather, 10 per DOF for vectors."""
    e, n = size.elements, size.n
    value = 12 * e * n**4 + 19 * e * n**3 + 10 * size.dofs
    return Formula(value, "12 E (N+1)^4 + 19 E (N+1)^3 + 10 N_G", "hipBone Eq. 5")


# --- bytes of the paper --------------------------------------------------------------------------------------------


def operator_bytes(size: Size) -> Formula:
    """x once, a 4-byte index, six factors and W, and the write of y_L: 8 N_G + (4 + 56 + 8) N_L in double."""
    w = size.word
    return Formula(w * size.dofs + (8 * w + 4) * size.points, _bytes_text(w, 8 * w + 4), "hipBone Eq. 4")


def gather_bytes(size: Size) -> Formula:
    """The gather Z^T: y_L and 4-byte indices in, N_G offsets and values out: 12 N_G + 12 N_L in double."""
    w = size.word
    return Formula((w + 4) * (size.dofs + size.points), _bytes_text(w + 4, w + 4), "hipBone, text before Eq. 5")


def vector_bytes(size: Size) -> Formula:
    """The vector operations of an iteration read or write 11 vectors (2 + 3 + 3 + 3): 88 N_G in double."""
    w = size.word
    return Formula(11 * w * size.dofs, f"{11 * w} N_G", "hipBone, text before Eq. 5")


def iteration_bytes(size: Size) -> Formula:
    """A whole iteration: operator, gather and vectors, 108 N_G + 80 N_L in double."""
    value = operator_bytes(size).value + gather_bytes(size).value + vector_bytes(size).value
    w = size.word
    return Formula(value, _bytes_text(13 * w + 4, 9 * w + 8), "hipBone, text before Eq. 5")


def _bytes_text(per_dof: int, per_point: int) -> str:
    return f"{per_dof} N_G + {per_point} N_L"


# --- bytes of weft's variants --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """Which of weft's ways an operator or a solve goes; the values are those of `weft.Poisson`."""

    storage: str = "assembled"  # or scattered
    geometry: str = "stored"  # or trilinear
    kernels: str = "portable"  # or simd
    algorithm: str = "classic"  # or merged
    preconditioner: str = "none"  # or jacobi
    ranks: int = 1
    masked: bool = False  # Dirichlet points taken out


class _Count:
    """Adds up terms of a count, and the words for them: one per kind of thing counted."""

    def __init__(self) -> None:
        self.value = 0.0
        self.per: dict[str, int] = {}

    def add(self, per: int, count: int, name: str) -> None:
        """`per` bytes for each of `count` things called `name`."""
        self.value += per * count
        self.per[name] = self.per.get(name, 0) + per

    def formula(self) -> Formula:
        return Formula(self.value, " + ".join(f"{per} {name}" for name, per in self.per.items()), "docs/figures.md")


def _surface(size: Size) -> tuple[int, str]:
    """Local points on the surfaces of their elements, the only ones elements can share."""
    return size.elements * (size.n**3 - max(0, size.n - 2) ** 3), "E ((N+1)^3 - (N-1)^3)"


def _add_geometry(count: _Count, size: Size, geometry: str) -> None:
    if geometry == "stored":
        count.add(6 * size.word, size.points, "N_L")
    else:
        count.add(24 * size.word, size.elements, "E")  # eight corners of three coordinates


def _add_operator(count: _Count, size: Size, method: Method) -> None:
    w = size.word
    if method.kernels == "simd":
        # Straight between assembled vectors: x in, y out, and indices of surface points alone.
        count.add(2 * w, size.dofs, "N_G")
        count.add(4, *_surface(size))
        _add_geometry(count, size, method.geometry)
        return
    if method.storage == "assembled":
        count.add(w, size.dofs, "N_G")  # x
        count.add(4, size.points, "N_L")  # Z
    else:
        count.add(w, size.points, "N_L")
    _add_geometry(count, size, method.geometry)
    if method.storage == "scattered" or method.geometry == "stored":
        count.add(w, size.points, "N_L")  # W; else lambda x is left to the gather
    count.add(w, size.points, "N_L")  # y_L


def weft_operator_bytes(size: Size, method: Method) -> Formula:
    """What the element kernel moves, without Z^T and exchange: portable and stored it is Eq. 4's count."""
    count = _Count()
    _add_operator(count, size, method)
    return count.formula()


def weft_iteration_bytes(size: Size, method: Method) -> Formula:
    """What a CG iteration of weft moves; the portable, stored and classic one 8 N_G less than the paper's on ranks."""
    w = size.word
    count = _Count()
    jacobi = 1 if method.preconditioner == "jacobi" else 0
    if method.algorithm == "merged":
        # One pass: r, p and A p read and written, x too in every second iteration, the preconditioner read.
        count.add((7 + jacobi) * w, size.dofs, "N_G")
        count.add(4, *_surface(size))
        _add_geometry(count, size, method.geometry)
        return count.formula()
    _add_operator(count, size, method)
    # p . Ap 2 unless the gather sums it; r update and r . r 3; x and p updates 6, or 5 in one pass where no all-reduce
    # is left to hide
    in_gather = method.kernels == "portable" and method.storage == "assembled"
    vectors = (0 if in_gather else 2) + 3 + (5 if method.ranks == 1 else 6) + 2 * jacobi
    if method.storage == "scattered":
        count.add(2 * w + 4, *_surface(size))  # Z Z^T: values in and out, indices
        if method.masked:
            count.add(3 * w, size.points, "N_L")
        count.add((vectors + 2) * w, size.points, "N_L")  # two inner products read the weights
        return count.formula()
    if method.kernels == "portable":
        count.add(w + 4, size.dofs, "N_G")  # Z^T: values and offsets ...
        count.add(w + 4, size.points, "N_L")  # ... of y_L and columns
        count.add(w, size.dofs, "N_G")  # x, for p . Ap and lambda x
    count.add(vectors * w, size.dofs, "N_G")
    return count.formula()


# --- rates ---------------------------------------------------------------------------------------------------------


def roofline(flops: float, bytes_: float, peak_flops: float, bandwidth: float) -> float:
    """Eq. 4: the rate in FLOP/s of work of `flops` and `bytes_`; C = peak_flops in FLOP/s, B = bandwidth in byte/s."""
    return min(peak_flops, flops / bytes_ * bandwidth)


def throughput(dofs: int, iterations: int, ranks: int, seconds: float) -> float:
    """Eq. 6: DOFs x iterations / (ranks x time), in 1/s."""
    return dofs * iterations / (ranks * seconds)


def weak_efficiency(rate_per_rank: float, reference_rate_per_rank: float) -> float:
    """How much of a reference's figure of merit per rank is kept."""
    return rate_per_rank / reference_rate_per_rank


def storage_overhead(order: int) -> float:
    """How much longer scattered vectors are on a large mesh: N_L / N_G - 1 = (N+1)^3 / N^3 - 1."""
    return (order + 1) ** 3 / order**3 - 1


# --- occupancy -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Multiprocessor:
    """An NVIDIA SM or an AMD CU: four SIMD units, among which its register file is divided evenly."""

    lanes: int  # of a warp or wavefront
    register_bytes: int  # of the whole SM or CU
    granularity: int  # registers a lane are given out in multiples of this
    max_warps: int
    max_blocks: int
    shared_bytes: int
    simds: int = 4
    reserved_shared_bytes: int = 0  # taken by the system from each block's share


# Register files: hipBone, section "Poisson Operator Performance"; the rest: the vendors' architecture manuals.
V100 = Multiprocessor(32, 256 * 1024, 8, 64, 32, 96 * 1024)
MI100 = Multiprocessor(64, 256 * 1024, 4, 40, 40, 64 * 1024)
MI250X = Multiprocessor(64, 512 * 1024, 8, 32, 32, 64 * 1024)


def multiprocessor(limits: dict[str, int], architecture: str) -> Multiprocessor:
    """The SM or CU of an opened device, from what its driver says (`Device.limits`)."""
    return Multiprocessor(
        lanes=limits["warp_size"],
        register_bytes=4 * limits["registers_per_multiprocessor"],
        granularity=4 if architecture.startswith("gfx908") else 8,
        max_warps=limits["max_threads_per_multiprocessor"] // limits["warp_size"],
        max_blocks=32,
        shared_bytes=limits["shared_bytes_per_multiprocessor"],
        # CUDA Programming Guide, compute capability 8.0 and above
        reserved_shared_bytes=1024 if architecture.startswith("sm_") and int(architecture[3:]) >= 80 else 0,
    )


@dataclass(frozen=True)
class Occupancy:
    """What one SM or CU holds at once of a kernel, as in hipBone's Table 1."""

    warps_per_block: int
    masked_lanes: int  # idle lanes of a block's last warp
    blocks: int
    warps: int
    limited_by: str


def occupancy(on: Multiprocessor, threads: int, registers: int, shared_bytes: int = 0) -> Occupancy:
    """Blocks of `threads` threads, `registers` 4-byte registers a thread and `shared_bytes` that one SM or CU holds."""
    warps_per_block = -(-threads // on.lanes)
    given = -(-registers // on.granularity) * on.granularity
    warps_by_registers = on.simds * (on.register_bytes // on.simds // (given * on.lanes * 4))
    limits = {
        "registers": warps_by_registers // warps_per_block,
        "warps": on.max_warps // warps_per_block,
        "blocks": on.max_blocks,
    }
    if shared_bytes + on.reserved_shared_bytes > 0:
        limits["shared memory"] = on.shared_bytes // (shared_bytes + on.reserved_shared_bytes)
    limit = min(limits, key=lambda name: limits[name])
    blocks = limits[limit]
    return Occupancy(warps_per_block, warps_per_block * on.lanes - threads, blocks, blocks * warps_per_block, limit)
