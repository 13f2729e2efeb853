"""SSI's closed loop, and the penalties that follow from published benefits by replaying it (sections 5.5 to 7.6).

Section numbers refer to "Hardware Evaluation Analytical Modeling and Node Simulation: Benefits of Tighter GPU
Integration" (ECP-HIHE01-35, 2021), "the report".
"""

from __future__ import annotations

from weft.model.program import COPY, UP, Call, Program, Work, program_of
from weft.model.replay import benefits
from weft.model.replaying import Scenario, replay
from weft.model.result import ModelError, require_positive


def closed_loop(calls: int, kernel_seconds: float, copy_bytes: float, bandwidth: float, latency: float) -> Program:
    """SSI's workload (section 5.6): a copy to the device followed by a kernel on the data, `calls` times in sequence.

    `latency` is the traced latency, which a scenario can replace.
    """
    require_positive(calls=calls, bandwidth=bandwidth)
    copy_seconds = copy_bytes / bandwidth
    work, thread = [], []
    for k in range(calls):
        work.append(Work(0, copy_seconds, True, 0.0, latency, latency, copy_bytes, UP, COPY))
        work.append(Work(0, kernel_seconds))
        thread.append(Call(0.0, 0.0, (2 * k, 2 * k + 1), (0.0, 0.0), (2 * k + 1,)))
    total = calls * (latency + copy_seconds + kernel_seconds)
    return program_of([thread], work, [range(2 * calls)], total, latency, bandwidth)


def propagation_penalty(benefit: float, current: float = 3.0, longest: float = 50.0) -> float:
    """The penalty that follows from a published benefit (sections 5.6, 7.6), by replaying SSI's closed loop.

    `benefit` is the duration at propagation setting `current` over that at setting 0; the penalty is the duration at
    `longest` over that at `current`. The report prints only the settings (0, 3, 50), so the cost of a call is derived
    from the benefit.
    """
    require_positive(benefit=benefit, current=current, longest=longest)
    if benefit < 1:
        raise ModelError(f"benefit is {benefit}, but must be at least 1: a shorter link cannot be slower")
    source = closed_loop(100, 1.0, 0.0, 1.0, benefit - 1.0)
    return benefits(source, longest / current)[1].value


def propagation_setting(benefit: float, penalty: float, longest: float = 50.0) -> float:
    """The current setting for which a published benefit and penalty agree; the inverse of `propagation_penalty`."""
    require_positive(benefit=benefit, penalty=penalty, longest=longest)
    if penalty * benefit <= 1:
        raise ModelError(
            f"benefit {benefit:g} and penalty {penalty:g} contradict each other: a longer link would be faster"
        )
    return longest * (benefit - 1) / (penalty * benefit - 1)


def latency_penalty(benefit: float, base: float, target: float, apart: float) -> float:
    """The penalty of latency `apart` over `base` (s), from the benefit of `target` over `base` (sections 5.5, 7.5).

    Replays a closed loop whose cost per call is derived from the benefit.
    """
    require_positive(benefit=benefit, base=base, target=target, apart=apart)
    share = (1 - 1 / benefit) / (1 - target / base)  # share of latency in the time at `base`
    if not 0 <= share < 1:
        raise ModelError(f"no share of latency in the run time gives a benefit of {benefit:g}")
    if share == 0:
        return 1.0
    source = closed_loop(100, base * (1 / share - 1), 0.0, 1.0, base)
    at = {latency: replay(source, Scenario(latency=latency)).seconds for latency in (base, apart)}
    return at[apart] / at[base]
