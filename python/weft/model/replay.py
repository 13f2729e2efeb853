"""Discrete-event replay of a trace with another coupling of host and device; combines the report's SSI and AgoChart.

Section and figure numbers refer to "Hardware Evaluation Analytical Modeling and Node Simulation: Benefits of Tighter
GPU Integration" (ECP-HIHE01-35, 2021), "the report": 4.4 and 5.6 (SSI), 4.7, 5.5 and 8.5 (AgoChart).

A trace becomes a `Program`: ordered calls on each host thread with the time between them, and ordered work on each
device stream, connected by launches and waits. A replay keeps these dependencies and everything that the scenario does
not change, so that the scenario "as traced" reproduces the times of the trace.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.model.meetings import MessagePath
from weft.model.program import Program
from weft.model.rate import link_bandwidth_range
from weft.model.replaying import AS_TRACED, Outcome, Scenario, chain, replay
from weft.model.result import ModelError, Result, exact, require_positive
from weft.model.traced_program import program
from weft.traces.attribution import Terms

__all__ = ["AS_TRACED", "MessagePath", "Outcome", "Program", "Scenario", "benefits", "chain", "duration",
           "loose_and_tight", "many", "program", "replay", "surface"]  # fmt: skip

METHOD = "replay"
CONTRADICTS = 1.5  # factor between the speed-ups of a replay and of Eq. 4
LITTLE = 500_000  # with fewer replayed events than this, processes cost more time than they save


def _inputs(source: Program, scenario: Scenario) -> dict[str, object]:
    found: dict[str, object] = {
        "traced (s)": source.traced_seconds, "calls": len(source.calls), "pieces of device work": len(source.work),
        "traced latency (s)": source.latency, "traced bandwidth (B/s)": source.bandwidth,
    }  # fmt: skip
    if source.meetings:
        found["messages and collectives"] = len(source.meetings)
        found["traced message latency (s)"] = source.message_latency
        found["traced message bandwidth (B/s)"] = source.message_bandwidth
    for name, value in vars(scenario).items():
        if value != getattr(AS_TRACED, name):
            found[name] = value
    return found


def duration(source: Program, scenario: Scenario, outcome: Outcome | None = None) -> Result:
    """The replayed duration, with the range that follows from the range of the traced bandwidth.

    `outcome` is that of the scenario, if it has already been replayed, here and in the other functions.
    """
    value = (outcome or replay(source, scenario)).seconds
    equation = "discrete-event replay, report sections 4.4, 4.7"
    inputs = _inputs(source, scenario)
    if scenario.bandwidth is None or len(source.copies) < 2:
        return exact(METHOD, "duration", value, "s", inputs, equation)
    rates = link_bandwidth_range(source.copies)
    ends = [replay(replace(source, bandwidth=b), scenario).seconds for b in rates]
    low, high = min(value, *ends), max(value, *ends)
    return Result(METHOD, "duration", value, "s", low, high, inputs, equation, "95 % bootstrap of the traced bandwidth")


def benefits(
    source: Program, longest: float = 50 / 3, scenario: Scenario = AS_TRACED, outcome: Outcome | None = None
) -> list[Result]:
    """Benefit and penalty of section 5.6: durations alpha without latency, delta with the traced latency, and omega.

    The latency of omega is `longest` times that of delta.
    """
    require_positive(longest=longest)
    base = source.latency if scenario.latency is None else scenario.latency
    alpha, omega = (replay(source, replace(scenario, latency=base * factor)).seconds for factor in (0.0, longest))
    delta = (outcome or replay(source, scenario)).seconds
    require_positive(alpha=alpha)
    inputs = {**_inputs(source, scenario), "alpha (s)": alpha, "delta (s)": delta, "omega (s)": omega}
    return [
        exact(METHOD, "integration benefit, delta / alpha", delta / alpha, "x", inputs, "report section 5.6"),
        exact(METHOD, f"integration penalty, omega / delta (latency x{longest:.3g})", omega / delta, "x", inputs,
              "report section 5.6"),
    ]  # fmt: skip


def expected_gain(source: Program, terms: Terms, scenario: Scenario) -> float:
    """The speed-up by Eqs. 3 and 4: each term gets faster by the factor that the scenario applies to its parts."""
    faster = 1.0 if scenario.bandwidth is None or np.isinf(source.bandwidth) else source.bandwidth / scenario.bandwidth
    control = 1.0 if scenario.latency is None or source.latency <= 0 else scenario.latency / source.latency
    seconds = terms.t_cpu / scenario.cpu_speed + terms.t_gpu / scenario.gpu_speed + terms.t_mpi
    seconds += terms.t_cg_data * faster + terms.t_cg_control * control
    return terms.t_total / seconds if seconds > 0 else np.inf


def contradiction(source: Program, terms: Terms, scenario: Scenario, outcome: Outcome) -> str | None:
    """A note if the speed-up of a replay and that by Eq. 4 differ by more than CONTRADICTS, with the reason.

    Eq. 4 adds up terms, so that no work overlaps with other work. Both agree if the accelerated parts contribute as
    much to the longest chain of the replay as their terms say.
    """
    known = {name: getattr(scenario, name) for name in ("latency", "bandwidth", "gpu_speed", "cpu_speed")}
    if outcome.seconds <= 0 or scenario != replace(AS_TRACED, **known):
        return None  # Eq. 4 knows nothing of messages, queues and shared links
    if not source.work.launched.any():  # nor of traces without calls or without device work
        return None
    gain, expected = source.traced_seconds / outcome.seconds, expected_gain(source, terms, scenario)
    if max(gain, 1e-12) / expected <= CONTRADICTS and expected / max(gain, 1e-12) <= CONTRADICTS:
        return None
    less = (gain < expected) == (max(gain, expected) > 1)
    words = in_words(chain(source, outcome if less else replay(source)))
    reason = (
        f"the longest chain of the {'replayed' if less else 'traced'} run is {words}, and what Eq. 4 "
        f"{'changes' if less else 'keeps'} is hidden behind it"
    )
    return (
        f"the replay's speed-up of {gain:.3g} contradicts the {expected:.3g} of Eq. 4 (`weft model integration`): "
        f"{reason}"
    )


def in_words(parts: dict[str, float], most: int = 4) -> str:
    """The largest parts of a chain and their shares."""
    total = sum(parts.values())
    largest = sorted(parts.items(), key=lambda part: -part[1])[:most]
    return ", ".join(
        f"{name} ({share:.0%})" for name, value in largest if (share := value / max(total, 1e-300)) >= 0.01
    )


def loose_and_tight(
    source: Program, gpus: Sequence[int], latencies: Sequence[float]
) -> list[tuple[int, float, float, float]]:
    """The durations of section 8.5, Figs. 50 to 52: (GPUs, latency, seconds loosely coupled, seconds tightly coupled).

    Loosely coupled GPUs share one link; each receives its own commands and a share of the work. Tightly coupled GPUs
    act as one GPU that is faster by their number.
    """
    rows = []
    for count in gpus:
        for latency in latencies:
            base = Scenario(latency=latency, commands_on_link=True, lanes=1)
            loose = replay(source, replace(base, gpus=count)).seconds
            rows.append((count, latency, loose, replay(source, replace(base, gpu_speed=float(count))).seconds))
    return rows


_POOL_PROGRAM: Program | None = None


def _pool_start(source: Program) -> None:
    global _POOL_PROGRAM
    _POOL_PROGRAM = source


def _pool_run(scenario: Scenario) -> float:
    assert _POOL_PROGRAM is not None
    return replay(_POOL_PROGRAM, scenario).seconds


def many(
    source: Program,
    scenarios: Sequence[Scenario],
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[float]:
    """Durations (s) under many scenarios, computed by `processes` processes (default: one per core).

    Calls `progress(done, all)` after each scenario.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(processes or cores, len(scenarios))
    seconds: list[float] = []

    def take(results: Iterator[float]) -> list[float]:
        for value in results:
            seconds.append(value)
            if progress is not None:
                progress(len(seconds), len(scenarios))
        return seconds

    # Starting processes costs about a second, so small programs use them only on request.
    if processes is None and len(scenarios) * (len(source.calls) + len(source.work)) < LITTLE:
        workers = 1
    if workers <= 1:
        return take(replay(source, s).seconds for s in scenarios)
    # "spawn", because a fork would copy an initialised MPI library.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _pool_start, (source,)) as pool:
        return take(pool.map(_pool_run, scenarios))


def surface(
    source: Program,
    latencies: Sequence[float] | NDArray[np.float64],
    bandwidths: Sequence[float] | NDArray[np.float64],
    scenario: Scenario = AS_TRACED,
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float64]:
    """Durations (s) over latencies and bandwidths, of shape (latencies, bandwidths): Figs. 19 to 22 of the report."""
    if not len(latencies) or not len(bandwidths):
        raise ModelError("the surface needs at least one latency and one bandwidth")
    scenarios = [replace(scenario, latency=float(a), bandwidth=float(b)) for a in latencies for b in bandwidths]
    found = many(source, scenarios, processes, progress)
    return np.array(found).reshape(len(latencies), len(bandwidths))
