"""Published scaling tables, as printed. Projections are compared with them and calibrated on some of their rows.

hipBone: Chalmers et al.; GESTS: Yeung et al.; NekCEM: Otten et al.
"""

from __future__ import annotations

from dataclasses import dataclass

# hipBone Table 2: peak FOM in GFLOP/s at N = 15 by ranks, at about 45 million degrees of freedom per rank.
HIPBONE_TABLE_2: dict[str, dict[int, float]] = {
    "summit": {1: 1051.5, 3: 3086.1, 6: 6129.7, 12: 11935.5, 24: 23611.4, 48: 45294.6},
    "spock": {1: 1124.8, 2: 2172.5, 4: 4333.0, 8: 8609.5, 16: 17065.0, 32: 34011.7},
    "crusher": {1: 1386.1, 2: 2669.6, 4: 5316.9, 8: 10548.8, 16: 20968.0, 32: 41779.4, 64: 82375.7},
}
# The column of FOM per rank, as printed.
HIPBONE_TABLE_2_PER_RANK: dict[str, tuple[float, ...]] = {
    "summit": (1051.5, 1028.7, 1021.6, 994.6, 983.8, 943.6),
    "spock": (1124.8, 1086.3, 1083.3, 1076.2, 1066.6, 1062.9),
    "crusher": (1386.1, 1334.8, 1329.2, 1318.6, 1310.5, 1305.6, 1287.1),
}
HIPBONE_ORDER = 15
HIPBONE_DOFS_PER_RANK = 45e6  # text: "the very large ~ 45M degrees of freedom per MPI rank"
HIPBONE_CALIBRATION = {"summit": (1, 3, 12), "spock": (1, 2, 8), "crusher": (1, 2, 16)}


@dataclass(frozen=True)
class Gests:
    """A row of GESTS Tables 2 to 7: seconds per time step, in total and by part. Slabs have no row communicator."""

    table: int
    case: str
    grid: int
    nodes: int
    rows: int
    columns: int
    fft: float
    pack: float
    row_mpi: float
    column_mpi: float
    other: float
    total: float
    slabs: bool = False
    batch: int = 1

    @property
    def ranks_and_shape(self) -> tuple[object, ...]:
        """The identity of a run: rows of two tables with the same value are the same run, printed twice."""
        return (self.table == 4, self.grid, self.nodes, self.rows, self.columns, self.batch, self.slabs, self.total)

    @property
    def phases(self) -> dict[str, float]:
        """The printed parts, by the names of the phases of `project.turbulence`; MPI as one part if printed as one."""
        mpi = {"row MPI": self.row_mpi, "column MPI": self.column_mpi}
        if self.table == 4:
            mpi = {"MPI": self.column_mpi}
        parts = {"FFT": self.fft, "pack and unpack": self.pack, **mpi, "other": self.other}
        return {name: seconds for name, seconds in parts.items() if seconds > 0}


def _slabs(case: str, grid: int, nodes: int, *seconds: float) -> Gests:
    fft, pack, mpi, other, total = seconds
    return Gests(2, case, grid, nodes, 1, 8 * nodes, fft, pack, 0.0, mpi, other, total, slabs=True)


def _pencils(table: int, text: str) -> list[Gests]:
    rows = []
    for line in text.strip().splitlines():
        case, grid, nodes, rows_, columns, *rest = line.split()
        batch = 4 if case.startswith("*") else 1
        if table == 7:
            batch, rest = int(rest[0]), rest[1:]
        fft, pack, row_mpi, column_mpi, other, total = map(float, rest)
        shape = (int(grid), int(nodes), int(rows_), int(columns))
        name = case.removeprefix("*")
        rows.append(Gests(table, name, *shape, fft, pack, row_mpi, column_mpi, other, total, batch=batch))
    return rows


GESTS_TABLE_2 = [
    _slabs("1", 2048, 1, 1.360, 0.243, 1.846, 0.643, 4.09),
    _slabs("2", 4096, 8, 1.409, 0.246, 7.762, 0.685, 10.11),
    _slabs("3", 8192, 64, 1.580, 0.255, 8.152, 0.764, 10.75),
    _slabs("4", 16384, 512, 2.196, 0.268, 8.360, 0.700, 11.53),
    _slabs("5", 32768, 4096, 3.423, 0.276, 8.621, 0.747, 13.07),
    _slabs("6", 32768, 4096, 2.708, 0.246, 8.482, 0.633, 12.07),
]

