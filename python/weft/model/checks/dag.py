"""Checks of the sparse triangular solve (SpTRSV): sections 5.4, 7.4 and 8.4 of the report."""

from __future__ import annotations

from weft.model import dag
from weft.model.ledger import INCONSISTENT, REPRODUCES, Entry, Outcome, check, claims, own, uncovered
from weft.model.result import Result, exact, rounded_result

LEDGER = "gpu-integration"


def gpu(entry: Entry) -> dag.Gpu:
    return dag.Gpu.of(entry.value("bw") * 1e9)


@check(LEDGER, "SPTRSV-TB", method="dag", equation="section 8.4")
def blocks(entry: Entry) -> Result:
    value = entry.value("SM") * entry.value("warps") / entry.value("warps_per_block")
    return exact("dag", "thread blocks", value, "", {}, "section 8.4")


@check(LEDGER, "SPTRSV-BWLO", method="dag", equation="section 8.4")
def lower(entry: Entry) -> Result:
    return exact("dag", "lowest rate of a block", gpu(entry).low / 1e9, "GB/s", {}, "section 8.4")


@check(LEDGER, "SPTRSV-BWHI", method="dag", equation="section 8.4")
def upper(entry: Entry) -> Result:
    return exact("dag", "highest rate of a block", gpu(entry).high / 1e9, "GB/s", {}, "section 8.4")


@check(LEDGER, "SPTRSV-SN", method="dag", equation="section 8.4")
def saturating(entry: Entry) -> Result:
    v100 = gpu(entry)
    return exact("dag", "blocks that reach the peak", v100.peak / v100.high, "", {}, "section 8.4")


@check(LEDGER, "SPTRSV-PUT", method="dag", equation="section 5.4")
def put(entry: Entry) -> Result:
    return exact("dag", "put", entry.value("gpu_us") / entry.value("cpu_us"), "x", {}, "section 5.4")


@check(LEDGER, "SPTRSV-NVSHMEM", method="dag", equation="section 5.4")
def nvshmem(entry: Entry) -> Result:
    inputs = {"host": entry.text("cpu_us"), "sync": entry.text("sync_us")}
    factor = entry.value("lam")
    return rounded_result(
        "dag", "put", "x", inputs, lambda host, sync: dag.put_speedup(host, host + sync, factor), "section 5.4"
    )


@check(LEDGER, "SPTRSV-S1-3X", method="dag", equation="section 5.4")
def three_times(entry: Entry) -> Outcome:
    """The speed-up of a path is at most that of its messages between nodes."""
    (claim,) = claims(entry.claimed)
    bound = entry.value("nvshmem_speedup")
    return Outcome(
        INCONSISTENT if claim.middle > bound else REPRODUCES, f"at most {bound:g}x", claim.middle / bound - 1
    )


@check(LEDGER, "SPTRSV-DIS-IMPLIED", method="dag", equation="section 7.4")
def implied_share(entry: Entry) -> Outcome:
    """The share of messages in the run time, if only they get slower."""
    factor = entry.value("bw_factor")
    return own("CONSISTENCY-ONLY", entry, [(entry.value(name) - 1) / (factor - 1) for name in ("S1", "Li")])


uncovered(
    LEDGER,
    "SPTRSV-RESULTS",
    why="needs the two factored matrices and the curve of Fig. 18a; use `weft model dag FILE.mtx` for your own",
)
