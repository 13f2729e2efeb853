"""Checks of the report's sections 4.4.2, 4.8.4, 9.2 and 10: transfers, pipelines, memory divergence."""

from __future__ import annotations

from weft.model import divergence, pipeline
from weft.model import link as method
from weft.model.ledger import (
    Claim,
    Entry,
    Outcome,
    check,
    claim_of,
    claims,
    compare,
    consistent,
    holds,
    numbers,
    own,
)
from weft.model.result import Result, exact, rounded_result

LEDGER = "gpu-integration"
KIB, MIB, GIB = 2**10, 2**20, 2**30
SLOT = method.PcieLink(generation=3, lanes=16, payload=256, read_request=512)


def kibibytes(text: str) -> float:
    """A text such as '1.3 KiB' in bytes."""
    return float(numbers(text)[0]) * KIB


@check(LEDGER, "CXL-0.6003", method="link", equation="Eqs. 9, 11")
def relative_bandwidth(entry: Entry) -> Result:
    return rounded_result("link", "share", "", {"ratio": entry.text("rel")}, lambda ratio: 1 / ratio, "Eqs. 9, 11")


@check(LEDGER, "CXL-0.08", method="link", equation="Eq. 10, section 10.2")
def offloaded_cache_line(entry: Entry) -> Result:
    value = method.offload_gain(method.CACHE_LINE, 1e-9 * entry.value("cache_ns"))
    return exact("link", "gain", 1e6 * value, "µs", entry.named, "Eq. 10, section 10.2")


@check(LEDGER, "CXL-2X2", method="link", equation="Eqs. 9 to 11")
def two_crossovers(entry: Entry) -> Outcome:
    penalty = entry.value("penalty")
    wire, startup = method.from_crossovers(kibibytes(entry.text("x1")), kibibytes(entry.text("x2")), penalty)
    size = method.REPORT_RATIO_BYTES
    ratio = method.cxl_bandwidth_time(size, wire, penalty) / method.pcie_time(size, wire, startup)
    return own("INFERRED", entry, [wire.bytes_per_second / 1e9, 1e9 * startup, ratio])


def overtaken(entry: Entry, lines: bool) -> Outcome:
    """The size at which PCIe overtakes a CXL model, with t_s from the ratio that the report prints."""
    startup = method.report_startup(SLOT)

    def cxl(size: float) -> float:
        return method.cxl_line_time(size) if lines else method.cxl_bandwidth_time(size, SLOT)

    size = method.crossover(cxl, lambda n: method.pcie_time(n, SLOT, startup))
    return own("INFERRED", entry, [size / KIB])


@check(LEDGER, "CXL-X1", method="link", equation="Eqs. 9, 10")
def model_1_overtaken(entry: Entry) -> Outcome:
    return overtaken(entry, lines=True)


@check(LEDGER, "CXL-X2", method="link", equation="Eqs. 9, 11")
def model_2_overtaken(entry: Entry) -> Outcome:
    return overtaken(entry, lines=False)


@check(LEDGER, "CXL-BN", method="link", equation="b_n of Eq. 9")
def pcie_bandwidth(entry: Entry) -> Outcome:
    sizes = [float(n) for n in numbers(entry.claimed)][:3]
    sizes[2] *= MIB
    return own("INFERRED", entry, [SLOT.bandwidth(n) / 1e9 for n in sizes])


@check(LEDGER, "CXL-1.6GiB", method="pipeline", equation="bytes of Fig. 58")
def two_sizes(entry: Entry) -> Outcome:
    decimal, binary = (claim_of(n) for n in numbers(entry.claimed)[:2])
    return consistent(
        [
            Claim(f"{decimal.text} GB", 1e9 * decimal.low, 1e9 * decimal.high),
            Claim(f"{binary.text} GiB", GIB * binary.low, GIB * binary.high),
        ]
    )


# --- pipelines -----------------------------------------------------------------------------------------------------

DEPTH, TASKS = 3, 99  # section 10.2: "The value of n = 99", "d = 3"


@check(LEDGER, "ORNL-7.163", method="pipeline", equation="Eq. 12")
def pipelined(entry: Entry) -> Result:
    def time(stage: float) -> float:
        return pipeline.balanced_time(stage, DEPTH, TASKS)

    return rounded_result("pipeline", "t_app", "s", {"stage": entry.text("t")}, time, "Eq. 12")


@check(LEDGER, "ORNL-7.62", method="pipeline", equation="n t_kernel")
def kernels_in_all(entry: Entry) -> Result:
    tasks = int(entry.value("n"))

    def time(stage: float) -> float:
        return pipeline.serial_time([1e-3 * stage], tasks)

    return rounded_result("pipeline", "kernels", "s", {"stage": entry.text("t_kernel_ms")}, time, "n t_kernel")


@check(LEDGER, "ORNL-KERNELTIME", method="pipeline", equation="t_kernel")
def two_kernel_times(entry: Entry) -> Outcome:
    first, second = (claim_of(n) for n in numbers(entry.claimed)[:2])
    return consistent([Claim(f"{first.text} ms", 1e-3 * first.low, 1e-3 * first.high), second])


def by_speedup(entry: Entry) -> tuple[float, float]:
    """The bounds of T_total that follow from the speed-up by the pipeline (section 10.2)."""
    time = entry.other("ORNL-1.48").value("t_pipe")
    claim = claims(entry.other("ORNL-1.48").claimed)[0]
    return claim.low * time, claim.high * time


