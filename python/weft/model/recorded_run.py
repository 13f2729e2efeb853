"""What a run record says about its problem and its time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from weft.model import project
from weft.model.evidence import Evidence
from weft.model.machine import Machine, first_of
from weft.model.project import Projection
from weft.model.result import ModelError

ELEMENTS = ("poisson", "maxwell", "flow")


@dataclass(frozen=True)
class Run:
    """What a run record says about its problem, as options of the workload's projection, and its seconds."""

    evidence: Evidence
    workload: str
    ranks: int
    options: dict[str, Any]
    seconds: float  # per iteration or step
    parts: dict[str, float]  # turbulence: seconds per step by part

    @property
    def points(self) -> int:
        """Points per rank, of a workload on elements."""
        return int(self.options["elements_per_rank"]) * (int(self.options["order"]) + 1) ** 3

    @property
    def shared_fields(self) -> bool:
        """Whether ranks of one node computed turbulence in fields that they share, so that they exchanged nothing."""
        buffers = self.evidence.content["figures"].get("memory_bytes", {}).get("exchange buffers")
        return self.workload == "turbulence" and self.ranks > 1 and buffers == 0

    def on(self, machine: Machine) -> Projection:
        """The projection of this run on a machine."""
        function: Callable[..., Projection] = getattr(project, self.workload)
        try:
            return function(machine, self.ranks, **self.options)
        except ModelError as error:
            raise ModelError(f"{self.evidence.path}: {error}") from None


def run_of(evidence: Evidence) -> Run:
    """The run of a record. Raises ModelError naming what is missing or wrong."""
    content = evidence.content
    try:
        case, figures, timings = content["case"], content["figures"], content["timings"]
        workload, ranks = str(case["workload"]), evidence.ranks
        if workload not in (*ELEMENTS, "turbulence"):
            raise ModelError(
                f"{evidence.path}: a run of '{workload}', but only {', '.join(ELEMENTS)} and turbulence are projected"
            )
        options: dict[str, Any] = {"precision": str(case.get("precision", "double"))}
        parts: dict[str, float] = {}
        if workload == "turbulence":
            seconds = float(timings["seconds_per_step"])
            sides = {int(n) for n in figures["grid"]}
            if len(sides) > 1:
                raise ModelError(
                    f"{evidence.path}: only cubic grids can be projected, but this one is {figures['grid']}"
                )
            rows = int(str(figures["process_grid"]).split("x")[0])
            options |= {"grid": sides.pop(), "rows": rows, "batch": int(figures["batch"])}
            measured = {name: float(part["mean_seconds"]) for name, part in timings["parts"].items()}
            # The profiled steps and the timed ones are not the same: the parts keep their shares.
            parts = {name: seconds * part / sum(measured.values()) for name, part in measured.items()}
        else:
            name = "seconds_per_iteration" if workload == "poisson" else "seconds_per_step"
            # Iterations vary between steps of a flow: their mean belongs to the mean time.
            seconds = float(timings.get("mean_step_seconds", timings[name]))
            options |= {"order": int(figures["order"]), "elements_per_rank": -(-int(figures["elements"]) // ranks)}
            if workload == "flow":
                for kind in ("pressure", "velocity"):
                    options[f"{kind}_iterations"] = float(figures["iterations"][kind]["mean"])
        if not 0 < seconds < float("inf"):
            raise ModelError(f"{evidence.path}: the time of the run is {seconds}, but must be finite and above zero")
        return Run(evidence, workload, ranks, options, seconds, parts)
    except (KeyError, TypeError, ValueError, ZeroDivisionError, IndexError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{evidence.path}: not a complete run record: {wrong_in(error)}") from None


def wrong_in(error: Exception) -> str:
    """What an error says about a file's content."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    text = first_of(error) if isinstance(error, ValidationError) else str(error)
    return f"a measured value is wrong ({text})"
