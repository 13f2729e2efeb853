"""Checks of the scaling ledger.

They cover hipBone's counts, roofline, occupancy and Table 2; GESTS's memory, efficiencies and messages; and NekCEM's
rates. `weft.model.published` has the tables as printed.
"""

from __future__ import annotations

import math
import re

from weft.model import efficiency, formulas, published
from weft.model.ledger import (
    REPRODUCES,
    Claim,
    Entry,
    Outcome,
    check,
    claim_of,
    claims,
    compare,
    consistent,
    holds,
    judge,
    numbers,
    own,
)
from weft.model.project.elements import maxwell_step_flops
from weft.model.project.grids import WORD, alltoall_bandwidth, turbulence_memory_gib
from weft.model.result import Result, exact, rounded_result

LEDGER = "scaling"
GIB, MIB = 2**30, 2**20


def whole(method: str, value: float, unit: str, equation: str) -> Result:
    """A result from exact inputs."""
    return exact(method, "", value, unit, {}, equation)


# --- hipBone -------------------------------------------------------------------------------------------------------

ORDER = published.HIPBONE_ORDER
SIZE = formulas.large_mesh(ORDER)
SYSTEMS = {"V100": "summit", "MI100": "spock", "MI250X": "crusher", "MI250X-GCD": "crusher"}


@check(LEDGER, "H-21.3", method="formulas", equation="(N+1)^3 / N^3 - 1")
def storage(entry: Entry) -> Result:
    return whole("formulas", 100 * formulas.storage_overhead(int(entry.value("N"))), "%", "(N+1)^3 / N^3 - 1")


def coefficients(text: str) -> list[float]:
    """The leading factors of the terms of a printed formula: '108N_G+80N_L' -> [108, 80]."""
    return [float(n) for n in re.findall(r"(?:^|[+(\s])(\d+)\s*[NE]", text)]


@check(LEDGER, "H-BYTES", method="formulas", equation="hipBone Eq. 4")
def operator_bytes(entry: Entry) -> Outcome:
    dofs, points = coefficients(entry.claimed)
    formula = formulas.operator_bytes(SIZE)
    return holds(formula.value == dofs * SIZE.dofs + points * SIZE.points, formula.text)


@check(LEDGER, "H-ITER-BYTES", method="formulas", equation="hipBone, before Eq. 5")
def iteration_bytes(entry: Entry) -> Outcome:
    dofs, points = coefficients(entry.claimed)
    formula = formulas.iteration_bytes(SIZE)
    return holds(formula.value == dofs * SIZE.dofs + points * SIZE.points, formula.text)


@check(LEDGER, "H-EQ5", method="formulas", equation="hipBone Eq. 5")
def iteration_flops(entry: Entry) -> Outcome:
    fourth, third, dofs = coefficients(entry.claimed)
    formula = formulas.iteration_flops(SIZE)
    return holds(formula.value == fourth * SIZE.n**4 + third * SIZE.n**3 + dofs * ORDER**3, formula.text)


@check(LEDGER, "H-EQ3", method="formulas", equation="hipBone Eqs. 3, 4")
def nekbone_flops(entry: Entry) -> Outcome:
    """The paper itemises 15 n^3 of the 34 n^3 in Eq. 3, those for G: the operator's 18, minus 3 for lambda W."""
    fourth = 12 * SIZE.n**4
    itemised = (formulas.operator_flops(SIZE).value - fourth) / SIZE.n**3 - 3
    return own("PARTIAL", entry, [itemised, (formulas.fom_flops(SIZE).value - fourth) / SIZE.n**3 - itemised])


@check(LEDGER, "H-EQ4-TEXT", method="formulas", equation="hipBone Eq. 4")
def two_bandwidths(entry: Entry) -> Outcome:
    def three(text: str) -> list[Claim]:
        return [Claim(n, float(n), float(n)) for n in re.findall(r"\d{3,}", text)]

    return consistent(*zip(three(entry.claimed), three(entry.computed), strict=True))


@check(LEDGER, "H-ROOF-*", method="roofline", equation="hipBone Eq. 4")
def operator_roofline(entry: Entry) -> Outcome:
    measured = float(numbers(entry.claimed)[0])
    flops, moved = formulas.operator_flops(SIZE).value, formulas.operator_bytes(SIZE).value
    values: list[float] = []
    for bandwidth in entry.values("B"):
        roof = formulas.roofline(flops, moved, math.inf, 1e9 * bandwidth) / 1e9
        values += [roof, 100 * measured / roof]
    return own("METHOD-CHECK", entry, values)


