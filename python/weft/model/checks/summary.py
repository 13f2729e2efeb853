"""The report's section 11: what its Table 13 says in all."""

from __future__ import annotations

from weft.model.ledger import REPRODUCES, Entry, Outcome, check, claim_of, holds, judge, numbers, uncovered
from weft.model.result import Result, exact, half_unit
from weft.model.table13 import count_at_least, median

LEDGER = "gpu-integration"


@check(LEDGER, "SUM-INT", method="table13", equation="section 11.1")
def integration(entry: Entry) -> Outcome:
    """Half at least 1.3x, a third at least 1.9x."""
    half, third = (count_at_least(entry.inputs, float(n)) for n in numbers(entry.claimed)[:2])
    n = len(entry.inputs)
    return holds(2 * half >= n and 3 * third >= n, f"{half}/{n} >= 1.3x, {third}/{n} >= 1.9x")


@check(LEDGER, "SUM-DIS-MED", method="table13", equation="section 11.3")
def disaggregation(entry: Entry) -> Result:
    return exact("table13", "median", median(entry.inputs), "x", {}, "section 11.3")


@check(LEDGER, "SUM-DIS-5X", method="table13", equation="section 11.3")
def beyond_five(entry: Entry) -> Result:
    share = 100 * count_at_least(entry.inputs, 5.0, strictly=True) / len(entry.inputs)
    return exact("table13", "share", share, "%", {}, "section 11.3")


@check(LEDGER, "SUM-DIS-10PCT", method="table13", equation="section 11.3")
def below_ten_percent(entry: Entry) -> Result:
    """Those below 1.10, as printed and within the rounding of 'printed'."""
    limit = 1.10
    surely = sum(x + half_unit(str(x)) <= limit for x in entry.inputs)
    perhaps = sum(x - half_unit(str(x)) < limit for x in entry.inputs)
    value = sum(x < limit for x in entry.inputs)
    return Result("table13", "applications", value, "", surely, perhaps, {}, "section 11.3", "input rounding")


@check(LEDGER, "SUM-GG", method="table13", equation="section 11.4")
def gpu_gpu(entry: Entry) -> Outcome:
    """The median, and that two exceed 1.25x."""
    beyond = count_at_least(entry.inputs, float(numbers(entry.claimed)[1]), strictly=True)
    middle = exact("table13", "median", median(entry.inputs), "x", {}, "section 11.4")
    same = judge(claim_of(numbers(entry.claimed)[0]), middle) == REPRODUCES
    return holds(same and beyond == 2, f"median {middle.text}, {beyond} beyond")


@check(LEDGER, "SUM-RATIO", method="table13", equation="section 11.2")
def ratio(entry: Entry) -> list[Result]:
    few = len(entry.inputs) - count_at_least(entry.inputs, 2.0, strictly=True)
    return [
        exact("table13", "applications", len(entry.inputs), "", {}, "section 11.2"),
        exact("table13", "one or two cores", 100 * few / len(entry.inputs), "%", {}, "section 11.2"),
    ]


@check(LEDGER, "SUM-N", method="table13", equation="section 11")
def applications(entry: Entry) -> Result:
    return exact("table13", "rows", len(entry.other("SUM-DIS-MED").inputs), "", {}, "section 11")


uncovered(
    LEDGER, "BYFL", why="the report prints neither the t of Eq. 8 nor its counts n; 'roofline' computes it from yours"
)
