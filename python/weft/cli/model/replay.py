"""`weft model replay`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, Unpack

import click

from weft.cli.bench import integers
from weft.cli.model.shared import FACTOR, JSON, output
from weft.cli.options import Integer, Number, options_of
from weft.cli.window import takes_window
from weft.files import write_json
from weft.model.result import Table, exact

if TYPE_CHECKING:
    from weft.model.replay import Program, Scenario
    from weft.traces import Window


class Machine(TypedDict):
    """Options that are passed unchanged to a `Scenario`."""

    lanes: Annotated[
        int | None,
        click.option(
            "--lanes",
            type=Integer(min=1),
            help="Concurrent copies per direction; further copies queue. [default: unlimited]",
        ),
    ]
    gpus: Annotated[
        int,
        click.option(
            "--gpus",
            type=Integer(min=1),
            default=1,
            show_default=True,
            help="GPUs that share the host-device link and divide the device work.",
        ),
    ]
    gpu_speed: Annotated[
        float,
        click.option(
            "--gpu-speed", type=FACTOR, default=1.0, metavar="X", help="Speed of the GPU relative to the traced one."
        ),
    ]
    cpu_speed: Annotated[
        float,
        click.option(
            "--cpu-speed", type=FACTOR, default=1.0, metavar="X", help="Speed of the CPU relative to the traced one."
        ),
    ]
    process: Annotated[
        int | None,
        click.option(
            "--process",
            type=int,
            metavar="RANK",
            help="Rank to which the latencies, bandwidths and speeds apply. [default: all]",
        ),
    ]
    queue: Annotated[
        int | None,
        click.option(
            "--queue",
            type=Integer(min=1),
            help="Launches that a stream's queue holds; a launch into a full queue blocks. [default: as traced]",
        ),
    ]
    kernels_at_once: Annotated[
        int | None,
        click.option(
            "--kernels",
            "kernels_at_once",
            type=Integer(min=1),
            help="Concurrent kernels per process. [default: as traced]",
        ),
    ]


@click.command()
@click.argument("trace", nargs=-1, required=True, metavar="TRACE...", type=click.Path(path_type=Path))
@click.option(
    "--latency",
    type=Number(min=0),
    metavar="US",
    help="Launch latency: time from a launch to the start of its work on an idle stream. [default: as traced]",
)
@click.option(
    "--bandwidth",
    type=FACTOR,
    metavar="GB/s",
    help="Bandwidth of the host-device link, per direction. [default: as traced]",
)
@options_of(Machine)
@click.option(
    "--message-latency",
    type=Number(min=0),
    metavar="US",
    help="Latency of messages between processes. [default: as traced]",
)
@click.option(
    "--message-bandwidth",
    type=FACTOR,
    metavar="GB/s",
    help="Bandwidth of messages between processes. [default: as traced]",
)
@click.option(
    "--message-overhead",
    type=Number(min=0),
    default=0.0,
    metavar="NS",
    help="Processor time of a waiting process per byte that it receives (TCP). [default: none]",
)
@click.option(
    "--traced-message-latency",
    type=Number(min=0),
    metavar="US",
    help="Latency of messages in the trace, as 'weft bench pingpong' measures it. [default: estimated]",
)
@click.option(
    "--traced-message-bandwidth",
    type=FACTOR,
    metavar="GB/s",
    help="Bandwidth of messages in the trace, as 'weft bench pingpong' measures it. [default: estimated]",
)
@click.option(
    "--longest",
    type=FACTOR,
    default=50 / 3,
    metavar="X",
    help="Launch latency of the integration penalty, relative to the traced one. [default: 50/3]",
)
@click.option("--surface", is_flag=True, help="Durations over a grid of latencies and bandwidths (Figs. 19 to 22).")
@click.option("--points", type=Integer(2, 100), default=20, show_default=True, help="Points per axis of the surface.")
@click.option(
    "--latencies", default="1-1000", show_default=True, metavar="FROM-TO", help="Latencies of the surface, in µs."
)
@click.option(
    "--bandwidths", default="1-64", show_default=True, metavar="FROM-TO", help="Bandwidths of the surface, in GB/s."
)
@click.option(
    "--loose-tight",
    metavar="LIST",
    help="Numbers of GPUs, e.g. 1-4, for which to compare loose with tight coupling at 1, 5, 10 and 50 µs (Fig. 50).",
)
@click.option(
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for the surface, as JSON and as a plot.",
)
@takes_window
@JSON
def replay(
    trace: tuple[Path, ...], latency: float | None, bandwidth: float | None, longest: float, surface: bool, points: int,
    latencies: str, bandwidths: str, loose_tight: str | None, folder: Path | None, json_file: Path | None,
    message_latency: float | None, message_bandwidth: float | None, message_overhead: float,
    traced_message_latency: float | None, traced_message_bandwidth: float | None, window: Window,
    **given: Unpack[Machine],
) -> None:  # fmt: skip
    """Replay a trace on a machine with another coupling of host and device.

    Prints the duration as traced, as replayed unchanged, and on the machine that the options describe, then the
    benefit of zero launch latency and the penalty of a long one (section 5.6). Where an MPI call or a collective of
    NCCL or RCCL waited for another process, the wait is computed anew from the replay of that process. Several files
    are those of the ranks of one run.
    """
    from weft import traces
    from weft.model import replay as method

    loaded = traces.load(trace, window=window)
    traced_path = None
    if traced_message_latency is not None and traced_message_bandwidth is not None:
        traced_path = method.MessagePath(traced_message_latency * 1e-6, traced_message_bandwidth * 1e9)
    elif traced_message_latency is not traced_message_bandwidth:
        raise click.UsageError("give both --traced-message-latency and --traced-message-bandwidth, or neither")
    source, terms = method.program(loaded, traced_path), traces.attribute(loaded).mean()
    notes, path = [*loaded.notes, *source.notes], Path(loaded.path)
    del loaded  # a large trace takes more memory than its program
    scenario = method.Scenario(
        latency=None if latency is None else latency * 1e-6,
        bandwidth=None if bandwidth is None else bandwidth * 1e9,
        message_latency=None if message_latency is None else message_latency * 1e-6,
        message_bandwidth=None if message_bandwidth is None else message_bandwidth * 1e9,
        message_overhead=message_overhead * 1e-9,
        commands_on_link=given["gpus"] > 1,
        **given,
    )
    traced = exact(method.METHOD, "duration, traced", source.traced_seconds, "s", {"trace": str(path)}, "the trace")
    outcome = method.replay(source)
    unchanged = method.duration(source, method.AS_TRACED, outcome)
    results = [traced, replace(unchanged, quantity="duration, replayed unchanged")]
    if scenario != method.AS_TRACED:
        outcome = method.replay(source, scenario)
        described = method.duration(source, scenario, outcome)
        results.append(replace(described, quantity="duration, on the machine described"))
        if (said := method.contradiction(source, terms, scenario, outcome)) is not None:
            notes.append(said)
    if not scenario.commands_on_link:
        notes.append(f"the longest chain of this run: {method.in_words(method.chain(source, outcome))}")
    if source.work:
        results += method.benefits(source, longest, scenario, outcome)
    else:
        notes.append("the trace has no device work, so the coupling of host and device makes no difference")
    if loose_tight is not None:
        for gpus, seconds, loose, tight in method.loose_and_tight(
            source, integers(loose_tight, "loose-tight", 1), (1e-6, 5e-6, 10e-6, 50e-6)
        ):
            inputs = {"loose (s)": loose, "tight (s)": tight, "GPUs": gpus, "latency (s)": seconds}
            name = f"speed-up of tight over loose coupling, {gpus} GPUs, {seconds * 1e6:g} µs"
            results.append(exact(method.METHOD, name, loose / tight, "x", inputs, "report section 8.5"))
    output(Table(f"Replay of {path.name}", results, notes), json_file)
    if surface:
        _surface(source, scenario, points, span(latencies, "latencies"), span(bandwidths, "bandwidths"), folder)


def span(text: str, option: str) -> tuple[float, float]:
    """The two ends of a range given as text, such as '1-64'."""
    first, _, last = text.partition("-")
    try:
        low, high = float(first), float(last)
    except ValueError:
        low = high = 0.0
    if not 0 < low < high < float("inf"):
        raise click.BadParameter(f"'{text}' is not a range such as 1-64", param_hint=f"--{option}")
    return low, high


def _surface(
    source: Program, scenario: Scenario, points: int, latencies: tuple[float, float],
    bandwidths: tuple[float, float], folder: Path | None,
) -> None:  # fmt: skip
    import numpy as np
    from rich.progress import Progress

    from weft.format import seconds, table
    from weft.model import replay as method
    from weft.report import plots

    micro, giga = np.geomspace(*latencies, points), np.geomspace(*bandwidths, points)
    with Progress(transient=True) as bar:
        task = bar.add_task("replaying", total=points * points)
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
        click.echo(f"wrote {folder / 'replay-surface.json'} and replay-surface.png")
