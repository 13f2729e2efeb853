"""`weft model roofline`."""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.model.shared import FACTOR, JSON, output
from weft.cli.options import Integer
from weft.model import roofline as method
from weft.model.result import ModelError, Result, Table, exact


@click.command()
@click.argument("run", required=False, type=click.Path(path_type=Path), metavar="[RUN]")
@click.option(
    "--order", type=Integer(1, 15), help="Polynomial order for which to print the operator's roofline (hipBone Eq. 4)."
)
@click.option("--peak", type=FACTOR, metavar="GFLOP/s", help="Peak rate of arithmetic, 1 / t_flop.")
@click.option("--bandwidth", type=FACTOR, metavar="GB/s", help="Streaming bandwidth, 1 / t_reg.")
@click.option("--irregular", type=FACTOR, metavar="NS", help="Time per random read with all threads reading, t_irreg.")
@click.option("--h2d", type=FACTOR, metavar="GB/s", help="Bandwidth of copies to the device, 1 / t_h2d.")
@click.option("--d2h", type=FACTOR, metavar="GB/s", help="Bandwidth of copies to the host, 1 / t_d2h.")
@click.option(
    "--constants", type=click.Path(path_type=Path), metavar="FILE", help="File of constants written by --save."
)
@click.option("--measure", metavar="DEVICE", help="Device to measure the constants on: auto, host, cuda or hip.")
@click.option("--save", type=click.Path(path_type=Path), metavar="FILE", help="File for the measured constants.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Constants of another memory to compare with (section 9.1).",
)
@click.option("--flops", type=float, default=0.0, metavar="N", help="Floating-point operations, n_flop.")
@click.option("--regular-bytes", type=float, default=0.0, metavar="N", help="Bytes streamed, n_reg.")
@click.option(
    "--irregular-reads", type=float, default=0.0, metavar="N", help="Irregular reads, one cache line each, n_irreg."
)
@click.option("--h2d-bytes", type=float, default=0.0, metavar="N", help="Bytes copied to the device, n_h2d.")
@click.option("--d2h-bytes", type=float, default=0.0, metavar="N", help="Bytes copied to the host, n_d2h.")
@JSON
def roofline(
    run: Path | None,
    order: int | None,
    peak: float | None,
    bandwidth: float | None,
    irregular: float | None,
    h2d: float | None,
    d2h: float | None,
    constants: Path | None,
    measure: str | None,
    save: Path | None,
    against: Path | None,
    flops: float,
    regular_bytes: float,
    irregular_reads: float,
    h2d_bytes: float,
    d2h_bytes: float,
    json_file: Path | None,
) -> None:
    """Roofline of a kernel, including irregular reads and transfers (hipBone Eq. 4; report Eq. 8).

    RUN is a Poisson run, whose operations and bytes are compared with the rates measured in it. Without RUN, give the
    counts as options. The constants of Eq. 8 are measured (--measure), read from a file (--constants), or given as
    rates (--peak, --bandwidth and so on).
    """
    machine: method.Constants | None = None
    if measure is not None:
        from weft import device

        opened = device.open(measure)
        machine = method.measure(opened)
        if save is not None:
            method.write(save, machine, f"measured by weft on {opened.name}")
            click.echo(f"wrote {save}")
    elif constants is not None:
        machine = method.read(constants)
    elif peak is not None and bandwidth is not None:
        copies = (1e9 * (h2d or 0), 1e9 * (d2h or 0))
        machine = method.of_rates(1e9 * peak, 1e9 * bandwidth, 1e-9 * (irregular or 0), *copies)
    results: list[Result] = []
    if machine is not None:
        results += method.constant_results(machine)
    if run is not None:
        from weft.model.sources import read

        record = read(run).record
        if record is None:
            raise ModelError(f"{run}: this is a trace; the roofline needs a run record (run.json)")
        results += method.run_results(record, machine)
    if order is not None:
        if machine is None:
            raise click.UsageError("--order needs constants: give --measure, --constants, or --peak and --bandwidth")
        results.append(method.eq4(order, 1 / machine.flop, 1 / machine.regular))
    counts = (flops, regular_bytes, irregular_reads, h2d_bytes, d2h_bytes)
    if any(counts):
        if machine is None:
            raise click.UsageError("counts need constants: give --measure, --constants, or --peak and --bandwidth")
        pattern = method.Pattern(*counts)
        results += method.pattern_results(pattern, machine)
        if against is not None:
            ratio = method.relative_performance(pattern, method.read(against), machine)
            name = f"performance with the constants of {against.name}, relative"
            results.append(exact("roofline", name, ratio, "x", {}, "Eq. 8, section 9.1"))
    if not results:
        raise click.UsageError("give RUN, --order, --measure, or counts (--flops, --regular-bytes, …) with constants")
    output(Table("Rooflines", results), json_file)
