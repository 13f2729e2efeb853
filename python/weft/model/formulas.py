"""The formulas behind every figure of the Poisson benchmark, each with its source.

hipBone is "hipBone: A performance-portable GPU-accelerated C++ version of the NekBone benchmark" (Chalmers, Mishra,
McDougall, Warburton). E elements of order N have n = N + 1 points per direction, N_L = E n^3 element-local points, and
N_G degrees of freedom. Bytes are those that must pass through main memory if reused data are perfectly cached.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """The size of a problem: elements E, order N, degrees of freedom N_G, and bytes per floating-point number."""

    elements: int
    order: int
    dofs: int
    word: int = 8

    @property
    def n(self) -> int:
        """The points of an element per direction, N + 1."""
        return self.order + 1

    @property
    def points(self) -> int:
        """The element-local points, N_L = E (N + 1)^3."""
        return self.elements * self.n**3


def large_mesh(order: int, elements: int = 1, word: int = 8) -> Size:
    """A size with N_G = E N^3, which the paper's equations assume for large meshes."""
    return Size(elements, order, elements * order**3, word)


@dataclass(frozen=True)
class Formula:
    """A count, the formula as printed, and its source."""

    value: float
    text: str
    source: str


# --- floating-point operations -------------------------------------------------------------------------------------


def fom_flops(size: Size) -> Formula:
    """Operations per CG iteration as Nekbone counts them for the figure of merit, whatever is actually executed."""
    e, n = size.elements, size.n
    return Formula(12 * e * n**4 + 34 * e * n**3, "12 E (N+1)^4 + 34 E (N+1)^3", "hipBone Eq. 3")


def operator_flops(size: Size) -> Formula:
    """Operations of (S_L + lambda W) Z x: 12 n^4 for D and its transpose, 15 n^3 for G, 3 n^3 for lambda W."""
    e, n = size.elements, size.n
    return Formula(12 * e * n**4 + 18 * e * n**3, "12 E (N+1)^4 + 18 E (N+1)^3", "hipBone Eq. 4")


def iteration_flops(size: Size) -> Formula:
    """Operations per CG iteration of hipBone: the operator, one per point in the gather, 10 per DOF for vectors."""
    e, n = size.elements, size.n
    value = 12 * e * n**4 + 19 * e * n**3 + 10 * size.dofs
    return Formula(value, "12 E (N+1)^4 + 19 E (N+1)^3 + 10 N_G", "hipBone Eq. 5")


# --- bytes of the paper --------------------------------------------------------------------------------------------


def operator_bytes(size: Size) -> Formula:
    """Bytes of the operator: x once, 4-byte indices, six factors, W, and y_L written. 8 N_G + (4 + 56 + 8) N_L in
    double precision."""
    w = size.word
    return Formula(w * size.dofs + (8 * w + 4) * size.points, _bytes_text(w, 8 * w + 4), "hipBone Eq. 4")


def gather_bytes(size: Size) -> Formula:
    """Bytes of the gather Z^T: y_L and 4-byte indices read, N_G offsets read and values written. 12 N_G + 12 N_L in
    double precision."""
    w = size.word
    return Formula((w + 4) * (size.dofs + size.points), _bytes_text(w + 4, w + 4), "hipBone, text before Eq. 5")


def vector_bytes(size: Size) -> Formula:
    """Bytes of the vector operations of an iteration, which read or write 11 vectors (2 + 3 + 3 + 3). 88 N_G in double
    precision."""
    w = size.word
    return Formula(11 * w * size.dofs, f"{11 * w} N_G", "hipBone, text before Eq. 5")


def iteration_bytes(size: Size) -> Formula:
    """Bytes of a whole iteration: operator, gather and vectors. 108 N_G + 80 N_L in double precision."""
    value = operator_bytes(size).value + gather_bytes(size).value + vector_bytes(size).value
    w = size.word
    return Formula(value, _bytes_text(13 * w + 4, 9 * w + 8), "hipBone, text before Eq. 5")


