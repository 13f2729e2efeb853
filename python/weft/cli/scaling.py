"""`weft bench scaling WORKLOAD`: sweeps over sizes and ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypedDict, Unpack

import click

from weft.cli.options import OUTPUT, Command, Integer, integers, options_of


@click.group()
def scaling() -> None:
    """Sweep a workload over sizes and ranks."""


class Runs(TypedDict):
    """Options of every command that starts runs."""

    assignments: Annotated[
        tuple[str, ...],
        click.option("--set", "assignments", metavar="KEY=VALUE", multiple=True, help="Set a case key; repeatable."),
    ]
    time_limit: Annotated[
        int,
        click.option(
            "--time-limit",
            default=600,
            show_default=True,
            type=Integer(min=1),
            metavar="SECONDS",
            help="Time limit of one run.",
        ),
    ]


RANKS = click.option(
    "--ranks", default=None, metavar="LIST", help="Numbers of ranks. [default: 1, 2, 4, … up to the number of cores]"
)


def sweep_options(command: Command) -> Command:
    """Adds the options of every sweep: `ranks` (text or None), those of `Runs`, and `output`."""
    return RANKS(options_of(Runs)(OUTPUT(command)))


def rank_counts(ranks: str | None) -> list[int]:
    """The numbers of ranks that --ranks lists."""
    from weft.bench.scaling import default_ranks

    return integers(ranks, "ranks", 1) if ranks else default_ranks()


def powers_of_two(elements: str) -> tuple[int, int]:
    """The numbers of elements that --elements asks for."""
    first, dash, last = elements.partition("-")
    bounds = [int(n) for n in (first, last) if n.isdigit()]
    if not dash or len(bounds) != 2 or not all(n > 0 and n & (n - 1) == 0 for n in bounds) or bounds[0] > bounds[1]:
        raise click.BadParameter(
            f"found '{elements}', allowed: two powers of 2, such as 1-4096", param_hint="--elements"
        )
    return bounds[0], bounds[1]


@scaling.command()
@sweep_options
@click.option("--orders", default="7,15", show_default=True, metavar="LIST", help="Polynomial orders.")
@click.option(
    "--sizes", default="2500-2000000", show_default=True, metavar="FROM-TO", help="Degrees of freedom per rank."
)
@click.option("--steps", default=7, show_default=True, type=Integer(min=1), help="Number of sizes in that range.")
def poisson(ranks: str | None, orders: str, sizes: str, output: Path, steps: int, **options: Unpack[Runs]) -> None:
    """Measure FOM and throughput over sizes and ranks.

    Corresponds to hipBone's Figs. 4 to 6. It starts mpiexec itself, one run after another: do not start this
    command with mpiexec. Writes scaling.json and a plot for each order.
    """
    from weft.bench.scaling_poisson import sweep

    first, dash, last = sizes.partition("-")
    if not (dash and first.isdigit() and last.isdigit() and 0 < int(first) <= int(last)):
        raise click.BadParameter(f"found '{sizes}', allowed: two integers, such as 2500-2000000", param_hint="--sizes")
    bounds = int(first), int(last)
    sweep(rank_counts(ranks), integers(orders, "orders", 1, 15), bounds, output, steps=steps, **options)


@scaling.command()
@sweep_options
@click.option("--orders", default="7,14", show_default=True, metavar="LIST", help="Polynomial orders.")
@click.option(
    "--elements", default="1-256", show_default=True, metavar="FROM-TO",
    help="Total number of elements: powers of two from the first to the last.",
)  # fmt: skip
@click.option("--steps", default=50, show_default=True, type=Integer(min=1), help="Time steps per run.")
def maxwell(ranks: str | None, orders: str, elements: str, output: Path, steps: int, **options: Unpack[Runs]) -> None:
    """Measure the time per step over sizes and ranks.

    Corresponds to NekCEM's Figs. 5 to 7: strong and weak curves, n_1/2 for each order, and the n/P at which strong
    scaling ends. It starts mpiexec itself, one run after another: do not start this command with mpiexec. Writes
    scaling.json and scaling-maxwell.png.
    """
    from weft.bench.scaling_elements import sweep
    from weft.bench.scaling_maxwell import STUDY

    of, sizes = integers(orders, "orders", 1, 15), powers_of_two(elements)
    sweep(STUDY, rank_counts(ranks), of, sizes, output, steps=steps, **options)


@scaling.command()
@sweep_options
@click.option("--grids", default="64,80,96,128", show_default=True, metavar="LIST", help="Sizes N of N^3 grids.")
@click.option("--shapes", is_flag=True, help="Run every Pr x Pc instead of only the fastest.")
@click.option("--steps", default=11, show_default=True, type=Integer(min=3), help="Steps per run; the best one counts.")
def turbulence(ranks: str | None, grids: str, output: Path, shapes: bool, steps: int, **options: Unpack[Runs]) -> None:
    """Measure a step and its parts over grids and ranks.

    Corresponds to GESTS's Tables 2 to 6 and Fig. 7: weak scaling by N^3 log2 N and strong scaling, from the fastest
    step of each run. It starts mpiexec itself, one run after another: do not start this command with mpiexec. Writes
    scaling.json and plots.
    """
    from weft.bench.scaling_turbulence import sweep
    from weft.cases.turbulence import smooth, smooth_neighbours

    sizes = integers(grids, "grids", 4)
    for size in sizes:
        if not smooth(size):
            near = ", ".join(map(str, smooth_neighbours(size)))
            raise click.BadParameter(f"found {size}, allowed: 2^a 3^b 5^c 7^d, such as {near}", param_hint="--grids")
    sweep(rank_counts(ranks), sizes, output, shapes=shapes, steps=steps, **options)


@scaling.command()
@sweep_options
@click.option("--orders", default="7", show_default=True, metavar="LIST", help="Polynomial orders.")
@click.option(
    "--elements", default="64-512", show_default=True, metavar="FROM-TO",
    help="Total number of elements: powers of two from the first to the last.",
)  # fmt: skip
@click.option("--steps", default=30, show_default=True, type=Integer(min=5), help="Time steps per run.")
def flow(ranks: str | None, orders: str, elements: str, output: Path, steps: int, **options: Unpack[Runs]) -> None:
    """Measure a step and its iterations over sizes and ranks.

    Reports strong and weak scaling and the share of the exchange, for vortices in a periodic box of cubic elements.
    It starts mpiexec itself, one run after another: do not start this command with mpiexec. Writes scaling.json and
    scaling-flow.png.
    """
    from weft.bench.scaling_elements import sweep
    from weft.bench.scaling_flow import STUDY

    of, sizes = integers(orders, "orders", 1, 15), powers_of_two(elements)
    sweep(STUDY, rank_counts(ranks), of, sizes, output, steps=steps, **options)
