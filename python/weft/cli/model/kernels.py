"""`weft model kernels`."""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.model.shared import JSON
from weft.cli.options import integers
from weft.files import write_json
from weft.format import table
from weft.model import chips, hip_kernels
from weft.model import kernels as method
from weft.model.result import ModelError

NOTES = (
    "counted in sm_90 machine code; that of sm_80 and sm_100 differs, so A100 and B200 are estimates",
    "a prediction for launches with many blocks per multiprocessor; docs/model-kernels.md states the model",
)


@click.command()
@click.argument("record", required=False, type=click.Path(path_type=Path), metavar="[OPERATOR.JSON]")
@click.option(
    "--machine", default="h200", show_default=True, 
    type=click.Choice([*chips.CHIPS, *hip_kernels.GPUS], case_sensitive=False), help="GPU to predict for.",
)  # fmt: skip
@click.option(
    "--kernel",
    default="poisson.",
    show_default=True,
    help="Show the kernels whose names contain this text; '' shows all.",
)
@click.option(
    "--precision", default="double", show_default=True, type=click.Choice(["double", "single"]), help="Precision."
)
@click.option("--orders", default="1-15", show_default=True, metavar="LIST", help="Polynomial orders, such as 1-4,7.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the operator's rate by order (hipBone Fig. 3).",
)
@JSON
def kernels(
    record: Path | None,
    machine: str,
    kernel: str,
    precision: str,
    orders: str,
    plot: Path | None,
    json_file: Path | None,
) -> None:
    """Limit of each GPU kernel and its share of the roofline, predicted without a GPU.

    The counters of weft's kernels were recorded on an emulator of sm_90 machine code. With OPERATOR.JSON, written by
    `weft bench operator` on a GPU, the measured share is printed beside the predicted one. For AMD GPUs the table lists
    the registers, shared memory, spills and waves of each kernel, without a prediction.
    """
    wanted = integers(orders, "orders", 1, 15)
    if machine in hip_kernels.GPUS:
        return show_hip(machine, kernel, precision, wanted, json_file)
    chip = chips.load(machine)
    head, found = method.recorded()
    chosen = method.select(found, kernel, precision, wanted)
    if not chosen:
        raise not_recorded(kernel, {c.kernel for c in found})
    predictions = [method.predict(c, chip) for c in chosen]
    measured = method.measured_shares(record, chip) if record is not None else None
    click.echo(f"{chip.title}: {chip.stream_rate / 1e12:.2f} TB/s streaming, {chip.clock.value / 1e9:.2f} GHz")
    click.echo(table(method.rows(predictions, measured)))
    for note in (*NOTES, f"recorded with NVRTC {head['nvrtc']}"):
        click.echo(f"note: {note}")
    if plot is not None:
        from weft.report import plots

        lines = method.operator_rates(predictions)
        if not lines:
            raise ModelError("the plot shows the Poisson operator; choose its kernels with --kernel poisson.")
        plots.save(plots.predicted_operator(lines, chip.title), plot)
        click.echo(f"wrote {plot}")
    if json_file is not None:
        write_json(json_file, method.as_json(predictions, chip))
        click.echo(f"wrote {json_file}")


def not_recorded(kernel: str, known: set[str]) -> ModelError:
    """The error for a text that no name of a recorded kernel contains."""
    return ModelError(f"no kernel '{kernel}' was recorded with these orders; known: {', '.join(sorted(known))}")


def show_hip(machine: str, kernel: str, precision: str, orders: list[int], json_file: Path | None) -> None:
    """Resources of the kernels on an AMD GPU."""
    found = hip_kernels.select(machine, kernel, precision, orders)
    if not found:
        raise not_recorded(kernel, {r.kernel for r in hip_kernels.recorded()[1]})
    architecture, title, _ = hip_kernels.GPUS[machine]
    click.echo(f"{title}, code for {architecture}")
    click.echo(table(hip_kernels.rows(machine, found)))
    click.echo(f"note: compiled by {hip_kernels.recorded()[0]['compiler']}; hipRTC of another version may differ")
    if json_file is not None:
        write_json(json_file, hip_kernels.as_json(machine, found))
        click.echo(f"wrote {json_file}")