def _bytes_text(per_dof: int, per_point: int) -> str:
    return f"{per_dof} N_G + {per_point} N_L"


# --- bytes of weft's variants --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """The variants of the operator and the solver that a run uses; the values are those of `weft.Poisson`."""

    storage: str = "assembled"  # or scattered
    geometry: str = "stored"  # or trilinear, or mixed
    stored_elements: int = 0  # of geometry mixed
    parallelepipeds: int = 0  # among those whose factors are not stored
    boxes: int = 0  # among the parallelepipeds: elements with right angles, whose metric is diagonal
    kernels: str = "portable"  # or simd
    algorithm: str = "classic"  # or merged
    preconditioner: str = "none"  # or jacobi
    ranks: int = 1
    masked: bool = False  # Dirichlet points are masked out
    screened: bool = False  # a term c u, added by a pass over vectors

    def shapes(self, size: Size) -> dict[str, int]:
        """The numbers of elements by the form of their metric."""
        stored = size.elements if self.geometry == "stored" else self.stored_elements
        trilinear = size.elements - stored - self.parallelepipeds
        return {"parallelepiped": self.parallelepipeds, "trilinear": trilinear, "stored": stored}

    def kinds_of_metric(self, size: Size) -> dict[str, int]:
        """The same, with boxes apart from the other parallelepipeds."""
        shapes = self.shapes(size)
        return {"box": self.boxes, **shapes, "parallelepiped": shapes["parallelepiped"] - self.boxes}


class _Count:
    """Sum of the terms of a count, which also builds the formula as text."""

    def __init__(self) -> None:
        self.value = 0.0
        self.per: dict[str, int] = {}

    def add(self, per: int, count: int, name: str) -> None:
        """Adds `per` bytes for each of `count` items, written as `name` in the formula."""
        self.value += per * count
        self.per[name] = self.per.get(name, 0) + per

    def formula(self) -> Formula:
        return Formula(self.value, " + ".join(f"{per} {name}" for name, per in self.per.items()), "docs/figures.md")


def _surface(size: Size) -> tuple[int, str]:
    """The local points on the surfaces of elements, the only points that elements can share."""
    return size.elements * (size.n**3 - max(0, size.n - 2) ** 3), "E ((N+1)^3 - (N-1)^3)"


def _add_geometry(count: _Count, size: Size, method: Method) -> None:
    map_bytes = 24 * size.word  # eight corners with three coordinates each
    if method.geometry == "stored":
        count.add(6 * size.word, size.points, "N_L")
        return
    shapes = method.shapes(size)
    if method.geometry == "mixed":
        count.add(6 * size.word, shapes["stored"] * size.n**3, "E_curved (N+1)^3")
    if method.kernels == "simd":
        count.add(map_bytes, size.elements - shapes["stored"], "E" if method.geometry == "trilinear" else "E_straight")
        return
    # Portable kernels read the metric of a parallelepiped, without the weights.
    if shapes["parallelepiped"] > 0:
        count.add(6 * size.word, shapes["parallelepiped"], "E_parallelepiped")
    if shapes["trilinear"] > 0 or shapes["parallelepiped"] == 0:
        count.add(map_bytes, shapes["trilinear"], "E" if shapes["parallelepiped"] == 0 else "E_trilinear")


def _add_operator(count: _Count, size: Size, method: Method) -> None:
    w = size.word
    if method.kernels == "simd":
        # Reads and writes assembled vectors directly: x in, y out, and indices for surface points only.
        count.add(2 * w, size.dofs, "N_G")
        count.add(4, *_surface(size))
        _add_geometry(count, size, method)
        return
    if method.storage == "assembled":
        count.add(w, size.dofs, "N_G")  # x
        count.add(4, size.points, "N_L")  # Z
    else:
        count.add(w, size.points, "N_L")
    _add_geometry(count, size, method)
    if method.storage == "scattered" or method.geometry == "stored":
        count.add(w, size.points, "N_L")  # W; otherwise the gather adds lambda x
    count.add(w, size.points, "N_L")  # y_L