GESTS_TABLE_3 = _pencils(
    3,
    """
 1  2048    1 2     4 1.81 1.08 0.74 1.27 0.58  5.48
 2  2048    1 1     8 1.65 0.66 0.00 1.83 0.42  4.55
 3  4096    8 8     8 2.03 1.09 2.08 5.97 0.82 11.98
 4  4096    8 4    16 1.77 0.89 1.52 5.95 0.52 10.64
 5  4096    8 2    32 1.89 0.74 0.74 6.86 0.45 10.68
 6  4096    8 1    64 1.78 0.43 0.00 7.00 0.43  9.62
 7  8192   64 8    64 1.55 0.76 2.09 8.15 0.48 13.03
 8  8192   64 4   128 1.50 0.65 1.52 8.18 0.44 12.28
 9  8192   64 2   256 1.46 0.60 0.74 8.15 0.43 11.39
10  8192   64 1   512 1.56 0.40 0.00 8.14 0.43 10.52
11 16384  512 8   512 2.09 0.66 2.08 9.26 0.53 14.61
12 16384  512 4  1024 2.19 0.61 1.51 9.04 0.49 13.85
13 16384  512 2  2048 2.34 0.59 0.74 8.77 0.48 12.92
14 16384  512 1  4096 2.57 0.40 0.00 8.32 0.43 11.71
15 32768 4096 8  4096 3.09 0.67 2.08 9.36 1.03 16.21
16 32768 4096 4  8192 3.32 0.61 1.52 8.91 0.54 14.89
17 32768 4096 2 16384 3.41 0.60 0.74 9.72 0.49 14.95
18 32768 4096 1 32768 3.76 0.40 0.00 8.50 0.46 13.10
""",
)

# The CPU code, with 64 ranks per node. The table prints one MPI time, which is stored here as that of the columns.
GESTS_TABLE_4 = [
    Gests(4, str(case), grid, nodes, rows, columns, fft, pack, 0.0, mpi, other, total)
    for case, grid, nodes, rows, columns, fft, pack, mpi, other, total in (
        (1, 2048, 1, 2, 32, 23.1, 37.5, 16.3, 27.4, 104.3),
        (2, 2048, 1, 8, 8, 19.5, 33.5, 14.8, 28.1, 95.9),
        (3, 2048, 1, 64, 1, 19.5, 36.1, 18.0, 29.5, 103.1),
        (4, 4096, 8, 64, 8, 19.3, 35.0, 21.8, 30.9, 107.0),
        (5, 4096, 8, 8, 64, 22.1, 36.9, 21.0, 30.9, 109.7),
        (6, 8192, 64, 64, 64, 20.9, 33.3, 22.6, 28.1, 104.9),
    )
]

GESTS_TABLE_5 = _pencils(
    5,
    """
 1 8192  64 8   64 1.55 0.76 2.09 8.15 0.48 13.03
 2 8192 128 8  128 0.79 0.34 1.05 4.50 0.27  6.96
 3 8192 256 8  256 0.40 0.17 0.53 2.24 0.13  3.46
 4 8192 512 8  512 0.20 0.08 0.27 1.02 0.06  1.63
 5 8192  64 4  128 1.50 0.65 1.52 8.18 0.44 12.28
 6 8192 128 4  256 0.76 0.31 0.76 4.52 0.23  6.59
 7 8192 256 4  512 0.38 0.16 0.38 2.15 0.12  3.18
 8 8192 512 4 1024 0.19 0.08 0.19 1.01 0.06  1.53
 9 8192  64 2  256 1.46 0.60 0.74 8.15 0.43 11.39
10 8192 128 2  512 0.73 0.30 0.37 4.46 0.23  6.09
11 8192 256 2 1024 0.37 0.15 0.19 2.12 0.11  2.94
12 8192 512 2 2048 0.18 0.08 0.09 1.13 0.06  1.55
13 8192  64 1  512 1.56 0.40 0.00 8.13 0.42 10.52
14 8192 128 1 1024 0.78 0.20 0.00 4.27 0.21  5.47
15 8192 256 1 2048 0.39 0.11 0.00 2.03 0.11  2.64
16 8192 512 1 4096 0.20 0.05 0.00 0.93 0.05  1.24
""",
)

