"""`weft bench pingpong`, `exchange` and `alltoall`: the cost of messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.options import OUTPUT, Integer, Number, integers

if TYPE_CHECKING:
    from weft.bench.timing import Effort


def call(measure: Callable[[], object]) -> None:
    """Calls `measure` on all ranks; a measurement that is impossible here is a usage error, printed once."""
    from weft import mpi
    from weft.bench.timing import RefusedError

    mpi.install_excepthook()
    try:
        measure()
    except RefusedError as error:
        raise click.UsageError(str(error)) from None


def bytes_of(text: str) -> int:
    """'64k' -> 65536."""
    found = re.fullmatch(r"(\d+)\s*([kKmMgG]?)(?:i?B)?", text.strip())
    if not found:
        raise ValueError(text)
    return int(found[1]) * 1024 ** " kmg".index(found[2].lower() or " ")


def message_sizes(text: str) -> list[int]:
    """'1-64M' -> all powers of two in the range; '8,1k,3000' -> these sizes; a list may mix both forms.

    Raises BadParameter for any other text.
    """
    sizes: set[int] = set()
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            low, high = bytes_of(first), bytes_of(last or first)
            if not 1 <= low <= high:
                raise ValueError(text)
            sizes |= {2**k for k in range(31) if low <= 2**k <= high} if dash else {low}
    except ValueError:
        sizes = set()
    if not sizes or min(sizes) < 1 or max(sizes) > 2**30:
        raise click.BadParameter(
            f"found '{text}', allowed: sizes from 1 to 1G, such as 1-64M (powers of two) or 8,1k,64k",
            param_hint="--sizes",
        )
    return sorted(sizes)


def words(text: str) -> list[str]:
    """'a, b' -> ['a', 'b']."""
    return [w.strip() for w in text.split(",") if w.strip()]


def effort(rounds: int, seconds: float) -> Effort:
    from weft.bench.timing import Effort

    return Effort(rounds=rounds, seconds=seconds)


DEVICE = click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="auto|host|cuda|hip",
    help="Device whose memory is measured in addition to the host's.",
)
ROUNDS = click.option(
    "--rounds", default=15, show_default=True, type=Integer(min=1), help="Number of rounds; the figure is their median."
)
SECONDS = click.option(
    "--seconds", default=0.002, show_default=True, type=Number(min=0, min_open=True), metavar="S",
    help="Approximate duration of a round of one case.",
)  # fmt: skip


@click.command()
@click.option(
    "--sizes",
    default="1-64M",
    show_default=True,
    metavar="LIST",
    help="Message sizes in bytes, such as 1-64M or 8,1k,64k.",
)
@click.option(
    "--paths", default="", metavar="LIST", help="Paths among mpi, direct, staged, ipc. [default: all that work here]"
)
@DEVICE
@ROUNDS
@SECONDS
@OUTPUT
def pingpong(sizes: str, paths: str, output: Path, device: str, rounds: int, seconds: float) -> None:
    """Measure latency and bandwidth of messages.

    Measures every path from host and device memory, within a node and between nodes, with one pair of ranks and with
    all pairs at once (as Wahlgren did on Alvis). Prints the fit of alpha + n / beta, n1/2, and the range of sizes in
    which each path is fastest. Writes pingpong.json and a plot for each set of pairs. Start it with mpiexec on 2 or
    more ranks.
    """
    asked = message_sizes(sizes)

    def measure() -> None:
        from mpi4py import MPI

        from weft.bench.pingpong import run

        run(MPI.COMM_WORLD, asked, output, device=device, paths=words(paths), effort=effort(rounds, seconds))

    call(measure)


@click.command()
@click.option("--orders", default="1,3,7,9", show_default=True, metavar="LIST", help="Polynomial orders.")
@click.option(
    "--fields", default="1,3,6", show_default=True, metavar="LIST", help="Numbers of fields (values per point)."
)
@click.option("--mesh", type=click.Path(), metavar="FILE", help="Nek or Gmsh mesh to use instead of the box.")
@click.option(
    "--box", default="8,8,8", show_default=True, metavar="X,Y,Z", help="Elements of the box in each direction."
)
@click.option("--choices", default="", metavar="LIST", help="Schedules or schedule:path. [default: all that work here]")
@click.option(
    "--ranks",
    metavar="LIST",
    help="Start mpiexec with each of these numbers of ranks. [default: use the current ranks]",
)
@click.option(
    "--time-limit", default=600, show_default=True, type=Integer(min=1), metavar="SECONDS",
    help="Time limit of one run of --ranks.",
)  # fmt: skip
@DEVICE
@ROUNDS
@SECONDS
@OUTPUT
def exchange(
    orders: str,
    fields: str,
    mesh: str | None,
    box: str,
    choices: str,
    ranks: str | None,
    time_limit: int,
    output: Path,
    device: str,
    rounds: int,
    seconds: float,
) -> None:
    """Time halo, gather and gather-scatter on a mesh.

    Compares every schedule and path for each order and number of fields: prints the median time of the slowest rank,
    and a lower bound from a ping-pong in the same run. Writes exchange.json and a plot for each number of ranks. Start
    it with mpiexec, or pass --ranks to let it start mpiexec itself.
    """
    asked_orders, asked_fields = integers(orders, "orders", 1, 15), integers(fields, "fields", 1, 64)
    counts = [int(c) for c in box.split(",")] if re.fullmatch(r"\d+,\d+,\d+", box) else []
    if not counts or min(counts) < 1:
        raise click.BadParameter(f"found '{box}', allowed: three integers, such as 8,8,8", param_hint="--box")
    if ranks is not None:
        from weft.bench.exchange import sweep

        arguments = ["--orders", orders, "--fields", fields, "--box", box, "--choices", choices, "--device", device]
        arguments += ["--rounds", str(rounds), "--seconds", str(seconds), *(["--mesh", mesh] if mesh else [])]
        sweep(integers(ranks, "ranks", 2), arguments, output, time_limit)
        return

    def measure() -> None:
        from mpi4py import MPI

        from weft.bench.exchange import run

        run(
            MPI.COMM_WORLD, asked_orders, asked_fields, output, mesh=mesh, box=counts, device=device,
            asked=words(choices), effort=effort(rounds, seconds),
        )  # fmt: skip

    call(measure)


@click.command()
@click.option("--grids", default="", metavar="LIST", help="Sizes N of N^3 grids. [default: those that fit into memory]")
@click.option(
    "--processes", type=Integer(min=2), metavar="P",
    help="Use the message sizes of a run on this many ranks. [default: the current ranks]",
)  # fmt: skip
@click.option(
    "--row-ranks",
    default="",
    metavar="LIST",
    help="Ranks per row, Pr; 1 means slabs. [default: divisors among 1,2,4,8]",
)
@click.option("--variables", default="1", show_default=True, metavar="LIST", help="Variables per call, Q.")
@click.option(
    "--methods", default="alltoall,alltoallv,ialltoall,pairwise", show_default=True, metavar="LIST",
    help="MPI's alltoall, alltoallv, ialltoall, and weft's schedules or schedule:path.",
)  # fmt: skip
@DEVICE
@ROUNDS
@SECONDS
@OUTPUT
def alltoall(
    grids: str,
    processes: int | None,
    row_ranks: str,
    variables: str,
    methods: str,
    output: Path,
    device: str,
    rounds: int,
    seconds: float,
) -> None:
    """Time the transposes of a distributed FFT.

    Repeats the measurements of GESTS's Tables 10 to 14 on this machine: messages of 4 Q N^3 / (P R) bytes, effective
    bandwidth by Eq. 13, host and device pointers, with copies timed separately. Writes alltoall.json and alltoall.png.
    Start it with mpiexec.
    """
    sizes = integers(grids, "grids", 1) if grids else []
    rows = integers(row_ranks, "row-ranks", 1) if row_ranks else []
    per_call = integers(variables, "variables", 1)

    def measure() -> None:
        from mpi4py import MPI

        from weft.bench.alltoall import run

        run(
            MPI.COMM_WORLD, output, grids=sizes, processes=processes, row_ranks=rows, variables=per_call,
            methods=words(methods), device=device, effort=effort(rounds, seconds),
        )  # fmt: skip

    call(measure)
