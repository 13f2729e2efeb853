"""`weft model link`, `weft model pipeline` and `weft model divergence`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from weft.cli.model.shared import FACTOR, JSON, output
from weft.cli.options import Integer
from weft.model import divergence as mdm
from weft.model import link as method
from weft.model import pipeline as pipelines
from weft.model.result import Result, Table, exact

PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


class Size(click.ParamType[float]):
    """'1.3KiB', '16 MiB', '1.6GB', '64' in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"\s*([0-9.eE+]+)\s*([kKmMgGtT]?i?)B?\s*", str(value))
        try:
            size = float(match[1]) * PREFIXES[match[2].lower()] if match else 0.0
        except (KeyError, ValueError):
            size = 0.0
        if not 0 < size < float("inf"):
            self.fail(f"found '{value}', allowed: a size, as 64, 1.3KiB, 16MiB or 1.6GB", param, ctx)
        return size


SIZE = Size()


def link_options(command: Any) -> Any:
    """Decorates a command with what describes the two links."""
    for option in reversed(
        (
            click.option("--bandwidth", type=FACTOR, metavar="GB/s", help="Of PCIe. [default: by generation, lanes]"),
            click.option("--generation", type=Integer(1, 5), default=3, show_default=True, help="Of PCIe."),
            click.option(
                "--lanes", type=click.Choice(["1", "2", "4", "8", "16"]), default="16", show_default=True,
                help="Of PCIe.",
            ),
            click.option("--startup", type=FACTOR, metavar="NS", help="t_s of Eq. 9. [default: the report's, solved]"),
            click.option("--penalty", type=FACTOR, default=method.CXL_PENALTY, show_default=True, help="Of Eq. 11."),
            click.option(
                "--cache-access", type=FACTOR, default=1e9 * method.CACHE_ACCESS, show_default=True, metavar="NS",
                help="A CXL cache miss.",
            ),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def links(
    bandwidth: float | None, generation: int, lanes: str, startup: float | None
) -> tuple[method.Link, float, list[str]]:
    """The PCIe link, its t_s in seconds, and what to say of them."""
    link: method.Link
    link = method.ConstantLink(1e9 * bandwidth) if bandwidth else method.PcieLink(generation, int(lanes))
    notes = []
    if not bandwidth:
        notes.append("b_n of Eq. 9: Neugebauer et al. 2018, 256 B payloads, 512 B requests, reads and writes at once")
    if startup is None:
        seconds = method.report_startup(link)
        notes.append(
            f"t_s = {1e9 * seconds:.4g} ns solves the report's printed ratio {method.REPORT_RATIO} at 16 MiB for this "
            "link; the report does not print t_s"
        )
        return link, seconds, notes
    return link, 1e-9 * startup, notes


@click.command()
@click.argument("sizes", nargs=-1, type=SIZE, required=True, metavar="SIZE...")
@link_options
@JSON
def link(
    sizes: tuple[float, ...],
    penalty: float,
    cache_access: float,
    json_file: Path | None,
    **options: Any,
) -> None:
    """Times of transfers over PCIe and CXL, and where one overtakes the other (Eqs. 9 to 11)."""
    wire, startup, notes = links(**options)
    results = [r for s in sizes for r in method.transfer_results(s, wire, startup, penalty, 1e-9 * cache_access)]
    results += method.crossover_results(wire, startup, penalty, 1e-9 * cache_access)
    output(Table("PCIe and CXL", results, notes), json_file)


@click.command()
@click.option("--stage", "stages", type=FACTOR, multiple=True, metavar="S", help="Seconds of a stage; repeatable.")
@click.option("--tasks", type=Integer(min=1), help="Tasks that pass the pipeline.")
@click.option("--startup-time", type=float, default=0.0, metavar="S", help="s of Eq. 12.")
@click.option("--now", type=FACTOR, metavar="S", help="Today's run time: prints the speed-up over it.")
@click.option("--kernel", "kernels", type=FACTOR, multiple=True, metavar="S", help="Of an accelerator (Eq. 13).")
@click.option("--total", type=SIZE, metavar="SIZE", help="Bytes to move in chunks, as in Fig. 58.")
@click.option("--chunk", "chunks", type=SIZE, multiple=True, metavar="SIZE", help="Chunk size; repeatable.")
@link_options
@JSON
def pipeline(
    stages: tuple[float, ...],
    tasks: int | None,
    startup_time: float,
    now: float | None,
    kernels: tuple[float, ...],
    total: float | None,
    chunks: tuple[float, ...],
    penalty: float,
    cache_access: float,
    json_file: Path | None,
    **options: Any,
) -> None:
    """Pipelines of accelerators: time, penalty of data between them, chunk sizes.

    By Eqs. 12 and 13 and Fig. 58. Stages may take different times: once filled, the slowest sets the pace.
    """
    results: list[Result] = []
    notes: list[str] = []
    if stages and tasks:
        results += pipelines.stage_results(stages, tasks, startup_time, now)
    if kernels and now:
        penalty_ = pipelines.disaggregation_penalty(now, kernels)
        inputs = {"T_total (s)": now, "kernels (s)": list(kernels)}
        results.append(exact("pipeline", "disaggregation penalty", penalty_, "x", inputs, "Eq. 13"))
    if total and chunks:
        wire, startup, notes = links(**options)
        results += pipelines.chunk_results(total, chunks, wire, startup, penalty, 1e-9 * cache_access)
    if not results:
        raise click.UsageError("give --stage and --tasks (Eq. 12), --kernel and --now (Eq. 13), or --total and --chunk")
    output(Table("Pipelines", results, notes), json_file)


@click.command()
@click.argument("intervals", type=click.Path(path_type=Path), metavar="INTERVALS.csv")
@click.option("--warps", type=FACTOR, required=True, metavar="W", help="Warps a multiprocessor runs at once.")
@click.option("--instructions", type=FACTOR, metavar="N", help="Warp instructions of the kernel, for its time.")
@click.option("--multiprocessors", type=Integer(min=1), default=80, show_default=True, help="80: a V100.")
@click.option("--clock", type=FACTOR, default=1.38, show_default=True, metavar="GHz", help="1.38: a V100's boost.")
@JSON
def divergence(
    intervals: Path,
    warps: float,
    instructions: float | None,
    multiprocessors: int,
    clock: float,
    json_file: Path | None,
) -> None:
    """Instructions a cycle of a kernel under memory divergence, and its time (MDM, Eq. 7).

    INTERVALS.csv has a line an interval: instructions,cycles,mshr,noc,dram (the stalls are optional).
    """
    found = mdm.read_intervals(intervals)
    results = mdm.results(warps, found, instructions, multiprocessors, 1e9 * clock)
    output(Table("Memory divergence", results), json_file)
