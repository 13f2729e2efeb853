"""Checks of the report's sections 5.1 to 5.3, 7.1 to 7.3 and 8.1 to 8.3, and of its Tables 2 to 5, 8, 9, 11 and 12."""

from __future__ import annotations

import itertools
import math

from weft.model import integration as method
from weft.model.ledger import (
    PARTIAL,
    Claim,
    Entry,
    Outcome,
    check,
    claim_of,
    compare,
    consistent,
    holds,
    numbers,
    own,
)
from weft.model.result import Result, exact, half_unit, rounded_result

LEDGER = "gpu-integration"
EQUATION = "Eqs. 3, 4"
TIGHTER = 10.0  # sections 5 and 7
LOOSER = 0.1


def share_of(inputs: dict[str, str], lambda_: float, quantity: str) -> Result:
    """The benefit or penalty for printed percentages of the run time; `launch` is control, the others are data."""

    def value(launch: float = 0.0, uvm: float = 0.0, memcpy: float = 0.0) -> float:
        terms = method.terms_of_total(100.0, 0.0, 0.0, uvm + memcpy, launch)
        function = method.benefit if lambda_ > 1 else method.penalty
        return function(terms, lambda_, lambda_)

    return rounded_result("integration", quantity, "x", inputs, value, EQUATION)


@check(LEDGER, "AMR-INT-*", method="integration", equation=EQUATION)
def amrex_integration(entry: Entry) -> Result:
    return share_of({k: entry.text(k) for k in entry.named}, TIGHTER, "benefit")


@check(LEDGER, "AMR-DIS-*", method="integration", equation=EQUATION)
def amrex_disaggregation(entry: Entry) -> Result:
    return share_of({k: entry.text(k) for k in entry.named}, LOOSER, "penalty")


def changed(entry: Entry, names: dict[str, str], lambda_data: float, lambda_control: float) -> Result:
    """Eqs. 3 and 4 for printed terms; `names` maps t_cg_data, t_cg_control and t_total to the ledger's names."""
    inputs = {ours: entry.text(theirs) for ours, theirs in names.items()}
    total = inputs.pop("t_total")
    return method.printed_coupling(inputs, lambda_data, lambda_control, t_total=total)


@check(LEDGER, "BGW-EPS-INT*", "BGW-EPS-DIS*", method="integration", equation=EQUATION)
def berkeleygw_epsilon(entry: Entry) -> Result:
    # The total is the last number in the text that says which one was used.
    total = numbers(entry.text("basis"))[-1]
    terms = {"t_cg_control": entry.text("t_CGcontrol"), "t_cg_data": entry.text("t_CGdata")}
    return method.printed_coupling(terms, entry.value("lam"), entry.value("lam"), t_total=total)


@check(LEDGER, "BGW-SIG-INT", "BGW-SIG-DIS", method="integration", equation=EQUATION)
def berkeleygw_sigma(entry: Entry) -> Result:
    names = {"t_cg_control": "ctrl", "t_cg_data": "data", "t_total": "total"}
    return changed(entry, names, entry.value("lam"), entry.value("lam"))


@check(LEDGER, "BGW-EPS-DATAONLY", method="integration", equation=EQUATION)
def data_alone(entry: Entry) -> Result:
    return as_percent(changed(entry, {"t_cg_data": "t_CGdata", "t_total": "t_total"}, entry.value("lam"), 1.0))


def as_percent(factor: Result) -> Result:
    """A factor as a percentage of change: 1.12x as 12 %."""
    low, value, high = (100 * (x - 1) for x in (factor.low, factor.value, factor.high))
    return Result(
        factor.method, factor.quantity, value, "%", low, high, factor.inputs, factor.equation, factor.range_is
    )


@check(LEDGER, "GTCP-INT", method="integration", equation=EQUATION)
def gtcp_integration(entry: Entry) -> Result:
    return changed(entry, {"t_cg_data": "t_CGdata", "t_total": "total"}, entry.value("lam"), 1.0)


