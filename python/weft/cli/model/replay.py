"""`weft model replay`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from weft.cli.bench import integers
from weft.cli.model.shared import FACTOR, JSON, output
from weft.cli.options import Integer, Number
from weft.files import write_json
from weft.model.result import Table, exact


@click.command()
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--latency", type=Number(min=0), metavar="US", help="From a launch to its start. [as traced]")
@click.option("--bandwidth", type=FACTOR, metavar="GB/s", help="Of the host-device link, each way. [as traced]")
@click.option("--lanes", type=Integer(min=1), help="Copies each way at once; more wait. [no copy waits]")
@click.option("--gpus", type=Integer(min=1), default=1, show_default=True, help="GPUs on that one link.")
@click.option("--gpu-speed", type=FACTOR, default=1.0, metavar="X", help="Times the traced GPU's.")
@click.option("--cpu-speed", type=FACTOR, default=1.0, metavar="X", help="Times the traced CPU's.")
@click.option("--message-latency", type=Number(min=0), metavar="US", help="Between processes. [as traced]")
@click.option("--message-bandwidth", type=FACTOR, metavar="GB/s", help="Between processes. [as traced]")
@click.option("--process", type=int, metavar="RANK", help="Whose latencies, bandwidths and speeds these are. [all]")
@click.option("--queue", type=Integer(min=1), help="Pieces of work a stream holds. [no limit]")
@click.option("--kernels", "kernels_at_once", type=Integer(min=1), help="Kernels at once. [as traced]")
@click.option("--longest", type=FACTOR, default=50 / 3, metavar="X", help="Latency of omega, times delta's. [50/3]")
@click.option("--surface", is_flag=True, help="Durations over latency x bandwidth (Figs. 19 to 22).")
@click.option("--points", type=Integer(2, 100), default=20, show_default=True, help="A side of the surface.")
@click.option("--latencies", default="1-1000", show_default=True, metavar="FROM-TO", help="Of the surface, in µs.")
@click.option("--bandwidths", default="1-64", show_default=True, metavar="FROM-TO", help="Of the surface, in GB/s.")
@click.option("--loose-tight", metavar="LIST", help="GPUs, as 1-4: loose against tight at 1, 5, 10, 50 µs (Fig. 50).")
@click.option("--output", "folder", type=click.Path(path_type=Path), metavar="DIR", help="Surface as JSON and plot.")
@JSON
def replay(
    trace: Path, latency: float | None, bandwidth: float | None, longest: float, surface: bool, points: int,
    latencies: str, bandwidths: str, loose_tight: str | None, folder: Path | None, json_file: Path | None,
    message_latency: float | None, message_bandwidth: float | None, **given: Any,
) -> None:  # fmt: skip
    """Replay a trace's calls and device work on another coupling of host and device.

    Prints the duration as traced, as replayed unchanged, and on the machine of the options; the benefit of no latency
    and the penalty of a long one (section 5.6 of the report). Waits for other processes in MPI calls move with what
    they wait for.
    """
    from weft import traces
    from weft.model import replay as method

    source = method.program(traces.load(trace))
    scenario = method.Scenario(
        latency=None if latency is None else latency * 1e-6,
        bandwidth=None if bandwidth is None else bandwidth * 1e9,
        message_latency=None if message_latency is None else message_latency * 1e-6,
        message_bandwidth=None if message_bandwidth is None else message_bandwidth * 1e9,
        commands_on_link=given["gpus"] > 1,
        **given,
    )
    traced = exact(method.METHOD, "duration, as traced", source.traced_seconds, "s", {"trace": str(trace)}, "the trace")
    results = [traced, replace(method.duration(source, method.AS_TRACED), quantity="duration, replayed unchanged")]
    if scenario != method.AS_TRACED:
        results.append(replace(method.duration(source, scenario), quantity="duration, with the options given"))
    notes = list(source.notes)
    if source.work:
        results += method.benefits(source, longest, scenario)
    else:
        notes.append("no device took part: a tighter coupling of host and device has nothing to change")
    if loose_tight is not None:
        for gpus, seconds, loose, tight in method.loose_and_tight(
            source, integers(loose_tight, "loose-tight", 1), (1e-6, 5e-6, 10e-6, 50e-6)
        ):
            inputs = {"loose (s)": loose, "tight (s)": tight, "GPUs": gpus, "latency (s)": seconds}
            name = f"tight over loose, {gpus} GPUs, {seconds * 1e6:g} µs"
            results.append(exact(method.METHOD, name, loose / tight, "x", inputs, "report section 8.5"))
    output(Table(f"replay of {trace.name}", results, notes), json_file)
    if surface:
        _surface(source, scenario, points, span(latencies, "latencies"), span(bandwidths, "bandwidths"), folder)


def span(text: str, option: str) -> tuple[float, float]:
    """'1-64' -> (1.0, 64.0)."""
    first, _, last = text.partition("-")
    try:
        low, high = float(first), float(last)
    except ValueError:
        low = high = 0.0
    if not 0 < low < high < float("inf"):
        raise click.BadParameter(f"found '{text}', allowed: two numbers, as 1-64", param_hint=f"--{option}")
    return low, high


def _surface(
    source: Any, scenario: Any, points: int, latencies: tuple[float, float], bandwidths: tuple[float, float],
    folder: Path | None,
) -> None:  # fmt: skip
    import numpy as np
    from rich.progress import Progress

    from weft.format import seconds, table
    from weft.model import replay as method
    from weft.report import plots

    micro, giga = np.geomspace(*latencies, points), np.geomspace(*bandwidths, points)
    with Progress(transient=True) as bar:
        task = bar.add_task("replays", total=points * points)
        found = method.surface(
            source, micro * 1e-6, giga * 1e9, scenario, progress=lambda done, _: bar.update(task, completed=done)
        )
    chosen = sorted({0, points // 3, 2 * points // 3, points - 1})
    rows = [("LATENCY", *(f"{giga[j]:.3g} GB/s" for j in chosen))]
    rows += [(f"{micro[i]:.4g} µs", *(seconds(float(found[i, j])) for j in chosen)) for i in chosen]
    click.echo(table(rows))
    if folder is not None:
        record = {
            "latency_microseconds": micro.tolist(), "bandwidth_gigabytes_per_second": giga.tolist(),
            "seconds": found.tolist(), "traced_seconds": source.traced_seconds,
        }  # fmt: skip
        write_json(folder / "replay-surface.json", record)
        plots.save(plots.surface(micro, giga, source.traced_seconds / found), folder / "replay-surface.png")
        click.echo(f"written {folder / 'replay-surface.json'} and replay-surface.png")
