"""Checks of SSI and AgoChart: sections 5.5, 5.6, 7.5 and 7.6 of the report."""

from __future__ import annotations

from weft.model import closed_loop
from weft.model.ledger import INCONSISTENT, Entry, Outcome, check, claim_of, claims, compare, holds, own, uncovered
from weft.model.result import rounded_result

LEDGER = "gpu-integration"
CASES = [f"SSI-LAW-{app}-{link}" for app in ("SW4Lite", "MiniVite", "QuickSilver", "Laghos") for link in (
    "NVLink2", "PCIe4")]  # fmt: skip
# The report prints 1.40 and 4, but the ledger's JSON has 1.4 and 4.0.
PRINTED = {"1.4": "1.40", "4.0": "4"}


def benefit(entry: Entry) -> str:
    text = entry.text("benefit")
    return PRINTED.get(text, text)


@check(LEDGER, *CASES, method="replay", equation="sections 5.6, 7.6")
def law(entry: Entry) -> Outcome:
    """The penalty that follows from the benefit, by replaying a closed loop with the three printed settings."""
    current, longest = entry.value("current_prop"), entry.value("max_prop")
    result = rounded_result(
        "replay", "penalty", "x", {"benefit": benefit(entry)},
        lambda benefit: closed_loop.propagation_penalty(benefit, current, longest), "sections 5.6, 7.6",
    )  # fmt: skip
    (claim,) = claims(entry.claimed)
    return compare([claim_of(PRINTED.get(claim.text, claim.text))], [result])


@check(LEDGER, "SSI-LAW-FIT", method="replay", equation="sections 5.6, 7.6")
def settings(entry: Entry) -> Outcome:
    """The current setting that each printed pair of benefit and penalty implies."""
    values = []
    for key in CASES:
        case = entry.other(key)
        (claim,) = claims(case.claimed)
        values.append(closed_loop.propagation_setting(case.value("benefit"), claim.middle, case.value("max_prop")))
    return own("INFERRED", entry, values, picked=slice(0, len(CASES)))


@check(LEDGER, "SSI-16X", method="replay", equation="section 7.6")
def longest(entry: Entry) -> Outcome:
    factor = entry.value("max") / entry.value("current")
    (claim,) = claims(entry.claimed)
    return holds(factor >= claim.middle, f"{factor:.3f}x")  # "up to"


@check(LEDGER, "AGO-LIN-*", method="replay", equation="sections 5.5, 7.5")
def linear(entry: Entry) -> Outcome:
    """The penalty of ten times the latency, from the benefit of a tenth of it, by replaying a closed loop."""
    base, target, apart = (entry.value(n) * 1e-6 for n in ("base_us", "target_us", "disagg_us"))
    value = closed_loop.latency_penalty(entry.value("integration"), base, target, apart)
    (claim,) = claims(entry.claimed)
    if value > 2 * claim.middle:
        return Outcome(INCONSISTENT, f"{value:.3g}x", value / claim.middle - 1)
    return own("CONSISTENCY-ONLY", entry, [value], picked=slice(0, 1))


uncovered(
    LEDGER,
    "SSI-ABSOLUTE",
    why="transmission delay, lanes and queue sizes are not published; `weft model replay` computes it from a trace",
)
uncovered(LEDGER, "SSI-INFER-*", why="two constants fitted by the ledger's author; the paper publishes neither")
uncovered(LEDGER, "AGO", why="needs the OpenCL traces of HACC, LAMMPS and OpenMC; use `weft model replay` for your own")
