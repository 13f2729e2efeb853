"""The checkpoints that a run writes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from weft.run.folder import folder_of_checkpoints
from weft.run.machine import versions

if TYPE_CHECKING:
    from weft import flow, maxwell, solver_on_elements, turbulence, turbulence_output
    from weft.cases import FlowCase, MaxwellCase, TurbulenceCase


class Checkpoints:
    """Writes a run's checkpoints, and remembers the latest.

    `began` is the checkpoint that the run continues from, or None. `options` are passed to the solver's `save`.
    """

    def __init__(
        self,
        case: FlowCase | MaxwellCase | TurbulenceCase,
        solver: flow.Solver | maxwell.Solver | turbulence.Solver,
        began: solver_on_elements.Checkpoint | turbulence_output.Checkpoint | None,
        **options: int,
    ) -> None:
        self.solver, self.options = solver, {"keep": case.checkpoint.keep, **options}
        self.folder = str(folder_of_checkpoints(case))
        self.last = began.path if began else ""
        self.written_at = -1
        self.seconds = 0.0  # on this rank
        self.text = json.dumps({"case": case.model_dump(by_alias=True), "versions": versions()})

    def write(self) -> None:
        """Writes a checkpoint, unless this step already has one. (collective)"""
        if self.written_at != self.solver.steps:
            begin = time.perf_counter()
            self.last = self.solver.save(self.folder, text=self.text, **self.options)
            self.seconds += time.perf_counter() - begin
            self.written_at = self.solver.steps