def by_penalty(entry: Entry) -> list[tuple[float, float]]:
    """The bounds of T_total by Eq. 13, for the printed FPGA time and for 99 kernels as in Eq. 12."""
    inputs = entry.other("ORNL-1.28")
    claim = claims(inputs.claimed)[0]
    gpu = inputs.value("T_GPU")
    fpga = [inputs.value("T_FPGA"), pipeline.serial_time([entry.other("ORNL-7.163").value("t")], TASKS)]
    return [(pipeline.implied_total(claim.low, [gpu, f]), pipeline.implied_total(claim.high, [gpu, f])) for f in fpga]


@check(LEDGER, "ORNL-1.48", method="pipeline", equation="section 10.2")
def implied_by_speedup(entry: Entry) -> Outcome:
    return own("NOT-REPRODUCIBLE", entry, by_speedup(entry))


@check(LEDGER, "ORNL-1.28", method="pipeline", equation="Eq. 13")
def implied_by_penalty(entry: Entry) -> Outcome:
    (a, b), (c, d) = by_penalty(entry)
    stage = entry.other("ORNL-7.163").value("t")
    return own("NOT-REPRODUCIBLE", entry, [a, b, entry.value("T_FPGA"), c, d, TASKS, stage])


@check(LEDGER, "ORNL-1.28-VS-1.48", method="pipeline", equation="Eqs. 12, 13")
def two_totals(entry: Entry) -> Outcome:
    low, high = by_speedup(entry)
    speedup = Claim(f"{low:.2f}-{high:.2f} s by 1.48x", low, high)
    found = [consistent([speedup, Claim(f"{a:.2f}-{b:.2f} s by 1.28x", a, b)]) for a, b in by_penalty(entry)]
    # Consistent if either interpretation of the FPGA's time is.
    best = min(found, key=lambda o: o.verdict != "REPRODUCES")
    return Outcome(best.verdict, "; ".join(o.computed for o in found))


@check(LEDGER, "ORNL-SEVENTH", method="link", equation="Eq. 10")
def slowest_transfer(entry: Entry) -> Result:
    size = float(numbers(entry.text("chunk"))[0]) * MIB
    transfer = method.cxl_line_time(size, 1e-9 * entry.value("cache_ns"))
    inputs = {"kernel": entry.text("kernel_ms")}
    return rounded_result("link", "ratio", "x", inputs, lambda kernel: 1e-3 * kernel / transfer, "Eq. 10")


@check(LEDGER, "ORNL-PCIE-UTIL", method="link", equation="bytes / (time x wire)")
def wire_used(entry: Entry) -> Result:
    size, milliseconds = numbers(entry.text("read"))

    def percent(time: float) -> float:
        return 100 * float(size) * MIB / (1e-3 * time) / SLOT.physical

    return rounded_result("link", "share", "%", {"time": milliseconds}, percent, "bytes / (time x wire)")


@check(LEDGER, "ORNL-99000", method="profile", equation="runs x transfers")
def transfers(entry: Entry) -> Outcome:
    counts = [entry.value("runs") * entry.value(k) for k in ("writes", "reads")]
    results = [exact("profile", "transfers", n, "", entry.named, "runs x transfers") for n in counts]
    # Counts are exact: 99,000 is not 98,500 to 99,500.
    published = [Claim(n, float(n), float(n)) for n in numbers(entry.claimed)]
    return compare(published, results)


@check(LEDGER, "ORNL-115x16", method="profile", equation="reads x size")
def read_back(entry: Entry) -> Outcome:
    size = entry.value("reads") * entry.value("MiB") * MIB
    said = claim_of(numbers(entry.claimed)[0])
    whole = Claim(f"{entry.text('reads')} x {entry.text('MiB')} MiB = {size / 1e9:.2f} GB", size, size)
    return consistent([Claim(f"{said.text} GB", 1e9 * said.low, 1e9 * said.high), whole])


# --- memory divergence ---------------------------------------------------------------------------------------------

REASONABLY_CLOSE = 0.25  # a generous reading of "reasonably close"; the errors are far above it or far below


@check(LEDGER, "MDM-ERR", method="divergence", equation="Eq. 7, Table 1")
def ipc_errors(entry: Entry) -> Outcome:
    errors = {app: divergence.relative_error(ipc, model) for app, (_, ipc, model) in entry.rows().items()}
    text = ", ".join(f"{app} {100 * e:+.0f} %" for app, e in errors.items())
    return holds(all(abs(e) <= REASONABLY_CLOSE for e in errors.values()), text)


V100_MULTIPROCESSORS = 80  # section 2.1


@check(LEDGER, "MDM-TO-TIME", method="divergence", equation="section 4.4.2")
def implied_clocks(entry: Entry) -> Outcome:
    """The clock rate that would turn the instructions and IPC of Table 1 into the times of Table 7."""
    clocks = []
    for app, (count, measured, modelled) in entry.rows("Table1").items():
        seconds = 1e-6 * entry.rows("Table7")[app][1]
        for ipc, sms in ((measured, V100_MULTIPROCESSORS), (modelled, V100_MULTIPROCESSORS), (modelled, 1)):
            clocks.append(divergence.implied_clock(count, ipc, sms, seconds) / 1e9)
    # The numbers in "80 SM" and "1 SM" precede those of the applications.
    return own("NOT-REPRODUCIBLE", entry, clocks, picked=slice(-len(clocks), None))
