"""The results of `weft model project`: times with their ranges, and notes on the limits of a projection."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping

from weft.model.machine import Machine, Share
from weft.model.project.projection import Projection, elements_of
from weft.model.result import Result, exact

METHOD = "project"
WIDEST = math.log(1e9)  # a range of a factor of a billion both ways says that nothing is known
UNMEASURED = 1.0  # more time that transforms may take at lengths of a kind that was not measured, as a share

CONSTANTS_OF = {
    "poisson": ("stream_efficiency", "split_overhead", "exchange_seconds", "exchange_factor"),
    "maxwell": ("stream_efficiency", "split_overhead", "exchange_seconds", "exchange_efficiency"),
    "flow": ("stream_efficiency", "split_overhead", "exchange_seconds", "exchange_factor"),
    "turbulence": ("network_efficiency", "strided_efficiency", "kernel_efficiency", "brick_overhead"),
}


def constants_of(machine: Machine, workload: str) -> tuple[str, ...]:
    """The constants that a workload uses on a machine: those of which no rate was measured instead."""
    counted = workload in machine.traffic
    unused = {
        "stream_efficiency": workload in machine.efficiency,
        "exchange_seconds": not counted or machine.key("exchange_seconds", workload) is None,
        "exchange_factor": counted,
        "exchange_efficiency": counted,
        "split_overhead": workload == "maxwell" and not counted,
        "network_efficiency": machine.links.network.all_to_all_bytes_per_second is not None or machine.nodes.value == 1,
        "strided_efficiency": machine.device.transforms is not None,
    }
    return tuple(name for name in CONSTANTS_OF[workload] if not unused.get(name, False))


EQUATIONS = {
    "poisson": "hipBone Eqs. 3 to 5 and Fig. 2",
    "maxwell": "NekCEM Eq. 16 and n_1/2",
    "flow": "hipBone Eq. 5 per solver iteration",
    "turbulence": "GESTS Eqs. 9 and 13",
}


def results(machine: Machine, project: Callable[[Machine], Projection]) -> list[Result]:
    """The time of `project(machine)`, the times of its phases, and its figures, with their ranges.

    If the machine has constants that were not calibrated, the range spans the corners of their ranges. If published
    rows or held-out runs were projected on it, the range also holds the error that 95 % of the former or 90 % of others
    like the latter stay within, more outside their sizes. Where no transform of the kind was measured, it also holds
    twice their time.
    """
    central = project(machine)
    name = central.workload
    used = constants_of(machine, name)
    inputs: dict[str, object] = {
        "machine": machine.title,
        **{k: v for k, v in central.size.items() if k != "ranks"},
        **({"elements per rank": elements_of(central.size)} if "order" in central.size else {}),
        "precision": central.precision,
        "ranks": central.ranks,
        **{c: machine.constant(c, name) for c in used},
    }
    if name in machine.efficiency:
        inputs["efficiency"] = machine.stream_efficiency(
            name, int(central.size["order"]), central.size["points per rank"], central.ranks
        )
    what = f"time per {central.unit}"
    equation = EQUATIONS[name]
    seconds = [project(m).seconds for m in _corners(machine, name, used)] + [central.seconds]
    low, high = min(seconds) / central.seconds, max(seconds) / central.seconds
    range_is = "range of the constants" if low < high else ""
    other = name == "turbulence" and unmeasured_transforms(machine, int(central.size["grid"]))
    if other:
        high += UNMEASURED * central.phases["FFT"] / central.seconds
        range_is = range_is or "transforms of another kind"
    if name in machine.errors:
        accuracy = machine.errors[name]
        foreign = accuracy.precision not in (None, central.precision)
        times = widening(central.size, accuracy.tested) + foreign
        width = min(math.log1p(accuracy.value) * times, WIDEST)
        low, high = low * math.exp(-width), high * math.exp(width)
        share = "95 %" if accuracy.basis == "published rows" else "90 %"
        range_is = f"{share} of {accuracy.basis}"
        range_is += ", widened" if other or foreign or outside(central.size, accuracy.tested) else ""

    def one(quantity: str, value: float, unit: str, inverse: bool = False) -> Result:
        ends = (1 / high, 1 / low) if inverse else (low, high)
        return Result(METHOD, quantity, value, unit, value * ends[0], value * ends[1], inputs, equation, range_is)

    found = [one(what, central.seconds, "s")]
    found += [exact(METHOD, f"  {phase}", seconds, "s", inputs, equation) for phase, seconds in central.phases.items()]
    for quantity, value in central.figures.items():
        if "/s" in quantity:
            found.append(one(quantity, value, "", inverse=True))
        else:
            found.append(exact(METHOD, quantity, value, "", inputs, equation))
    return found


def notes(
    machine: Machine, workload: str, sizes: Iterable[Mapping[str, float]] = (), precisions: Iterable[str] = ()
) -> list[str]:
    """Notes on the limits of projections of a workload with these sizes and precisions on this machine."""
    found = []
    sizes = list(sizes)
    if (efficiency := machine.efficiency.get(workload)) is not None:  # type: ignore[call-overload]
        orders = {int(size["order"]) for size in sizes} - set(efficiency.orders)
        found += [
            f"order {n} was not measured: the efficiency is that of order {efficiency.nearest(n)}"
            for n in sorted(orders)
        ]
    if workload == "turbulence" and (transforms := machine.device.transforms) is not None:
        grids = {int(size["grid"]) for size in sizes}
        found += [
            f"no measured transform has a length with the largest prime factor of {n}: those of the nearest one count, "
            "and the range holds twice their time"
            for n in sorted(grids)
            if not transforms.has_prime(n)
        ]
        found += [
            f"no measured transform has an odd length as {n}: real transforms of odd lengths may take twice as long, "
            "which the range holds"
            for n in sorted(grids)
            if not transforms.has_parity(n)
        ]
        if workload not in machine.errors:  # else a range that widens outside the tested grids says so
            first, last = transforms.points[0], transforms.points[-1]
            found += [
                f"transforms were measured at {first:,} to {last:,} points: those of {n:,} take the nearest one's rate"
                for n in sorted(grids)
                if not first <= n <= last
            ]
    if machine.topology is None and any(size["ranks"] > machine.ranks_per_node for size in sizes):
        found.append(f"no topology of {machine.title} is described: links that switches share limit nothing")
    missing = [n for n in constants_of(machine, workload) if machine.key(n, workload) is None]
    if missing:
        found.append(
            f"{', '.join(missing)}: not calibrated for {machine.title}, so values of other machines are used "
            "(docs/model-project.md); the range shows the resulting uncertainty"
        )
    if workload not in machine.errors:
        return [
            *found,
            f"no published rows of {workload} on {machine.title}, and no held-out runs: the error of the model is not "
            "in the range",
        ]
    accuracy = machine.errors[workload]
    for name in dict.fromkeys(name for size in sizes for name, _ in outside(size, accuracy.tested)):
        low, high = accuracy.tested[name]
        rows = f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
        found.append(f"{name}: {accuracy.basis} cover {rows}; the range widens by its width with each doubling outside")
    if any(accuracy.precision not in (None, precision) for precision in precisions):
        found.append(
            f"{accuracy.basis} are in {accuracy.precision} precision; the range widens by its width for another"
        )
    return found


def unmeasured_transforms(machine: Machine, points: int) -> bool:
    """Whether rates of transforms were measured, but none at a length of the same kind: other ones count for it."""
    transforms = machine.device.transforms
    return transforms is not None and not (transforms.has_prime(points) and transforms.has_parity(points))


def _corners(machine: Machine, workload: str, names: tuple[str, ...]) -> list[Machine]:
    """The machine with each constant that is not calibrated at either end of its range."""
    free = [n for n in names if machine.key(n, workload) is None]
    ends = [machine.constant_range(n, workload) for n in free]
    found = []
    for corner in itertools.product(*ends) if free else ():
        values = {f"{workload}.{n}": Share(value=v, source="range") for n, v in zip(free, corner, strict=True)}
        # A copy is not validated: a corner may hold more constants than a description is allowed to have calibrated.
        found.append(machine.model_copy(update={"constants": {**machine.constants, **values}}))
    return found


def tested(sizes: Iterable[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """The smallest and largest of each size among problems."""
    found: dict[str, tuple[float, float]] = {}
    for size in sizes:
        for name, value in size.items():
            low, high = found.get(name, (value, value))
            found[name] = (min(low, value), max(high, value))
    return found


def widening(size: Mapping[str, float], tested: Mapping[str, tuple[float, float]]) -> float:
    """The factor by which a range widens outside the sizes that were tested: one more width per doubling."""
    return 1.0 + math.fsum(doublings for _, doublings in outside(size, tested))


def outside(size: Mapping[str, float], tested: Mapping[str, tuple[float, float]]) -> list[tuple[str, float]]:
    """The sizes outside those that were tested, and by how many doublings or halvings."""
    found = []
    for name, (low, high) in tested.items():
        doublings = max(math.log2(low / size[name]), math.log2(size[name] / high), 0.0)
        if doublings > 0:
            found.append((name, doublings))
    return found