@check(LEDGER, "H-FOM-*", method="roofline", equation="hipBone Eqs. 3, 4")
def iteration_roofline(entry: Entry) -> Outcome:
    size = formulas.large_mesh(7 if entry.key == "H-FOM-N7" else ORDER)
    flops, moved = formulas.fom_flops(size).value, formulas.iteration_bytes(size).value
    roof = formulas.roofline(flops, moved, math.inf, 1e9 * entry.value("B")) / 1e9
    return own("METHOD-CHECK", entry, [roof, 100 * float(numbers(entry.claimed)[0]) / roof])


MULTIPROCESSORS = {"V100": formulas.V100, "MI100": formulas.MI100, "MI250X": formulas.MI250X}


def held(entry: Entry, device: str) -> formulas.Occupancy:
    """The occupancy of a multiprocessor by the entry's kernel."""
    return formulas.occupancy(MULTIPROCESSORS[device], int(entry.value("block")), int(entry.value("regs")))


@check(LEDGER, "H-T1-*", method="formulas", equation="occupancy (hipBone Table 1)")
def occupancy(entry: Entry) -> list[Result]:
    found = held(entry, entry.key.split("-")[2])
    values = ((found.warps_per_block, "warps/block"), (found.warps, "warps"), (found.blocks, "elements"))
    return [whole("formulas", v, unit, "occupancy") for v, unit in values]


@check(LEDGER, "H-MASK", method="formulas", equation="occupancy (hipBone Table 1)")
def masked(entry: Entry) -> Result:
    """N = 11 uses blocks of (N + 1)^2 threads on wavefronts of 64."""
    found = formulas.occupancy(formulas.MI100, (int(entry.value("N")) + 1) ** 2, 1)
    return whole("formulas", found.masked_lanes, "lanes", "occupancy")


def kept(system: str, ranks: int, reference: int) -> float:
    """The FOM per rank in percent of that on fewer ranks (Table 2)."""
    table = published.HIPBONE_TABLE_2[system]
    return 100 * formulas.weak_efficiency(table[ranks] / ranks, table[reference] / reference)


@check(LEDGER, "H-WS-*", method="formulas", equation="FOM per rank over the first row's")
def weak_scaling(entry: Entry) -> Result:
    system = SYSTEMS[entry.key.split("-")[2]]
    return whole("formulas", kept(system, max(published.HIPBONE_TABLE_2[system]), 1), "%", "FOM per rank")


