"""Case files: what a run is asked to do, with a default, a unit and one line of help for every option."""

from weft.cases.flow import FlowCase
from weft.cases.maxwell import MaxwellCase
from weft.cases.poisson import PoissonCase
from weft.cases.schema import Case, load, options
from weft.cases.turbulence import TurbulenceCase
from weft.errors import CaseError

WORKLOADS: dict[str, type[Case]] = {
    "poisson": PoissonCase,
    "maxwell": MaxwellCase,
    "turbulence": TurbulenceCase,
    "flow": FlowCase,
}

__all__ = [
    "WORKLOADS",
    "Case",
    "CaseError",
    "FlowCase",
    "MaxwellCase",
    "PoissonCase",
    "TurbulenceCase",
    "load",
    "options",
]
