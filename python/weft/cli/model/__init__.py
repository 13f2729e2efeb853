"""`weft model METHOD`: one module a method, and one line of registration each."""

from __future__ import annotations

import click

from weft.cli.model import (
    critical_path,
    dag,
    integration,
    link,
    network,
    order,
    project,
    ratio,
    replay,
    roofline,
    table13,
    validate,
)


@click.group()
def model() -> None:
    """Say what a run would cost on another machine.

    Every method takes run records, traces, or the numbers themselves; prints each figure with its unit, its equation
    and how sure it is; and writes the same as JSON with --json.
    """


for command in (integration.integration, integration.gpu_gpu):
    model.add_command(command)
model.add_command(ratio.ratio)
for command in (link.link, link.pipeline, link.divergence):
    model.add_command(command)
for command in (project.project, project.machines_command, project.published, replay.replay, dag.dag, network.network):
    model.add_command(command)
model.add_command(roofline.roofline)
model.add_command(table13.table13)
model.add_command(validate.validate)
for command in (order.order, critical_path.critical_path):
    model.add_command(command)