@check(LEDGER, "H-WS28-V100", "H-WS28-AMD", method="formulas", equation="FOM per rank, 2 to 8 nodes")
def weak_scaling_of_nodes(entry: Entry) -> Outcome:
    """The last row uses 8 nodes, so that 2 nodes have a quarter of its ranks."""
    systems = ["summit"] if entry.key.endswith("V100") else ["spock", "crusher"]
    results = []
    for system in systems:
        most = max(published.HIPBONE_TABLE_2[system])
        results.append(whole("formulas", kept(system, most, most // 4), "%", "FOM per rank"))
    return compare(claims(entry.claimed) * len(results), results)


K20X_GFLOPS = 78.2  # Gong et al. (2016) at N = 15, as hipBone's text cites it
K20X_GBPS = 250.0  # NVIDIA's data sheet; the V100's is 900


@check(LEDGER, "H-13x", method="formulas", equation="FOM over FOM")
def over_k20x(entry: Entry) -> Result:
    return whole("formulas", published.HIPBONE_TABLE_2["summit"][1] / K20X_GFLOPS, "x", "FOM over FOM")


@check(LEDGER, "H-3.6x", method="formulas", equation="peak bandwidths")
def over_k20x_bandwidth(entry: Entry) -> Result:
    return whole("formulas", 900.0 / K20X_GBPS, "x", "peak bandwidths")


# --- GESTS ---------------------------------------------------------------------------------------------------------

GCD_GIB = 64  # memory of a GCD of an MI250X, AMD's data sheet
RANKS_PER_NODE = 8


def memory(entry: Entry) -> float:
    """GiB per rank by Eq. 9."""
    batch = int(entry.value("Q")) if "Q" in entry.named else 1
    return turbulence_memory_gib(int(entry.value("N")), int(entry.value("P")), batch)


@check(LEDGER, "G-EQ9", "G-EQ9-32768", method="project", equation="GESTS Eq. 9")
def memory_of_a_rank(entry: Entry) -> Result:
    return whole("project", memory(entry), "GiB", "GESTS Eq. 9")


@check(LEDGER, "G-EQ9-2048N", method="project", equation="GESTS Eq. 9")
def least_nodes(entry: Entry) -> Outcome:
    """The problem fits on the published number of nodes, but not on half of them."""
    half = memory(entry)
    return holds(half / 2 <= GCD_GIB < half, f"{half:g} GiB per rank on half the nodes, which have {GCD_GIB} GiB")


@check(LEDGER, "G-2304", method="project", equation="GESTS Eq. 9")
def beyond_one_node(entry: Entry) -> Outcome:
    return own("NOT-REPRODUCIBLE", entry, [memory(entry)], picked=slice(-1, None))


@check(LEDGER, "G-Q", method="project", equation="GESTS Eq. 9, section 4.4")
def memory_of_batches(entry: Entry) -> Outcome:
    grid, ranks = 32768, 65536
    extra = [turbulence_memory_gib(grid, ranks, q) - turbulence_memory_gib(grid, ranks, 1) for q in (2, 4)]
    said = [8 * (q - 1) * (grid**3 / ranks) / 1024**3 for q in (2, 4)]
    return holds(all(math.isclose(a, b) for a, b in zip(extra, said, strict=True)), f"{extra} GiB for Q = 2, 4")


@check(LEDGER, "G-CKPT", method="project", equation="2 components x 4 B x N^3")
def checkpoint(entry: Entry) -> Result:
    return whole("project", 2 * WORD * int(entry.value("N")) ** 3 / 2**40, "TiB", "2 x 4 B x N^3")


@check(LEDGER, "G-POISSON", method="project", equation="4 B x N^3 / P")
def one_variable(entry: Entry) -> Result:
    value = WORD * int(entry.value("N")) ** 3 / int(entry.value("P")) / GIB
    return whole("project", value, "GiB", "4 B x N^3 / P")


FRONTIER_GRID, SUMMIT_GRID = 32768, 18432


@check(LEDGER, "G-POINTS", method="project", equation="N^3")
def points(entry: Entry) -> Result:
    return whole("project", FRONTIER_GRID**3 / 1e12, "trillion", "N^3")


@check(LEDGER, "G-5.6", method="project", equation="N^3")
def more_points(entry: Entry) -> Result:
    return whole("project", (FRONTIER_GRID / SUMMIT_GRID) ** 3, "x", "N^3")


@check(LEDGER, "G-8x", method="project", equation="N^3")
def twice_the_grid(entry: Entry) -> Result:
    return whole("project", (FRONTIER_GRID / (FRONTIER_GRID // 2)) ** 3, "x", "N^3")


@check(LEDGER, "G-CHI", "G-CHI-S", method="efficiency", equation="chi = N^3 / T")
def figure_of_merit(entry: Entry) -> Result:
    grid = SUMMIT_GRID if entry.key.endswith("S") else FRONTIER_GRID

    def chi(seconds: float) -> float:
        return efficiency.grid_points_rate(grid, seconds)

    return rounded_result("efficiency", "chi", "points/s", {"seconds": entry.text("T")}, chi, "chi = N^3 / T")


@check(LEDGER, "G-6.6", method="efficiency", equation="chi = N^3 / T")
def better_than_summit(entry: Entry) -> Result:
    frontier = efficiency.grid_points_rate(FRONTIER_GRID, entry.other("G-CHI").value("T"))
    summit = efficiency.grid_points_rate(SUMMIT_GRID, entry.other("G-CHI-S").value("T"))
    return whole("efficiency", frontier / summit, "x", "chi = N^3 / T")


@check(LEDGER, "G-MSG-CASE*", method="efficiency", equation="4 N^3 / (P Pc)")
def message(entry: Entry) -> Result:
    size = efficiency.peer_message(*(int(entry.value(k)) for k in ("N", "P", "Pc")))
    return whole("efficiency", size / MIB, "MiB", "4 N^3 / (P Pc)")


@check(LEDGER, "G-CALLS", method="project", equation="section 4.3")
def column_calls(entry: Entry) -> Result:
    calls = entry.value("rk") * (entry.value("inverse") + entry.value("forward"))
    return whole("project", calls, "calls", "section 4.3")


@check(LEDGER, "G-CALLS-ROW", method="project", equation="section 5.2")
def row_calls(entry: Entry) -> Outcome:
    return own("INFERRED", entry, [entry.value("rk") * (entry.value("inverse") + entry.value("forward"))])


@check(LEDGER, "G-IDENT-*", method="project", equation="calls x seconds of a call")
def calls_make_the_time(entry: Entry) -> Result:
    return whole("project", entry.value("kernel_x_calls"), "s", "calls x seconds of a call")


def column_sums(entry: Entry, rows: list[published.Gests]) -> Outcome:
    """Whether the parts of each row add up to its total within their rounding."""
    parts = [(r.fft, r.pack, r.row_mpi, r.column_mpi, r.other) for r in rows]
    off = max(abs(math.fsum(p) - r.total) for p, r in zip(parts, rows, strict=True))
    slack = 0.005 * (len(parts[0]) + 1)
    return holds(off <= slack + 1e-9, f"largest difference {off:.3f} s, {slack:.3f} s by rounding")


@check(LEDGER, "G-T2-SUM", method="published", equation="sum of the columns")
def sums_of_table_2(entry: Entry) -> Outcome:
    return column_sums(entry, published.GESTS_TABLE_2)


@check(LEDGER, "G-T3-SUM", method="published", equation="sum of the columns")
def sums_of_table_3(entry: Entry) -> Outcome:
    return column_sums(entry, published.GESTS_TABLE_3)


def work(grid: int) -> float:
    """The weak-scaling work per rank of a grid on the fewest nodes; both tables have 2048^3 on one node."""
    return efficiency.fft_work(grid, RANKS_PER_NODE * (grid / 2048) ** 3)


def weak_percent(entry: Entry, grid: int) -> Result:
    """Weak-scaling efficiency relative to 4096^3 (WS1) or to the next smaller grid (WS2)."""
    reference = 4096 if entry.key.endswith("WS1") else grid // 2

    def percent(seconds: float, reference_seconds: float) -> float:
        return 100 * efficiency.weak(seconds, work(grid), reference_seconds, work(reference))

    inputs = {"seconds": fixed(entry.value("T")), "reference_seconds": fixed(entry.value("ref"))}
    return rounded_result("efficiency", "weak scaling", "%", inputs, percent, "T_ref / T x work / work_ref")


def fixed(seconds: float) -> str:
    """Seconds with two decimals as in the tables: the ledger's 13.1 is printed as 13.10."""
    return f"{seconds:.2f}"


@check(LEDGER, "G-T2-*-WS*", method="efficiency", equation="section 4.2, work N^3 log2 N / P")
def weak_of_table_2(entry: Entry) -> Result:
    return weak_percent(entry, int(entry.value("N")))


@check(LEDGER, "G-T3-*-WS*", method="efficiency", equation="section 4.2, work N^3 log2 N / P")
def weak_of_table_3(entry: Entry) -> Result:
    (row,) = [r for r in published.GESTS_TABLE_3 if r.case == entry.key.split("-")[2]]
    return weak_percent(entry, row.grid)


def strong_percent(seconds: float, ranks: float, reference: float, reference_ranks: float) -> Result:
    """Strong-scaling efficiency from printed times."""
    inputs = {"seconds": fixed(seconds), "reference_seconds": fixed(reference)}

    def percent(seconds: float, reference_seconds: float) -> float:
        return 100 * efficiency.strong(seconds, ranks, reference_seconds, reference_ranks)

    return rounded_result("efficiency", "strong scaling", "%", inputs, percent, "T_ref P_ref / (T P)")


@check(LEDGER, "G-T5-*", "G-T6-*", method="efficiency", equation="T_ref P_ref / (T P)")
def strong_of_tables_5_and_6(entry: Entry) -> Result:
    nodes = int(entry.key.split("-")[3])
    reference_nodes, reference, *_ = entry.values("ref")
    return strong_percent(entry.value("T"), nodes, reference, reference_nodes)


@check(LEDGER, "G-T7-*", method="efficiency", equation="T_ref P_ref / (T P)")
def strong_of_table_7(entry: Entry) -> Result:
    (row,) = [r for r in published.GESTS_TABLE_7 if r.case == entry.key.split("-")[2]]
    fewest = min(r.nodes for r in published.GESTS_TABLE_7)
    return strong_percent(entry.value("T"), row.nodes, entry.value("ref"), fewest)


@check(LEDGER, "G-SLAB-*", method="efficiency", equation="T_ref P_ref / (T P)")
def strong_of_slabs(entry: Entry) -> Result:
    """Strong-scaling efficiency for a fourfold increase of nodes (section 4.4)."""
    reference, seconds = entry.values("t")
    return strong_percent(seconds, 4, reference, 1)


def fastest(rows: list[published.Gests], grid: int) -> published.Gests:
    """The row with the shortest time for a grid."""
    return min((r for r in rows if r.grid == grid), key=lambda r: r.total)


@check(LEDGER, "G-SPEED-*", method="published", equation="Tables 3 and 4")
def gpu_speedup(entry: Entry) -> Result:
    grid = int(entry.key.split("-")[2])
    value = fastest(published.GESTS_TABLE_4, grid).total / fastest(published.GESTS_TABLE_3, grid).total
    return whole("published", value, "x", "Tables 3 and 4")


@check(LEDGER, "G-T4-*", method="published", equation="Tables 3 and 4, 8192^3")
def gpu_speedup_by_part(entry: Entry) -> Result:
    part = {"FFT": "fft", "PU": "pack", "MPI": "column_mpi", "OTHER": "other"}[entry.key.split("-")[2]]
    cpu, gpu = (fastest(t, 8192) for t in (published.GESTS_TABLE_4, published.GESTS_TABLE_3))
    return whole("published", getattr(cpu, part) / getattr(gpu, part), "x", "Tables 3 and 4")


@check(LEDGER, "G-27", "G-51", method="published", equation="Table 3, R-MPI")
def row_savings(entry: Entry) -> Result:
    """The time saved in the row all-to-all by halving the rows, from 8 or from 4, at 32768^3."""
    seconds = {r.rows: r.row_mpi for r in published.GESTS_TABLE_3 if r.grid == 32768}
    rows = 8 if entry.key == "G-27" else 4
    return whole("published", 100 * (1 - seconds[rows // 2] / seconds[rows]), "%", "Table 3")


CPU_TOTALS = {1: 1.706, 512: 2.152, 4096: 2.006}  # Table 10 by nodes: seconds on the CPU with the copies
TABLE_10 = {row.nodes: row for row in published.GESTS_TABLE_10}
ON_NODE_GBPS = 50.0  # Table 9, 8 GCDs


@check(LEDGER, "G-CPU-*", method="published", equation="Table 10")
def staged_over_direct(entry: Entry) -> Result:
    nodes = {"2.4": 4096, "3.65": 512, "13": 1}[entry.key.split("-")[2]]
    return whole("published", CPU_TOTALS[nodes] / TABLE_10[nodes].seconds, "x", "Table 10")


@check(LEDGER, "G-65.8", method="published", equation="Tables 9, 10")
def of_the_peak(entry: Entry) -> Result:
    return whole("published", 100 * TABLE_10[1].rate / ON_NODE_GBPS, "%", "Tables 9, 10")


@check(LEDGER, "G-93.9", method="published", equation="Tables 9, 12")
def columns_of_the_peak(entry: Entry) -> Result:
    return whole("published", 100 * published.GESTS_TABLE_12[0].rate / ON_NODE_GBPS, "%", "Tables 9, 12")


@check(LEDGER, "G-23.25", method="published", equation="section 5.2")
def between_two_gcds(entry: Entry) -> Result:
    """Nearly 93 GB/s (Table 11), half of which crosses the links of 200 GB/s."""
    return whole("published", 100 * (93.0 / 2) / 200.0, "%", "section 5.2")


@check(LEDGER, "G-MSG-T10-12-14", "G-MSG-T13", method="published", equation="4 Q N^3 / (P R)")
def messages(entry: Entry) -> Outcome:
    """The printed message sizes, all of which the grid, the ranks and the members of the communicator determine."""
    only_13 = entry.key.endswith("T13")
    rows = [r for r in published.GESTS_ALL_TO_ALLS if (r.table == 13) == only_13]
    same = [r for r in rows if r.message == peer_message(r) / MIB]
    count = int(claims(entry.claimed)[0].middle)
    return holds(len(same) == len(rows) == count, f"{len(same)} of {len(rows)} sizes are equal")


def peer_message(row: published.AllToAll) -> float:
    """Bytes between two ranks of a communicator in one call."""
    return row.batch * efficiency.peer_message(row.grid, RANKS_PER_NODE * row.nodes, row.members)


@check(LEDGER, "G-BW", method="project", equation="GESTS Eq. 13")
def bandwidths(entry: Entry) -> Outcome:
    """The printed bandwidths from sizes and times. The verdict is that of most rows; the text counts them all."""
    verdicts: dict[str, int] = {}
    for row in published.GESTS_ALL_TO_ALLS:
        volume = peer_message(row) * row.members

        def rate(seconds: float, volume: float = volume) -> float:
            return alltoall_bandwidth(volume, seconds) / 1e9

        printed = f"{row.seconds:.{row.decimals}f}"
        found = rounded_result("project", "bandwidth", "GB/s", {"seconds": printed}, rate, "GESTS Eq. 13")
        verdict = judge(claim_of(row.printed_rate), found)
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
    return Outcome(max(verdicts, key=lambda v: verdicts[v]), str(dict(sorted(verdicts.items()))))


@check(LEDGER, "H-T2-PERRANK", method="published", equation="FOM / ranks")
def fom_per_rank(entry: Entry) -> Outcome:
    """The printed column per rank, from the totals of the same rows."""
    rows = [
        (fom / ranks, per_rank)
        for system, table in published.HIPBONE_TABLE_2.items()
        for (ranks, fom), per_rank in zip(table.items(), published.HIPBONE_TABLE_2_PER_RANK[system], strict=True)
    ]
    same = sum(judge(claim_of(f"{printed:.1f}"), whole("published", fom, "GFLOP/s", "FOM / ranks")) == REPRODUCES
               for fom, printed in rows)  # fmt: skip
    return holds(same == len(rows), f"{same} of {len(rows)} rows")


# --- NekCEM --------------------------------------------------------------------------------------------------------

STEPS = 1000  # text on Fig. 7 and Table 3
POINTS_PER_GPU = 125 * 15**3  # text on Fig. 8


@check(LEDGER, "N-T1-*", method="project", equation="NekCEM Table 1: flop / time")
def table_1(entry: Entry) -> Result:
    return whole("project", entry.value("flop") / entry.value("t") / 1e9, "GFlops", "flop / time")


@check(LEDGER, "N-EQ16-*", method="project", equation="NekCEM Eq. 16")
def flops_of_a_point(entry: Entry) -> Result:
    return whole("project", maxwell_step_flops(int(entry.value("N")), 1), "n", "NekCEM Eq. 16")


@check(LEDGER, "N-28", "N-48", method="project", equation="NekCEM Eq. 16")
def rate_of_one_gpu(entry: Entry) -> Result:
    """The order is 14 or 7, whichever divides n into elements of (N + 1)^3 points."""
    n = int(entry.value("n"))
    order = next(o for o in (14, 7) if n % (o + 1) ** 3 == 0)
    flops = maxwell_step_flops(order, n) * STEPS

    def rate(seconds: float) -> float:
        return flops / seconds / 1e9

    return whole("project", rate(entry.value("t")), "GFlops", "NekCEM Eq. 16")


@check(LEDGER, "N-8", method="project", equation="points of an element")
def points_of_orders(entry: Entry) -> Result:
    return whole("project", (15 / 8) ** 3, "x", "points of an element")


@check(LEDGER, "N-6.9", "N-216M", method="project", equation="GPUs x points")
def points_of_all_gpus(entry: Entry) -> Result:
    gpus, unit = (16384, 1e9) if entry.key == "N-6.9" else (512, 1e6)
    return whole("project", gpus * POINTS_PER_GPU / unit, "", "GPUs x points")


@check(LEDGER, "N-39", method="project", equation="energy = power x time")
def energy(entry: Entry) -> Outcome:
    speedup = entry.value("speedup")
    return own("CONSISTENCY-ONLY", entry, [1, speedup, 100 / speedup])


@check(LEDGER, "N-T3-TYPO", method="project", equation="points of a GPU")
def exponent(entry: Entry) -> Outcome:
    factor, base, power = (int(n) for n in re.findall(r"(\d+)\*(\d+)\^(\d+)", entry.claimed)[0])
    text = factor * base**power
    computed = Claim(f"125 x 15^3 = {POINTS_PER_GPU}", POINTS_PER_GPU, POINTS_PER_GPU)
    return consistent([Claim(f"{factor} x {base}^{power} = {text}", text, text), computed])