GESTS_TABLE_6 = _pencils(
    6,
    """
  1 16384  512 8   512 2.09 0.66 2.08 9.26 0.53 14.61
  2 16384 1024 8  1024 1.05 0.33 1.05 4.36 0.26  7.05
 *3 16384 2048 8  2048 0.53 0.17 0.53 2.27 0.13  3.62
  4 16384  512 4  1024 2.19 0.61 1.51 9.04 0.49 13.85
  5 16384 1024 4  2048 1.19 0.30 0.76 4.16 0.24  6.57
 *6 16384 2048 4  4096 0.55 0.15 0.38 2.21 0.12  3.42
  7 16384  512 2  2048 2.34 0.59 0.74 8.77 0.48 12.92
  8 16384 1024 2  4096 1.18 0.29 0.37 4.27 0.24  6.36
 *9 16384 2048 2  8192 0.59 0.15 0.19 2.26 0.14  3.32
 10 16384  512 1  4096 2.57 0.40 0.00 8.32 0.43 11.71
 11 16384 1024 1  8192 1.28 0.22 0.00 4.06 0.20  5.76
*12 16384 2048 1 16384 0.65 0.10 0.00 2.02 0.12  2.90
""",
)

GESTS_TABLE_7 = _pencils(
    7,
    """
1 32768 4096 8  4096 1 3.09 0.67 2.08 9.36 1.03 16.21
2 32768 8192 8  8192 1 1.55 0.33 1.05 7.33 0.29 10.55
3 32768 8192 8  8192 4 1.55 0.33 1.05 7.02 0.24 10.19
4 32768 4096 4  8192 1 3.32 0.61 1.52 8.91 0.54 14.89
5 32768 8192 4 16384 1 1.67 0.30 0.76 7.21 0.25 10.20
6 32768 8192 4 16384 4 1.67 0.30 0.76 7.34 0.29 10.36
7 32768 4096 2 16384 1 3.41 0.60 0.74 9.72 0.49 14.95
8 32768 8192 2 32768 1 1.73 0.30 0.37 7.32 0.27  9.98
9 32768 8192 2 32768 4 1.73 0.30 0.37 7.31 0.28  9.98
""",
)

# Section 4.4, strong scaling of the slabs code: total seconds by grid and number of nodes.
GESTS_SLABS_STRONG = {
    (8192, 64): 10.72, (8192, 128): 5.49, (8192, 256): 2.73,
    (16384, 512): 11.30, (16384, 1024): 5.57, (16384, 2048): 2.89,
}  # fmt: skip

# Table 1: seconds of transforms of three variables of 4 GiB per die, and of their unpacking and packing, by grid:
# strided (unpack, FFT, pack), then non-strided.
GESTS_TABLE_1 = {
    2048: ((0.0368, 0.138, 0.0336), (0.0789, 0.0174, 0.0347)),
    4096: ((0.0340, 0.168, 0.0336), (0.0879, 0.0248, 0.0350)),
    8192: ((0.0340, 0.135, 0.0336), (0.133, 0.0385, 0.0873)),
    16384: ((0.0340, 0.221, 0.0336), (0.282, 0.0366, 0.173)),
    32768: ((0.0340, 0.306, 0.0336), (0.647, 0.0505, 0.249)),
}
GESTS_TABLE_1_BYTES = 3 * 4 * 2**30


@dataclass(frozen=True)
class AllToAll:
    """A row of GESTS Tables 10 to 14: one all-to-all of the lightweight program, among the ranks of a row or column.

    `message` is the size of a message between two ranks in MiB, `printed_rate` the bandwidth of Eq. 13 in GB/s, and
    `seconds_host` the MPI time on the CPU, without the copies. `decimals` is the number of digits after the point of
    `seconds`.
    """

    table: int
    grid: int
    nodes: int
    rows: int
    members: int
    batch: int
    message: float
    seconds: float
    printed_rate: str
    decimals: int = 3
    seconds_host: float | None = None
    in_row: bool = False

    @property
    def rate(self) -> float:
        """The printed bandwidth as a number."""
        return float(self.printed_rate)


def _weak(table: int, rows: int, text: str, in_row: bool = False) -> list[AllToAll]:
    found = []
    for line in text.strip().splitlines():
        grid, nodes, members, message, host, device, rate = line.split()
        found.append(
            AllToAll(
                table, int(grid), int(nodes), rows, int(members), 1, float(message), float(device), rate, 3,
                float(host), in_row,
            )
        )  # fmt: skip
    return found


