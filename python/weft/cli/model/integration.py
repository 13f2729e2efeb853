"""`weft model integration` and `weft model gpu-gpu`."""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.model.shared import FACTOR, JSON, PRINTED, RUNS, SHARE, output
from weft.cli.options import Integer
from weft.model import integration as method
from weft.model.result import Result, Table, exact

TERMS = ("cpu", "gpu", "mpi", "cg_data", "cg_control")


@click.command()
@RUNS
@click.option("--bandwidth", type=FACTOR, metavar="X", help="CPU-GPU bandwidth, times today's.")
@click.option("--latency", type=FACTOR, metavar="X", help="CPU-GPU latency and launch time, times today's.")
@click.option("--cpu", type=PRINTED, metavar="S", help="t_CPU, instead of a run.")
@click.option("--gpu", type=PRINTED, metavar="S", help="t_GPU.")
@click.option("--mpi", type=PRINTED, metavar="S", help="t_MPI.")
@click.option("--cg-data", type=PRINTED, metavar="S", help="t_CGdata: CPU-GPU transfers.")
@click.option("--cg-control", type=PRINTED, metavar="S", help="t_CGcontrol: launches, synchronisation.")
@click.option("--total", type=PRINTED, metavar="S", help="t_total: t_CPU is what the others leave of it.")
@click.option("--shares", is_flag=True, help="The terms are percentages of the run time.")
@JSON
def integration(
    runs: tuple[Path, ...],
    bandwidth: float | None,
    latency: float | None,
    total: str | None,
    shares: bool,
    json_file: Path | None,
    **given: str | None,
) -> None:
    """Benefit of a tighter CPU-GPU coupling, penalty of a looser one (Eqs. 3, 4).

    Reads runs of one application (run directories, run.json, traces), or takes the terms as options, in seconds or as
    shares of the run time with --shares; the digits they are given with say how sure they are. Without --bandwidth and
    --latency: ten times better, and ten times worse.
    """
    printed = {f"t_{name}": text for name in TERMS if (text := given[name]) is not None}
    if runs and (printed or total or shares):
        raise click.UsageError("give runs or terms, not both")
    if total is not None and shares:
        raise click.UsageError("--total is for seconds, --shares for percentages: give one")
    if bandwidth is None and latency is None:
        factors = [(10.0, 10.0), (0.1, 0.1)]
    else:
        factors = [(bandwidth or 1.0, 1.0 / (latency or 1.0))]
    notes: list[str] = []
    if runs:
        from weft.model.sources import read_all

        sources = read_all(runs)
        notes = [n for s in sources for n in s.notes]
        results = [method.coupling([s.terms for s in sources], *f) for f in factors]
    elif printed:
        results = [method.printed_coupling(printed, *f, t_total=100.0 if shares else total) for f in factors]
    else:
        raise click.UsageError("nothing to model: name runs, or give --cpu, --gpu, --mpi, --cg-data, --cg-control")
    output(Table("CPU-GPU coupling", results, notes), json_file)


@click.command("gpu-gpu")
@click.option("--comm", type=SHARE, metavar="%", help="Share of the time in communication (section 8.1).")
@click.option("--p2p", type=SHARE, required=True, metavar="%", help="8.1: share of that; 8.2: share of the run time.")
@click.option("--off-node", type=SHARE, metavar="%", help="Share of the point-to-point volume between nodes (8.1).")
@click.option("--link", type=FACTOR, default=25.0, show_default=True, metavar="GB/s", help="One GPU's links (8.1).")
@click.option("--gpus", type=Integer(min=1), default=8, show_default=True, help="GPUs of a node (8.1).")
@click.option(
    "--network", type=FACTOR, default=24.0, show_default=True, metavar="GB/s", help="The node's shared path (8.1)."
)
@click.option("--collective", type=SHARE, metavar="%", help="Share of the run time in large collectives (8.2).")
@click.option("--ranks", type=Integer(min=1), help="Ranks of the run (8.2).")
@click.option("--ranks-per-node", type=Integer(min=1), help="[default: all on one node] (8.2)")
@click.option(
    "--factor", type=FACTOR, default=2.0, show_default=True, metavar="X", help="Links on a node, faster (8.2)."
)
@JSON
def gpu_gpu(
    comm: float | None,
    p2p: float,
    off_node: float | None,
    link: float,
    gpus: int,
    network: float,
    collective: float | None,
    ranks: int | None,
    ranks_per_node: int | None,
    factor: float,
    json_file: Path | None,
) -> None:
    """Benefit of more GPUs on a node, or of faster links between them (sections 8.1, 8.2).

    With --comm, --p2p and --off-node: two nodes become one, and messages between them take its links. With
    --collective, --p2p and --ranks: links on a node get --factor times faster, collectives are binary trees.
    """
    results: list[Result] = []
    if comm is not None and off_node is not None:
        acceleration = method.off_node_acceleration(link, gpus, network)
        inputs = {"link (GB/s)": link, "gpus": gpus, "network (GB/s)": network}
        name = "messages between nodes get faster by"
        results.append(exact("integration", name, acceleration, "x", inputs, "section 8.1"))
        results.append(method.gpu_gpu_point_to_point([comm], p2p, off_node, acceleration))
    elif collective is not None and ranks is not None:
        results.append(method.gpu_gpu_trees(collective, p2p, ranks, ranks_per_node or ranks, factor))
    else:
        raise click.UsageError(
            "give --comm, --p2p and --off-node (section 8.1), or --collective, --p2p and --ranks (8.2)"
        )
    output(Table("GPU-GPU integration", results), json_file)