@check(LEDGER, "GTCP-DIS", method="integration", equation=EQUATION)
def gtcp_disaggregation(entry: Entry) -> Result:
    return changed(entry, {"t_cg_data": "data", "t_total": "total"}, LOOSER, 1.0)


@check(LEDGER, "GTCP-DIS-T13", method="integration", equation=EQUATION)
def gtcp_text_and_table(entry: Entry) -> Outcome:
    computed = gtcp_disaggregation(entry.other("GTCP-DIS"))
    text, table = (claim_of(n) for n in numbers(entry.claimed)[:2])
    return consistent([text, table, Claim(computed.text, computed.low, computed.high)])


# Table 5 prints the total time of all launches, their number, and the mean time, so that the total is known with two
# different roundings.
LAUNCHES = 22104
LAUNCH_MILLISECONDS = "0.01"


@check(LEDGER, "GTCP-LAT100", method="integration", equation=EQUATION)
def gtcp_latency(entry: Entry) -> Result:
    total, factor = entry.value("total"), entry.value("factor")

    def percent(launch: float) -> float:
        return 100 * (method.penalty(method.terms_of_total(total, 0.0, 0.0, 0.0, launch), 1.0, 1 / factor) - 1)

    by_sum = rounded_result("integration", "", "%", {"launch": entry.text("cudaLaunchKernel_s")}, percent, EQUATION)
    by_mean = rounded_result(
        "integration", "", "%", {"mean": LAUNCH_MILLISECONDS}, lambda mean: percent(1e-3 * mean * LAUNCHES), EQUATION
    )
    low, high = min(by_sum.low, by_mean.low), max(by_sum.high, by_mean.high)
    return Result("integration", "slowdown", by_sum.value, "%", low, high, entry.named, EQUATION, "input rounding")


@check(LEDGER, "GTCP-LAT10", method="integration", equation=EQUATION)
def gtcp_lower_latency(entry: Entry) -> Result:
    terms = {"t_cg_control": entry.text("cudaLaunchKernel_s")}
    total = entry.other("GTCP-LAT100").text("total")
    return as_percent(method.printed_coupling(terms, 1.0, TIGHTER, t_total=total))


# --- the profiles' own arithmetic ------------------------------------------------------------------------------------


def rounding_of(values: list[float]) -> float:
    """The largest possible difference between the sum of printed numbers and the printed sum: half a unit each."""
    return math.fsum(half_unit(str(v)) for v in values)


@check(LEDGER, "BGW-EPS-SUM", method="integration", equation="Eq. 3")
def epsilon_terms(entry: Entry) -> Outcome:
    terms = method.Terms(*(entry.value(k) for k in ("t_CPU", "t_GPU", "t_MPI", "t_CGdata", "t_CGcontrol")))
    slack = rounding_of([entry.value(k) for k in list(entry.named)[:-1]])
    summed = Claim(f"{terms.t_total:.2f} s", terms.t_total - slack, terms.t_total + slack)
    return consistent([claim_of(entry.text("t_total")), summed])


@check(LEDGER, "BGW-SIG-SUM", method="integration", equation="Eq. 3")
def sigma_terms(entry: Entry) -> Result:
    cpu, gpu, mpi, data, control = (entry.value(k) for k in ("cpu", "t_GPU", "mpi", "data", "ctrl"))
    terms = method.Terms(cpu, gpu, mpi, data, control)
    return exact("integration", "t_total", terms.t_total, "s", entry.named, "Eq. 3")


@check(LEDGER, "GTCP-SUM", method="integration", equation="Eq. 3")
def gtcp_terms(entry: Entry) -> Result:
    cpu, gpu, mpi, data = (entry.value(k) for k in ("t_CPU", "t_GPU", "t_MPI", "t_CGdata"))
    terms = method.Terms(cpu, gpu, mpi, data, 0.0)
    return exact("integration", "t_total", terms.t_total, "s", entry.named, "Eq. 3")


