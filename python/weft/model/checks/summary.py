"""Checks of the report's section 11, the summary of its Table 13."""

from __future__ import annotations

from weft.model.ledger import REPRODUCES, Entry, Outcome, check, claim_of, holds, judge, numbers, uncovered
from weft.model.result import Result, exact, half_unit
from weft.model.table13 import count_at_least, median

LEDGER = "gpu-integration"


@check(LEDGER, "SUM-INT", method="table13", equation="section 11.1")
def integration(entry: Entry) -> Outcome:
    """Half of the applications gain at least 1.3x, and a third at least 1.9x."""
    half, third = (count_at_least(entry.column(), float(n)) for n in numbers(entry.claimed)[:2])
    n = len(entry.column())
    return holds(2 * half >= n and 3 * third >= n, f"{half}/{n} >= 1.3x, {third}/{n} >= 1.9x")


@check(LEDGER, "SUM-DIS-MED", method="table13", equation="section 11.3")
def disaggregation(entry: Entry) -> Result:
    return exact("table13", "median", median(entry.column()), "x", {}, "section 11.3")


@check(LEDGER, "SUM-DIS-5X", method="table13", equation="section 11.3")
def beyond_five(entry: Entry) -> Result:
    share = 100 * count_at_least(entry.column(), 5.0, strictly=True) / len(entry.column())
    return exact("table13", "share", share, "%", {}, "section 11.3")


@check(LEDGER, "SUM-DIS-10PCT", method="table13", equation="section 11.3")
def below_ten_percent(entry: Entry) -> Result:
    """The number of applications below 1.10, as printed and within the rounding of the printed values."""
    limit = 1.10
    surely = sum(x + half_unit(str(x)) <= limit for x in entry.column())
    perhaps = sum(x - half_unit(str(x)) < limit for x in entry.column())
    value = sum(x < limit for x in entry.column())
    return Result("table13", "applications", value, "", surely, perhaps, {}, "section 11.3", "input rounding")


@check(LEDGER, "SUM-GG", method="table13", equation="section 11.4")
def gpu_gpu(entry: Entry) -> Outcome:
    """The median, and the statement that two applications exceed 1.25x."""
    beyond = count_at_least(entry.column(), float(numbers(entry.claimed)[1]), strictly=True)
    middle = exact("table13", "median", median(entry.column()), "x", {}, "section 11.4")
    same = judge(claim_of(numbers(entry.claimed)[0]), middle) == REPRODUCES
    return holds(same and beyond == 2, f"median {middle.text}, {beyond} beyond")


@check(LEDGER, "SUM-RATIO", method="table13", equation="section 11.2")
def ratio(entry: Entry) -> list[Result]:
    few = len(entry.column()) - count_at_least(entry.column(), 2.0, strictly=True)
    return [
        exact("table13", "applications", len(entry.column()), "", {}, "section 11.2"),
        exact("table13", "one or two cores", 100 * few / len(entry.column()), "%", {}, "section 11.2"),
    ]


@check(LEDGER, "SUM-N", method="table13", equation="section 11")
def applications(entry: Entry) -> Result:
    return exact("table13", "rows", len(entry.other("SUM-DIS-MED").column()), "", {}, "section 11")


uncovered(
    LEDGER, "BYFL", why="the report prints neither the constants t nor the counts n of Eq. 8; use `weft model roofline`"
)
