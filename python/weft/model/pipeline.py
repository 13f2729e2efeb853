"""Pipelines of accelerators with balanced or unbalanced stages (Eq. 12), and the cost of moving data (Eq. 13).

"The report" is ECP-HIHE01-35 (2021), sections 4.8.4 and 10.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.model.link import Link, cxl_bandwidth_time, cxl_line_time, pcie_time
from weft.model.result import ModelError, Result, exact, require_finite, require_positive

METHOD = "pipeline"


def balanced_time(stage: float, depth: int, tasks: int, startup: float = 0.0) -> float:
    """Eq. 12: t_app = d t_stage + (n - 1) t_stage + s, in seconds."""
    require_counts(depth=depth, tasks=tasks)
    return pipeline_time([stage] * depth, tasks, startup)


def pipeline_time(stages: Sequence[float], tasks: int, startup: float = 0.0) -> float:
    """Eq. 12 for stages of different lengths: the first task passes all stages, and the slowest stage sets the pace.

    Exact if the times are constant and at least one task fits between stages: the slowest stage then never waits once
    the pipeline is full.
    """
    if not stages:
        raise ModelError("a pipeline needs at least one stage")
    require_counts(tasks=tasks)
    for index, stage in enumerate(stages):
        require_positive(**{f"stage {index + 1}": stage})
    require_finite(startup=startup)
    if startup < 0:
        raise ModelError(f"startup is {startup:g} s, but must not be negative")
    return math.fsum(stages) + (tasks - 1) * max(stages) + startup


def serial_time(stages: Sequence[float], tasks: int, startup: float = 0.0) -> float:
    """The time (s) without a pipeline: every task passes all stages before the next one starts (Fig. 57a)."""
    return pipeline_time([math.fsum(stages)], tasks, startup)


def require_counts(**counts: int) -> None:
    """Raises ModelError naming the first value that is not a whole number of at least one."""
    for name, count in counts.items():
        if count != int(count) or count < 1:
            raise ModelError(f"{name} is {count:g}, but must be a whole number of at least 1")


def disaggregation_penalty(total: float, kernels: Sequence[float]) -> float:
    """Eq. 13: T_total over the sum of the accelerators' kernel times."""
    if not kernels:
        raise ModelError("no kernel time is given, but Eq. 13 needs at least one")
    require_positive(total=total, kernels=math.fsum(kernels))
    if any(k < 0 for k in kernels):
        raise ModelError("a kernel time is negative; give times of at least zero")
    if total < max(kernels):
        raise ModelError(f"T_total is {total:g} s, but one of the kernels alone takes {max(kernels):g} s")
    return total / math.fsum(kernels)


def implied_total(penalty: float, kernels: Sequence[float]) -> float:
    """The T_total (s) for which Eq. 13 gives `penalty`."""
    require_positive(penalty=penalty, kernels=math.fsum(kernels))
    return penalty * math.fsum(kernels)


def chunked_time(total: float, chunk: float, transfer: float, depth: int = 3) -> float:
    """Fig. 58: time (s) to move `total` bytes in chunks, each of which takes `transfer` seconds per stage (Eq. 12)."""
    require_positive(total=total, chunk=chunk)
    return balanced_time(transfer, depth, math.ceil(total / chunk))


def chunk_results(
    total: float, chunks: Sequence[float], link: Link, startup: float, penalty: float, cache_access: float
) -> list[Result]:
    """Fig. 58 for PCIe and both CXL models: times to move `total` bytes through three balanced stages."""
    results = []
    for chunk in chunks:
        inputs = {"total (B)": total, "chunk (B)": chunk, "t_s (s)": startup, "CXL penalty": penalty}
        for name, transfer, equation in (
            ("PCIe", pcie_time(chunk, link, startup), "Eqs. 9, 12"),
            ("CXL model 1", cxl_line_time(chunk, cache_access), "Eqs. 10, 12"),
            ("CXL model 2", cxl_bandwidth_time(chunk, link, penalty, cache_access), "Eqs. 11, 12"),
        ):
            value = chunked_time(total, chunk, transfer)
            results.append(exact(METHOD, f"{name}, chunks of {chunk:g} B", value, "s", inputs, equation))
    return results


def simulate(
    stages: Sequence[float], arrivals: Sequence[float], room: float = math.inf
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Simulates the pipeline by discrete events: when each task enters the first and leaves the last stage.

    `arrivals` are the times at which tasks arrive, in order; `room` is the number of tasks that may wait between two
    stages, and a stage keeps its task until there is room. Unlike Eq. 12, this covers tasks that arrive over time.
    """
    import simpy

    if not stages or not arrivals:
        raise ModelError("the simulation needs at least one stage and one task")
    if list(arrivals) != sorted(arrivals):
        raise ModelError("the arrival times are not in order; sort them")
    environment = simpy.Environment()
    queues = [simpy.Store(environment, capacity=room if index else math.inf) for index in range(len(stages))]
    entered = np.full(len(arrivals), np.nan)
    left = np.full(len(arrivals), np.nan)

    def source():  # type: ignore[no-untyped-def]
        for task, at in enumerate(arrivals):
            yield environment.timeout(max(0.0, at - environment.now))
            yield queues[0].put(task)

    def stage(index: int):  # type: ignore[no-untyped-def]
        while True:
            task = yield queues[index].get()
            if index == 0:
                entered[task] = environment.now
            yield environment.timeout(stages[index])
            if index + 1 < len(stages):
                yield queues[index + 1].put(task)
            else:
                left[task] = environment.now

    environment.process(source())
    for index in range(len(stages)):
        environment.process(stage(index))
    environment.run()
    return entered, left


def stage_results(stages: Sequence[float], tasks: int, startup: float, now: float | None) -> list[Result]:
    """The pipelined time, its speed-up over serial execution and over today's time, and the limiting stage."""
    inputs = {"stages (s)": list(stages), "tasks": tasks, "s (s)": startup}
    time = pipeline_time(stages, tasks, startup)
    serial = serial_time(stages, tasks, startup)
    slowest = max(range(len(stages)), key=lambda index: stages[index])
    share = 100 * tasks * stages[slowest] / time
    results = [
        exact(METHOD, "time, pipelined", time, "s", inputs, "Eq. 12"),
        exact(METHOD, "time, one stage after another", serial, "s", inputs, "sum of the stages x tasks"),
        exact(METHOD, "benefit of the pipeline", serial / time, "x", inputs, "Eq. 12"),
        exact(METHOD, f"utilisation of stage {slowest + 1}, the slowest", share, "%", inputs, "Eq. 12"),
    ]
    if now is not None:
        require_positive(now=now)
        results.append(exact(METHOD, "benefit over today", now / time, "x", {**inputs, "now (s)": now}, "section 10.2"))
    return results
