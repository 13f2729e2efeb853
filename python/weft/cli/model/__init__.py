"""`weft model METHOD`: each method is one module here and one line in `METHODS`."""

from __future__ import annotations

import click

from weft.cli.lazy import LazyGroup

_HERE = "weft.cli.model"
METHODS = {
    "calibrate": ("calibrate:calibrate", "Description of a machine from measurements on it."),
    "critical-path": (
        "critical_path:critical_path",
        "Chain of host and device work that determines the time of a traced run.",
    ),
    "dag": ("dag:dag", "Critical path of a sparse triangular solve on several GPUs."),
    "divergence": ("link:divergence", "Instructions per cycle of a kernel with divergent memory accesses (MDM)."),
    "extrapolate": ("extrapolate:extrapolate", "Time of any program at more ranks, from runs at several."),
    "gpu-gpu": ("integration:gpu_gpu", "Benefit of more GPUs per node, or of faster links between them."),
    "integration": ("integration:integration", "Benefit of a tighter CPU-GPU coupling, or penalty of a looser one."),
    "kernels": ("kernels:kernels", "Limit of each GPU kernel and its share of the roofline, predicted without a GPU."),
    "link": ("link:link", "Transfer times over PCIe and CXL, and the sizes at which PCIe overtakes CXL."),
    "machines": ("project:machines_command", "List of the machines that weft describes."),
    "network": ("network:network", "Simulated network traffic of a trace's MPI calls, or of a pattern."),
    "order": ("order:order", "Dependencies between kernels, inferred from several perturbed runs."),
    "pipeline": ("link:pipeline", "Pipelines of accelerators: run time, cost of moving data, chunk sizes."),
    "project": ("project:project", "Projected time per iteration or time step, on any machine and at any scale."),
    "published": ("project:published", "Published scaling tables compared with weft's projections."),
    "ratio": ("ratio:ratio", "CPU cores needed per GPU, from runs on a fixed number of GPUs."),
    "replay": ("replay:replay", "Discrete-event replay of a trace on another machine."),
    "roofline": ("roofline:roofline", "Roofline of a kernel, including irregular reads and transfers."),
    "search": ("search:search", "Fastest and cheapest machines, nodes and process grids for a problem."),
    "table13": ("table13:table13", "Table 13 of the GPU integration report for your own applications."),
    "validate": ("validate:validate", "Published figures recomputed, entry by entry."),
}


@click.group(cls=LazyGroup, places={name: (f"{_HERE}.{place}", text) for name, (place, text) in METHODS.items()})
def model() -> None:
    """Predict what a run would cost on another machine.

    Every method takes run records, traces, or plain numbers. It prints each figure with its unit, its equation and its
    uncertainty, and with --json writes the same results to a file. Section and equation numbers refer to the GPU
    integration report (ECP-HIHE01-35, 2021) unless another source is named. docs/model.md says which method answers
    which question.
    """