@check(LEDGER, "BGW-EPS-GPUROWS", method="profile", equation="sum of the rows")
def epsilon_kernels(entry: Entry) -> Outcome:
    total = math.fsum(entry.values("rows"))
    published = claim_of(numbers(entry.claimed)[0])
    if total < published.low - rounding_of(entry.values("rows")):
        return own(PARTIAL, entry, [total], picked=slice(0, 1))
    return compare([published], [exact("profile", "t_GPU", total, "s", entry.named, "sum of the rows")])


@check(LEDGER, "BGW-EPS-CTRLROWS", method="profile", equation="sum of the rows")
def epsilon_control(entry: Entry) -> Result:
    return exact("profile", "t_CGcontrol", math.fsum(entry.values("rows")), "s", {}, "sum of the rows")


@check(LEDGER, "GTCP-GPUROWS", method="profile", equation="sum of the rows")
def gtcp_kernels(entry: Entry) -> list[Result]:
    return [
        exact("profile", "t_GPU", math.fsum(entry.values("rows")), "s", {}, "sum of the rows"),
        exact("profile", "calls", math.fsum(entry.values("calls")), "calls", {}, "sum of the rows"),
    ]


def quotient(entry: Entry, above: str, below: str, factor: float, unit: str) -> Result:
    """`factor` times one printed number over another."""
    inputs = {"above": entry.text(above), "below": entry.text(below)}
    return rounded_result("profile", unit, unit, inputs, lambda above, below: factor * above / below, "quotient")


@check(LEDGER, "BGW-EPS-AVG-HOSTALLOC", method="profile", equation="time / calls")
def host_allocations(entry: Entry) -> Result:
    calls = entry.value("calls")
    inputs = {"time": entry.text("time_s")}
    return rounded_result("profile", "mean", "ms", inputs, lambda time: 1e3 * time / calls, "time / calls")


@check(LEDGER, "BGW-EPS-MEMMGMT", method="profile", equation="sum of the shares")
def memory_management(entry: Entry) -> Result:
    inputs = {k: entry.text(k) for k in entry.named}
    return rounded_result("profile", "share", "%", inputs, lambda **s: math.fsum(s.values()), "sum of the shares")


@check(LEDGER, "GTCP-MALLOC-PCT", method="profile", equation="t_malloc / t_total")
def gtcp_allocations(entry: Entry) -> Result:
    return quotient(entry, "t_malloc", "total", 100, "%")


@check(LEDGER, "SW4-146", method="profile", equation="t_CPU / t_GPU")
def sw4lite(entry: Entry) -> Result:
    return quotient(entry, "cpu", "gpu", 1, "x")


@check(LEDGER, "LAGHOS-T8", "LAGHOS-T9", method="profile", equation="sum of the kernels")
def laghos(entry: Entry) -> Outcome:
    """Whether some choice among the four kernels adds up to the printed total for every data set."""
    rows = list(entry.rows().values())

    def off(chosen: tuple[int, ...], row: list[float]) -> float:
        parts = [row[i] for i in chosen]
        slack = sum(0.005 for _ in parts) + half_unit(str(row[-1]))
        return abs(math.fsum(parts) - row[-1]) - slack

    subsets = [s for n in range(1, 5) for s in itertools.combinations(range(4), n)]
    worst = {s: max(off(s, row) for row in rows) for s in subsets}
    best = min(subsets, key=worst.__getitem__)
    sums = ", ".join(f"{math.fsum(row[i] for i in best):.2f}" for row in rows)
    return holds(worst[best] <= 1e-9, f"columns {[i + 1 for i in best]}: {sums}")


# --- GPU-GPU integration -------------------------------------------------------------------------------------------


def acceleration(entry: Entry) -> float:
    """The acceleration of section 8.1: the links of 8 GPUs over the measured bandwidth between nodes."""
    link = entry.other("GG-8.3")
    return method.off_node_acceleration(link.value("bw"), int(link.value("gpus")), link.value("measured"))


@check(LEDGER, "GG-8.3", method="integration", equation="section 8.1")
def fatter_node(entry: Entry) -> Result:
    return exact("integration", "acceleration", acceleration(entry), "x", entry.named, "section 8.1")


