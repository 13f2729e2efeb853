"""What a projection is: the time of one iteration or step by phase, and the size of its problem."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from weft.model.result import ModelError

Precision = Literal["double", "single"]
WORDS: dict[str, int] = {"double": 8, "single": 4}  # bytes per real number


class OutOfMemoryError(ModelError):
    """Raised for a problem that does not fit into the memory of the devices."""


@dataclass(frozen=True)
class Projection:
    """Time (s) of one iteration or step on the slowest rank, by phase, and the `figures` that the papers report."""

    workload: str
    machine: str
    ranks: int
    unit: str  # "iteration" or "step"
    phases: dict[str, float]
    figures: dict[str, float] = field(default_factory=dict)
    size: dict[str, float] = field(default_factory=dict)  # what describes the problem, for ranges and for output
    precision: str = "double"

    @property
    def seconds(self) -> float:
        """The total time of all phases."""
        return math.fsum(self.phases.values())


def with_figures(projection: Projection, figures: dict[str, float], **size: float) -> Projection:
    """The projection with these figures; its size is the number of ranks and `size`."""
    return replace(projection, figures=figures, size={"ranks": projection.ranks, **size})


def of_elements(order: int, elements: int) -> dict[str, float]:
    """The size of a problem of so many elements per rank."""
    return {"order": order, "points per rank": elements * (order + 1) ** 3}


def elements_of(size: Mapping[str, float]) -> int:
    """The elements per rank of a problem on elements."""
    return round(size["points per rank"] / (size["order"] + 1) ** 3)


MOST = 10**100  # larger sizes are not even numbers that a floating-point type holds


def at_least_one(**values: int) -> None:
    """Raises ModelError naming the first of these options that is below 1, or absurdly large."""
    for name, value in values.items():
        if value < 1:
            raise ModelError(f"{name} is {value}, but must be at least 1")
        if value > MOST:
            raise ModelError(f"{name} is a number of {len(str(value))} digits, which fits on no machine")
