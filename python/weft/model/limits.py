"""The limits of a run: how close it is to each of them, and which one binds.

Each limit is a lower bound on the time of the work: its bytes over the bandwidth, and its operations over the peak of
multiply-adds, both measured in the same run; and its instructions over the rate at which the cores can start them.
"""

from __future__ import annotations

from weft.format import rate, short
from weft.model import instructions, processors
from weft.model.formulas import Method, Size
from weft.record import Limit


def limits(
    seconds: float, moved: float, bandwidth: float, flops: float, peak: float, counted: Limit | None = None
) -> list[Limit]:
    """The limits of work that took `seconds`; the first one binds, because its lower bound is the largest.

    `moved` bytes at a `bandwidth` in byte/s, and `flops` at a `peak` in FLOP/s, both of all ranks. `counted`: the limit
    by instructions, if there is one (`by_instructions`); its share is filled in here.
    """
    found: list[Limit] = [
        {
            "name": "bandwidth",
            "seconds": moved / bandwidth,
            "share": 0.0,
            "what": f"{rate(moved, 'B')} at {rate(bandwidth, 'B/s')}",
        },
        {
            "name": "arithmetic",
            "seconds": flops / peak,
            "share": 0.0,
            "what": f"{rate(flops, 'FLOP')} at {rate(peak, 'FLOP/s')}",
        },
        *([counted] if counted else []),
    ]
    for limit in found:
        limit["share"] = limit["seconds"] / seconds if seconds > 0 else 0.0
    return sorted(found, key=lambda limit: -limit["seconds"])


def by_instructions(size: Size, method: Method, work: str, access: str, vectors: str, peak: float) -> Limit | None:
    """The limit by instructions of an application of the operator, or of an iteration of merged CG (`work`).

    `access`: the access to surface points; `vectors`: those of the host; `peak`: FLOP/s of all ranks' multiply-adds,
    from which the cycles per second follow. None if no instructions were counted: for kernels other than SIMD, other
    work, and single precision.
    """
    core = processors.core(processors.microarchitecture(), vectors)
    if core is None or method.kernels != "simd" or size.word != 8:
        return None
    total: instructions.Mix = {}
    for shape, count in method.kinds_of_metric(size).items():
        mix = instructions.mix(instructions.Kernel(vectors, size.order, shape, work, access)) if count else {}
        if mix is None:
            return None
        for key, value in mix.items():
            total[key] = total.get(key, 0.0) + value * count / size.elements
    if not total:
        return None
    needed = instructions.cycles(core, total)
    most = max(needed, key=lambda name: needed[name])
    # A vector's multiply-adds are 2 lanes flops, and a cycle does `products` of them: the lanes cancel.
    seconds = size.points * needed[most] * 2 * core.products / peak
    what = f"{short(needed[most])} cycles per point and vector of elements for {most} ({core.title}, {vectors})"
    return {"name": "instructions", "seconds": seconds, "share": 0.0, "what": what}