# Grid, nodes, ranks, MiB per message, seconds on the CPU, seconds on the GPU, GB/s on the GPU.
GESTS_TABLE_10 = _weak(10, 1, """
 2048    1     8 512   0.450 0.131 32.90
 4096    8    64  64   0.687 0.494 8.71
 8192   64   512   8   0.744 0.530 8.10
16384  512  4096   1   0.966 0.590 7.28
32768 4096 32768 0.125 0.796 0.771 5.58
""")  # fmt: skip
GESTS_TABLE_11 = _weak(11, 2, """
 2048    1 2 2048 0.393 0.046 92.98
 4096    8 2 2048 0.392 0.046 92.97
 8192   64 2 2048 0.392 0.046 93.05
16384  512 2 2048 0.392 0.046 93.13
32768 4096 2 2048 0.393 0.046 92.88
""", in_row=True)  # fmt: skip
GESTS_TABLE_12 = _weak(12, 2, """
 2048    1     4 1024 0.444 0.092 46.93
 4096    8    32  128 0.660 0.539 7.97
 8192   64   256   16 0.689 0.580 7.41
16384  512  2048    2 0.826 0.626 6.87
32768 4096 16384 0.25 0.848 0.705 6.09
""")  # fmt: skip
GESTS_TABLE_14 = _weak(14, 1, """
 2048    1     8 512   0.466 0.118 36.55
 4096    8    64  64   0.667 0.494 8.695
 8192   64   512   8   0.729 0.582 7.380
16384  512  4096   1   0.955 0.595 7.225
32768 4096 32768 0.125 0.851 0.651 6.595
""")  # fmt: skip


def _table_13(text: str) -> list[AllToAll]:
    found = []
    for line in text.strip().splitlines():
        grid, nodes, rows, columns, batch, *numbers = line.split()
        where = (int(grid), int(nodes), int(rows))
        for members, (message, seconds, rate), in_row in (
            (int(rows), numbers[:3], True), (int(columns), numbers[3:], False)
        ):  # fmt: skip
            digits = len(seconds.partition(".")[2])
            found.append(
                AllToAll(
                    13, *where, members, int(batch), float(message), float(seconds), rate, digits, in_row=in_row
                )
            )  # fmt: skip
    return found


# Grid, nodes, P_r, P_c, Q; then MiB per message, seconds and GB/s in the row, and the same in the column.
GESTS_TABLE_13 = _table_13("""
16384 2048 8  2048 1  128 0.0298 36.04 0.500 0.171 6.275
16384 2048 8  2048 4  512 0.1175 36.57 2.000 0.652 6.590
16384 2048 4  4096 1  256 0.0225 47.64 0.250 0.167 6.450
16384 2048 4  4096 4 1024 0.0896 47.94 1.000 0.660 6.505
16384 2048 2  8192 1  512 0.0115 93.04 0.125 0.275 3.901
16384 2048 2  8192 4 2048 0.0462 92.91 0.500 0.684 6.275
32768 8192 8  8192 1  256 0.0592 36.27 0.250 0.536 4.006
32768 8192 8  8192 4 1024 0.2339 36.72 1.000 1.959 4.385
32768 8192 4 16384 1  512 0.0450 47.73 0.125 0.491 4.371
32768 8192 4 16384 4 2048 0.1789 48.03 0.500 1.848 4.648
32768 8192 2 32768 1 1024 0.0232 92.50 0.0625 0.725 2.960
32768 8192 2 32768 4 4096 0.0924 92.94 0.250 2.212 3.884
""")

GESTS_ALL_TO_ALLS = [*GESTS_TABLE_10, *GESTS_TABLE_11, *GESTS_TABLE_12, *GESTS_TABLE_13, *GESTS_TABLE_14]

# Rows that determine a constant: 2048^3 on one node for the GPUs, and one row for the CPUs.
GESTS_CALIBRATION = GESTS_TABLE_3[:2]
GESTS_CPU_CALIBRATION = GESTS_TABLE_4[4]

# NekCEM, 1000 steps: text on Fig. 7 (1 GPU) and on Table 3 (8 GPUs); weak-scaling efficiency of Fig. 8; GPUDirect in
# Fig. 9.
NEKCEM_SECONDS = {(14, 1, 1024): 230.0, (7, 1, 4096): 140.0, (14, 8, 1000): 35.40}  # (order, GPUs, elements)
NEKCEM_HALF_POINTS = {7: 33308, 14: 34525}  # n_1/2
NEKCEM_WEAK_EFFICIENCY = 0.80  # from 8 to 16,384 GPUs
NEKCEM_DIRECT_GAIN = (0.04, 0.12)
NEKCEM_EXCHANGE_SHARE = (0.33, 0.46)  # gather-scatter over the whole time, with GPUDirect, from 8 to 16,384 GPUs
