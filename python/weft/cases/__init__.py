"""Case files describe a run; every option has a default, a unit and one line of help.

The case classes in `WORKLOADS` are imported on first use: a run of one workload does not import the others'.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from weft.cases.schema import Case, load, options
from weft.errors import CaseError

if TYPE_CHECKING:
    from weft.cases.flow import FlowCase
    from weft.cases.maxwell import MaxwellCase
    from weft.cases.poisson import PoissonCase
    from weft.cases.shared import SharedCase
    from weft.cases.turbulence import TurbulenceCase

#: the case class of each workload
WORKLOADS = {
    "poisson": "PoissonCase",
    "maxwell": "MaxwellCase",
    "turbulence": "TurbulenceCase",
    "flow": "FlowCase",
}

__all__ = [
    "WORKLOADS",
    "Case",
    "CaseError",
    "FlowCase",
    "MaxwellCase",
    "PoissonCase",
    "TurbulenceCase",
    "case_model",
    "load",
    "options",
]


def case_model(workload: str) -> type[SharedCase]:
    """The case class of a workload."""
    model: type[SharedCase] = getattr(import_module(f"weft.cases.{workload}"), WORKLOADS[workload])
    return model


def __getattr__(name: str) -> type[Case]:
    for workload, model in WORKLOADS.items():
        if name == model:
            return case_model(workload)
    raise AttributeError(f"module 'weft.cases' has no attribute {name!r}")
