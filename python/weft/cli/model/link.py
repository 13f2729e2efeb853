"""`weft model link`, `weft model pipeline` and `weft model divergence`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, TypedDict, Unpack

import click

from weft.cli.model.shared import FACTOR, JSON, output
from weft.cli.options import Integer, options_of
from weft.model import divergence as mdm
from weft.model import link as method
from weft.model import pipeline as pipelines
from weft.model.result import Result, Table, exact

PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


class Size(click.ParamType[float]):
    """A size in bytes, such as '1.3KiB', '16 MiB', '1.6GB' or '64'."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"\s*([0-9.eE+]+)\s*([kKmMgGtT]?i?)B?\s*", str(value))
        try:
            size = float(match[1]) * PREFIXES[match[2].lower()] if match else 0.0
        except (KeyError, ValueError):
            size = 0.0
        if not 0 < size < float("inf"):
            self.fail(f"'{value}' is not a size such as 64, 1.3KiB, 16MiB or 1.6GB", param, ctx)
        return size


SIZE = Size()


class LinkOptions(TypedDict):
    """The options that describe the PCIe and the CXL link."""

    bandwidth: Annotated[
        float | None,
        click.option(
            "--bandwidth",
            type=FACTOR,
            metavar="GB/s",
            help="PCIe bandwidth. [default: from --generation and --lanes]",
        ),
    ]
    generation: Annotated[
        int, click.option("--generation", type=Integer(1, 5), default=3, show_default=True, help="PCIe generation.")
    ]
    lanes: Annotated[
        str,
        click.option(
            "--lanes",
            type=click.Choice(["1", "2", "4", "8", "16"]),
            default="16",
            show_default=True,
            help="Number of PCIe lanes.",
        ),
    ]
    startup: Annotated[
        float | None,
        click.option(
            "--startup",
            type=FACTOR,
            metavar="NS",
            help="PCIe start-up time t_s (Eq. 9). [default: derived from a ratio that the report prints]",
        ),
    ]
    penalty: Annotated[
        float,
        click.option(
            "--penalty",
            type=FACTOR,
            default=method.CXL_PENALTY,
            show_default=True,
            help="CXL penalty factor (Eq. 11).",
        ),
    ]
    cache_access: Annotated[
        float,
        click.option(
            "--cache-access",
            type=FACTOR,
            default=1e9 * method.CACHE_ACCESS,
            show_default=True,
            metavar="NS",
            help="Time of one CXL cache miss.",
        ),
    ]


def links(options: LinkOptions) -> tuple[method.Link, float, list[str]]:
    """The PCIe link, its start-up time t_s in seconds, and notes on the source of each."""
    bandwidth, startup = options["bandwidth"], options["startup"]
    link: method.Link
    if bandwidth:
        link = method.ConstantLink(1e9 * bandwidth)
    else:
        link = method.PcieLink(options["generation"], int(options["lanes"]))
    notes = []
    if not bandwidth:
        notes.append(
            "PCIe bandwidth b_n of Eq. 9: Neugebauer et al. (2018), payloads of 256 B, read requests of 512 B, "
            "concurrent reads and writes"
        )
    if startup is None:
        seconds = method.report_startup(link)
        notes.append(
            f"the report does not print t_s; {1e9 * seconds:.4g} ns reproduces its ratio of {method.REPORT_RATIO} "
            "at 16 MiB on this link"
        )
        return link, seconds, notes
    return link, 1e-9 * startup, notes


@click.command()
@click.argument("sizes", nargs=-1, type=SIZE, required=True, metavar="SIZE...")
@options_of(LinkOptions)
@JSON
def link(sizes: tuple[float, ...], json_file: Path | None, **options: Unpack[LinkOptions]) -> None:
    """Transfer times over PCIe and CXL, and the sizes at which PCIe overtakes CXL (Eqs. 9 to 11).

    SIZE is a number of bytes, such as 64, 1.3KiB, 16MiB or 1.6GB.
    """
    wire, startup, notes = links(options)
    cxl = options["penalty"], 1e-9 * options["cache_access"]
    results = [r for s in sizes for r in method.transfer_results(s, wire, startup, *cxl)]
    results += method.crossover_results(wire, startup, *cxl)
    output(Table("PCIe and CXL", results, notes), json_file)


@click.command()
@click.option("--stage", "stages", type=FACTOR, multiple=True, metavar="S", help="Time of one stage; repeatable.")
@click.option("--tasks", type=Integer(min=1), help="Number of tasks that pass through the pipeline.")
@click.option("--startup-time", type=float, default=0.0, metavar="S", help="Start-up time s of the pipeline (Eq. 12).")
@click.option("--now", type=FACTOR, metavar="S", help="Run time today, with which the pipeline is compared.")
@click.option(
    "--kernel",
    "kernels",
    type=FACTOR,
    multiple=True,
    metavar="S",
    help="Kernel time of one accelerator (Eq. 13); repeatable.",
)
@click.option("--total", type=SIZE, metavar="SIZE", help="Data moved in chunks (Fig. 58).")
@click.option("--chunk", "chunks", type=SIZE, multiple=True, metavar="SIZE", help="Size of a chunk; repeatable.")
@options_of(LinkOptions)
@JSON
def pipeline(
    stages: tuple[float, ...],
    tasks: int | None,
    startup_time: float,
    now: float | None,
    kernels: tuple[float, ...],
    total: float | None,
    chunks: tuple[float, ...],
    json_file: Path | None,
    **options: Unpack[LinkOptions],
) -> None:  # fmt: skip
    """Pipelines of accelerators: run time, cost of moving data between them, chunk sizes.

    Uses Eqs. 12 and 13 and Fig. 58. Stages may take different times: once the pipeline is full, the slowest stage sets
    the pace.
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
        wire, startup, notes = links(options)
        cxl = options["penalty"], 1e-9 * options["cache_access"]
        results += pipelines.chunk_results(total, chunks, wire, startup, *cxl)
    if not results:
        raise click.UsageError(
            "give --stage and --tasks (Eq. 12), --kernel and --now (Eq. 13), or --total and --chunk (Fig. 58)"
        )
    output(Table("Pipelines", results, notes), json_file)


@click.command()
@click.argument("intervals", type=click.Path(path_type=Path), metavar="INTERVALS.csv")
@click.option("--warps", type=FACTOR, required=True, metavar="W", help="Concurrent warps per multiprocessor.")
@click.option("--instructions", type=FACTOR, metavar="N", help="Warp instructions of the kernel; prints its time.")
@click.option(
    "--multiprocessors",
    type=Integer(min=1),
    default=80,
    show_default=True,
    help="Multiprocessors of the GPU; the V100 has 80.",
)
@click.option(
    "--clock",
    type=FACTOR,
    default=1.38,
    show_default=True,
    metavar="GHz",
    help="Clock rate; the V100's boost clock is 1.38 GHz.",
)
@JSON
def divergence(
    intervals: Path,
    warps: float,
    instructions: float | None,
    multiprocessors: int,
    clock: float,
    json_file: Path | None,
) -> None:  # fmt: skip
    """Instructions per cycle of a kernel with divergent memory accesses, and its time (MDM, Eq. 7).

    INTERVALS.csv has a header and one line per interval of a warp's instructions: instructions, cycles, and optionally
    the stall cycles mshr, noc and dram.
    """
    found = mdm.read_intervals(intervals)
    results = mdm.results(warps, found, instructions, multiprocessors, 1e9 * clock)
    output(Table("Memory divergence", results), json_file)
