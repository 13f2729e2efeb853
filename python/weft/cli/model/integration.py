"""`weft model integration` and `weft model gpu-gpu`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.model.shared import FACTOR, JSON, PRINTED, RUNS, SHARE, output
from weft.cli.options import Integer
from weft.cli.window import takes_window
from weft.model import integration as method
from weft.model.result import Result, Table, exact

if TYPE_CHECKING:
    from weft.traces import Window

TERMS = ("cpu", "gpu", "mpi", "cg_data", "cg_control")


@click.command()
@RUNS
@click.option("--bandwidth", type=FACTOR, metavar="X", help="CPU-GPU bandwidth relative to today's.")
@click.option("--latency", type=FACTOR, metavar="X", help="CPU-GPU latency and launch time relative to today's.")
@click.option("--cpu", type=PRINTED, metavar="S", help="Time on the CPU, t_CPU. The five terms replace RUN.")
@click.option("--gpu", type=PRINTED, metavar="S", help="Time on the GPU, t_GPU.")
@click.option("--mpi", type=PRINTED, metavar="S", help="Time in MPI, t_MPI.")
@click.option("--cg-data", type=PRINTED, metavar="S", help="Time in CPU-GPU transfers, t_CGdata.")
@click.option("--cg-control", type=PRINTED, metavar="S", help="Time in launches and synchronisation, t_CGcontrol.")
@click.option("--total", type=PRINTED, metavar="S", help="Run time, t_total; t_CPU is then the remainder.")
@click.option("--shares", is_flag=True, help="The terms are percentages of the run time, not seconds.")
@takes_window
@JSON
def integration(
    runs: tuple[Path, ...],
    bandwidth: float | None,
    latency: float | None,
    total: str | None,
    shares: bool,
    window: Window,
    json_file: Path | None,
    **given: str | None,
) -> None:
    """Benefit of a tighter CPU-GPU coupling, or penalty of a looser one (Eqs. 3, 4).

    Reads one or more runs of the same application (run directories, run.json files or traces), or takes the terms of
    Eq. 3 as options, in seconds or with --shares in percent of the run time. Terms given as options are taken as
    rounded to the digits typed, and the result carries the range that this rounding leaves. Without --bandwidth and
    --latency, prints the benefit of a coupling ten times better and the penalty of one ten times worse.
    """
    printed = {f"t_{name}": text for name in TERMS if (text := given[name]) is not None}
    if runs and (printed or total or shares):
        raise click.UsageError("give either runs or terms, not both")
    if total is not None and shares:
        raise click.UsageError("--total is in seconds and --shares means percentages: give only one of them")
    if bandwidth is None and latency is None:
        factors = [(10.0, 10.0), (0.1, 0.1)]
    else:
        factors = [(bandwidth or 1.0, 1.0 / (latency or 1.0))]
    notes: list[str] = []
    if runs:
        from weft.model.sources import coupling, read_all

        sources = read_all(runs, window)
        notes = [n for s in sources for n in s.notes]
        results = [coupling(sources, *f) for f in factors]
    elif printed and window:
        raise click.UsageError("terms given as options have no events to cut: give a trace")
    elif printed:
        results = [method.printed_coupling(printed, *f, t_total=100.0 if shares else total) for f in factors]
    else:
        raise click.UsageError(
            "no input: name at least one run, or give the terms with --cpu, --gpu, --mpi, --cg-data, --cg-control"
        )
    output(Table("CPU-GPU coupling", results, notes), json_file)


@click.command("gpu-gpu")
@click.option("--comm", type=SHARE, metavar="%", help="Communication, in percent of the run time (section 8.1).")
@click.option(
    "--p2p",
    type=SHARE,
    required=True,
    metavar="%",
    help="Point-to-point messages, in percent of the communication (8.1) or of the run time (8.2).",
)
@click.option("--off-node", type=SHARE, metavar="%", help="Share of the point-to-point volume between nodes (8.1).")
@click.option(
    "--link", type=FACTOR, default=25.0, show_default=True, metavar="GB/s", help="Bandwidth of one GPU's links (8.1)."
)
@click.option("--gpus", type=Integer(min=1), default=8, show_default=True, help="GPUs per node (8.1).")
@click.option(
    "--network",
    type=FACTOR,
    default=24.0,
    show_default=True,
    metavar="GB/s",
    help="Network bandwidth per node, shared by its GPUs (8.1).",
)
@click.option("--collective", type=SHARE, metavar="%", help="Large collectives, in percent of the run time (8.2).")
@click.option("--ranks", type=Integer(min=1), help="Number of ranks of the run (8.2).")
@click.option("--ranks-per-node", type=Integer(min=1), help="Ranks per node (8.2). [default: all ranks on one node]")
@click.option(
    "--factor", type=FACTOR, default=2.0, show_default=True, metavar="X",
    help="Speed of the links inside a node relative to today's (8.2).",
)  # fmt: skip
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
    """Benefit of more GPUs per node, or of faster links between them (sections 8.1, 8.2).

    With --comm, --p2p and --off-node, two nodes are merged into one, so that messages between them use the links
    inside the node. With --collective, --p2p and --ranks, the links inside a node become --factor times faster and
    collectives are modelled as binary trees.
    """
    results: list[Result] = []
    if comm is not None and off_node is not None:
        acceleration = method.off_node_acceleration(link, gpus, network)
        inputs = {"link (GB/s)": link, "gpus": gpus, "network (GB/s)": network}
        name = "speed-up of messages between nodes"
        results.append(exact("integration", name, acceleration, "x", inputs, "section 8.1"))
        results.append(method.gpu_gpu_point_to_point([comm], p2p, off_node, acceleration))
    elif collective is not None and ranks is not None:
        results.append(method.gpu_gpu_trees(collective, p2p, ranks, ranks_per_node or ranks, factor))
    else:
        raise click.UsageError(
            "give --comm, --p2p and --off-node (section 8.1), or --collective, --p2p and --ranks (8.2)"
        )
    output(Table("GPU-GPU integration", results), json_file)