def weft_operator_bytes(size: Size, method: Method) -> Formula:
    """Bytes of weft's element kernel, without Z^T and exchange. The portable, stored variant has the count of Eq. 4."""
    count = _Count()
    _add_operator(count, size, method)
    return count.formula()


def weft_iteration_bytes(size: Size, method: Method) -> Formula:
    """Bytes of a CG iteration of weft.

    On several ranks, the portable, stored and classic variant moves 8 N_G bytes less than the paper's iteration. On one
    rank it is counted as on GPUs: the residual is updated in the gather, and A p is not stored.
    """
    w = size.word
    count = _Count()
    jacobi = 1 if method.preconditioner == "jacobi" else 0
    if method.algorithm == "merged":
        # One pass: r, p and A p are read and written, x too in every second iteration, and the preconditioner is read.
        count.add((7 + jacobi) * w, size.dofs, "N_G")
        count.add(4, *_surface(size))
        _add_geometry(count, size, method)
        return count.formula()
    _add_operator(count, size, method)
    # Vectors read or written: on one rank 2 for p . Ap unless the gather computes it, 3 for the update of r and r . r,
    # and 5 for those of x and p; on several 7 for all updates, and 3 for all sums, or 2 without p . Ap.
    in_gather = method.kernels == "portable" and method.storage == "assembled" and not method.screened
    products = size.order >= 3 or method.geometry == "stored"  # Operator::summand_partials
    if in_gather and products and method.ranks == 1:
        count.add(w + 4, size.points, "N_L")  # Z^T: y_L and columns ...
        p = 0 if method.geometry == "stored" else 1  # read for lambda p, if W is not among the factors
        # ... offsets, r and p; x, p and r again for the updates of x and p
        count.add((2 + p + 5 + 2 * jacobi) * w + 4, size.dofs, "N_G")
        return count.formula()
    screening = 4 if method.screened else 0  # c and x are read, A x is read and written
    vectors = screening + 2 * jacobi
    if method.ranks == 1:
        vectors += 8 if in_gather else 10
    else:
        vectors += 9 if in_gather else 10
    if method.storage == "scattered":
        count.add(2 * w + 4, *_surface(size))  # Z Z^T: values in and out, indices
        if method.masked:
            count.add(3 * w, size.points, "N_L")
        weights = 2 if method.ranks == 1 else 1  # read once per pass with inner products
        count.add((vectors + weights) * w, size.points, "N_L")
        return count.formula()
    if method.kernels == "portable":
        count.add(w + 4, size.dofs, "N_G")  # Z^T: values and offsets ...
        count.add(w + 4, size.points, "N_L")  # ... of y_L and columns
        count.add(w, size.dofs, "N_G")  # x, for p . Ap and lambda x
    count.add(vectors * w, size.dofs, "N_G")
    return count.formula()


# --- operations of weft's variants ----------------------------------------------------------------------------------


def weft_operator_flops(size: Size, method: Method) -> Formula:
    """Operations of weft's operator. The SIMD kernels apply D to lines by even and odd parts; those of the portable
    kernels are the paper's."""
    if method.kernels != "simd":
        return operator_flops(size)
    e, n, h = size.elements, size.n, size.n // 2
    line = n * n + n if n % 2 == 0 else 4 * h * h + 6 * h - 1
    per_point = {"parallelepiped": 18.0, "trilinear": 32.5, "stored": 15.0, "box": 3.0}
    per_line = {"parallelepiped": 6.0, "trilinear": 60.0, "stored": 0.0, "box": 3.0}
    per_plane = {"parallelepiped": 0.0, "trilinear": 230.0, "stored": 0.0, "box": 0.0}
    metric = sum(
        k * n * (n * (per_point[kind] * n + per_line[kind]) + per_plane[kind])
        for kind, k in method.kinds_of_metric(size).items()
    )
    # Boxes take three lines of a symmetric matrix, which take two operations more if n is odd.
    lines = 6 * (e - method.boxes) * line + 3 * method.boxes * (line + 2 * (n % 2))
    value = n * n * lines + 2 * size.points + metric + 2 * size.dofs
    text = "6 E" if not method.boxes else "3 E" if method.boxes == e else "(6 E - 3 E_box)"
    return Formula(value, f"{text} (N+1)^2 lines + 2 N_L + metric + 2 N_G", "docs/cpu-kernels.md")


