"""`weft model METHOD`: one module a method, and one line of registration each."""

from __future__ import annotations

import click

from weft.cli.lazy import LazyGroup

_HERE = "weft.cli.model"
METHODS = {
    "critical-path": (
        "critical_path:critical_path",
        "The chain of host and device work that decides a traced run's time.",
    ),
    "dag": ("dag:dag", "Critical path of a sparse triangular solve over several GPUs."),
    "divergence": ("link:divergence", "Instructions a cycle of a kernel under memory divergence (MDM, Eq. 7)."),
    "gpu-gpu": ("integration:gpu_gpu", "Benefit of more GPUs on a node, or of faster links between them."),
    "integration": ("integration:integration", "Benefit of a tighter CPU-GPU coupling, penalty of a looser one."),
    "link": ("link:link", "Times of transfers over PCIe and CXL, and where one overtakes the other."),
    "machines": ("project:machines_command", "The machines that weft describes."),
    "network": ("network:network", "Messages on a network: of a trace's MPI calls, or of a pattern."),
    "order": ("order:order", "Dependencies between kernels, from several perturbed runs."),
    "pipeline": ("link:pipeline", "Pipelines of accelerators: time, penalty of data between them, chunk sizes."),
    "project": ("project:project", "Time of an iteration or a step of a workload on a machine, at any scale."),
    "published": ("project:published", "The papers' scaling tables beside their projections."),
    "ratio": ("ratio:ratio", "CPU cores a GPU needs, from runs on a constant number of GPUs."),
    "replay": ("replay:replay", "A trace's calls, device work and messages on another machine."),
    "roofline": ("roofline:roofline", "Limits of a kernel, with irregular reads and transfers."),
    "table13": ("table13:table13", "The report's Table 13 for your own applications."),
    "validate": ("validate:validate", "Recompute what the papers published, entry by entry."),
}


@click.group(cls=LazyGroup, places={name: (f"{_HERE}.{place}", text) for name, (place, text) in METHODS.items()})
def model() -> None:
    """Say what a run would cost on another machine.

    Every method takes run records, traces, or the numbers themselves; prints each figure with its unit, its equation
    and how sure it is; and writes the same as JSON with --json. Sections and equations of no other source are of the
    GPU integration report; docs/model.md tells which method answers what.
    """