@check(LEDGER, "GG-CASTRO", "GG-MFIX", "GG-PELEC", "GG-WARPX", method="integration", equation="section 8.1, Table 12")
def amrex_nodes(entry: Entry) -> Result:
    faster = acceleration(entry)

    def speedup(comm: float, p2p: float, off: float) -> float:
        return method.point_to_point_speedup(comm / 100, p2p / 100, off / 100, faster)

    inputs = {k: entry.text(k) for k in ("comm", "p2p", "off")}
    return rounded_result("integration", "benefit", "x", inputs, speedup, "section 8.1, Table 12")


RANKS, RANKS_PER_NODE, FASTER = 16, 8, 2.0  # section 8.2: two nodes, with links inside a node twice as fast


def epsilon_runtime(entry: Entry, ranks_per_node: int) -> float:
    """The remaining run time of section 8.2, in percent."""
    shares = entry.other("BGW-GG-97.1")
    coll, p2p = shares.value("coll") / 100, shares.value("p2p") / 100
    return 100 * method.tree_runtime(coll, p2p, RANKS, ranks_per_node, FASTER)


@check(LEDGER, "BGW-GG-97.1", method="integration", equation="section 8.2")
def epsilon_trees(entry: Entry) -> Result:
    value = epsilon_runtime(entry, RANKS_PER_NODE)
    return exact("integration", "runtime left", value, "%", entry.named, "section 8.2")


@check(LEDGER, "BGW-GG-2.7", method="integration", equation="section 8.2")
def epsilon_gain(entry: Entry) -> Result:
    value = 100 * (100 / epsilon_runtime(entry, RANKS_PER_NODE) - 1)
    return exact("integration", "gain", value, "%", entry.named, "section 8.2")


@check(LEDGER, "BGW-GG-1.2", method="integration", equation="section 8.2")
def epsilon_one_node(entry: Entry) -> Result:
    value = 100 * (epsilon_runtime(entry, RANKS_PER_NODE) / epsilon_runtime(entry, RANKS) - 1)
    return exact("integration", "further gain", value, "%", entry.named, "section 8.2")


@check(LEDGER, "BGW-GG-1.04", method="integration", equation="section 8.2")
def epsilon_table(entry: Entry) -> Result:
    value = 100 / epsilon_runtime(entry, RANKS)
    return exact("integration", "benefit", value, "x", entry.named, "section 8.2")


def sigma_speedup(entry: Entry) -> Result:
    """The speed-up of section 8.2: on one node everything but barriers gets faster."""

    def speedup(bcast: float, wait: float) -> float:
        return method.accelerated((bcast + wait) / 100, FASTER)

    inputs = {k: entry.text(k) for k in ("bcast", "wait")}
    return rounded_result("integration", "benefit", "x", inputs, speedup, "section 8.2")


@check(LEDGER, "BGW-GG-SIG", method="integration", equation="section 8.2")
def sigma_gain(entry: Entry) -> Result:
    return as_percent(sigma_speedup(entry))


@check(LEDGER, "BGW-GG-SIG-T13", method="integration", equation="section 8.2")
def sigma_text_and_table(entry: Entry) -> Outcome:
    text, table = (claim_of(n) for n in numbers(entry.claimed)[:2])
    as_factor = Claim(f"{text.text} %", 1 + text.low / 100, 1 + text.high / 100)
    return consistent([as_factor, table])


@check(LEDGER, "BGW-MPI-SHARE", method="profile", equation="t_MPI / t_total")
def two_profiles(entry: Entry) -> Outcome:
    shares = [claim_of(part.rpartition(" ")[2]) for part in entry.claimed.split("%")[:-1]]
    return consistent(shares[:2], shares[2:])


@check(LEDGER, "GTCP-GG", method="integration", equation="section 8.3")
def gtcp_links(entry: Entry) -> Result:
    factor = entry.value("factor")
    inputs = {"mpi": entry.text("t_MPI"), "total": entry.text("total")}

    def speedup(mpi: float, total: float) -> float:
        return method.accelerated(mpi / total, factor)

    return rounded_result("integration", "benefit", "x", inputs, speedup, "section 8.3")