def weft_iteration_flops(size: Size, method: Method) -> Formula:
    """Operations per CG iteration of weft: the SIMD operator and 14 per DOF in merged CG and on several ranks, else
    10; those of the portable kernels are the paper's. A screening term takes 2 more."""
    if method.kernels != "simd":
        paper = iteration_flops(size)
        if not method.screened:
            return paper
        return Formula(paper.value + 2 * size.dofs, f"{paper.text} + 2 N_G", paper.source)
    operator = weft_operator_flops(size, method)
    vectors = 14 if method.algorithm == "merged" or method.ranks > 1 else 10
    vectors += 2 if method.screened else 0
    text = operator.text.replace("2 N_G", f"{2 + vectors} N_G")
    return Formula(operator.value + vectors * size.dofs, text, operator.source)


# --- rates ---------------------------------------------------------------------------------------------------------


def roofline(flops: float, bytes_: float, peak_flops: float, bandwidth: float) -> float:
    """Eq. 4: the attainable rate (FLOP/s) of work with this many operations and bytes.

    `peak_flops` is C in FLOP/s, `bandwidth` is B in byte/s.
    """
    return min(peak_flops, flops / bytes_ * bandwidth)


def throughput(dofs: int, iterations: int, ranks: int, seconds: float) -> float:
    """Eq. 6: DOFs x iterations / (ranks x time), in 1/s."""
    return dofs * iterations / (ranks * seconds)


def weak_efficiency(rate_per_rank: float, reference_rate_per_rank: float) -> float:
    """Figure of merit per rank, relative to a reference."""
    return rate_per_rank / reference_rate_per_rank


def storage_overhead(order: int) -> float:
    """Extra length of scattered vectors on a large mesh: N_L / N_G - 1 = (N+1)^3 / N^3 - 1."""
    return (order + 1) ** 3 / order**3 - 1


# --- occupancy -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Multiprocessor:
    """An NVIDIA SM or an AMD CU. Its register file is divided evenly among four SIMD units."""

    lanes: int  # lanes per warp or wavefront
    register_bytes: int  # of the whole SM or CU
    granularity: int  # registers per lane are allocated in multiples of this
    max_warps: int
    max_blocks: int
    shared_bytes: int
    simds: int = 4
    reserved_shared_bytes: int = 0  # reserved by the system in each block


# Register files: hipBone, section "Poisson Operator Performance"; the rest: the vendors' architecture manuals.
V100 = Multiprocessor(32, 256 * 1024, 8, 64, 32, 96 * 1024)
MI100 = Multiprocessor(64, 256 * 1024, 4, 40, 40, 64 * 1024)
MI250X = Multiprocessor(64, 512 * 1024, 8, 32, 32, 64 * 1024)


def multiprocessor(limits: dict[str, int], architecture: str) -> Multiprocessor:
    """The SM or CU of an opened device, from the limits that its driver reports (`Device.limits`)."""
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
    """The occupancy of one SM or CU by a kernel, as in hipBone's Table 1."""

    warps_per_block: int
    masked_lanes: int  # idle lanes of a block's last warp
    blocks: int
    warps: int
    limited_by: str


def occupancy(on: Multiprocessor, threads: int, registers: int, shared_bytes: int = 0) -> Occupancy:
    """The occupancy by blocks of `threads` threads with `registers` 4-byte registers per thread and `shared_bytes`."""
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
