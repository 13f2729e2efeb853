"""Rooflines: hipBone's Eq. 4, and the report's Eq. 8 with regular, irregular and transfer terms (section 4.6).

"The report" is ECP-HIHE01-35 (2021). The constants are measured by weft, given, or read from a file. The counts are
those of weft's own kernels (`weft.model.formulas`) or of any other code.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from weft.errors import reason
from weft.files import write_json
from weft.model import formulas
from weft.model.result import ModelError, Result, exact, require_finite, require_not_negative
from weft.record import Record

if TYPE_CHECKING:
    from weft.device import Device

METHOD = "roofline"
RANGE = "from indexed values sharing lines to one line each"
LINE = 128  # bytes; accesses with larger strides are irregular (section 4.6.1)


@dataclass(frozen=True)
class Constants:
    """The constants t of Eq. 8, in seconds per operation, byte streamed, irregular read of a line, and byte copied."""

    flop: float
    regular: float
    irregular: float = 0.0
    h2d: float = 0.0
    d2h: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            require_finite(**{f"t_{field.name}": value})
            if value < 0 or (value == 0 and field.name in ("flop", "regular")):
                raise ModelError(f"t_{field.name} is {value:g} s, but must be above zero")


@dataclass(frozen=True)
class Pattern:
    """The counts n of Eq. 8: operations, bytes streamed, irregular reads of one line each, bytes copied each way."""

    flops: float
    regular_bytes: float
    irregular_reads: float = 0.0
    h2d_bytes: float = 0.0
    d2h_bytes: float = 0.0

    def __post_init__(self) -> None:
        require_not_negative("give a count", **asdict(self))
        if not any(asdict(self).values()):
            raise ModelError("all counts are zero; at least one must be above zero")


def terms(pattern: Pattern, constants: Constants) -> dict[str, float]:
    """The five products of Eq. 8, in seconds."""
    return {
        "flop": constants.flop * pattern.flops,
        "regular": constants.regular * pattern.regular_bytes,
        "irregular": constants.irregular * pattern.irregular_reads,
        "h2d": constants.h2d * pattern.h2d_bytes,
        "d2h": constants.d2h * pattern.d2h_bytes,
    }


def gpu_time(pattern: Pattern, constants: Constants) -> float:
    """Eq. 8: T_GPU in seconds, the maximum of the time of computation and the time of all data movement."""
    found = terms(pattern, constants)
    return max(found["flop"], found["regular"] + found["irregular"] + found["h2d"] + found["d2h"])


def relative_performance(pattern: Pattern, constants: Constants, reference: Constants) -> float:
    """Performance with one memory relative to a reference memory (section 9.1: DDR only, relative to HBM only)."""
    return gpu_time(pattern, reference) / gpu_time(pattern, constants)


# --- constants -----------------------------------------------------------------------------------------------------


def of_rates(
    peak_flops: float, bandwidth: float, irregular: float = 0.0, h2d: float = 0.0, d2h: float = 0.0
) -> Constants:
    """The constants for given rates: FLOP/s, byte/s, seconds per irregular read, byte/s of copies (0: not used)."""
    for name, value in (("peak", peak_flops), ("bandwidth", bandwidth)):
        if not 0 < value < float("inf"):
            raise ModelError(f"{name} is {value:g}, but must be a finite rate above zero")
    return Constants(1 / peak_flops, 1 / bandwidth, irregular, 1 / h2d if h2d else 0.0, 1 / d2h if d2h else 0.0)


def measure(device: Device, precision: Literal["single", "double"] = "double") -> Constants:
    """Measures the constants of a device: FMA peak, hipBone's streaming kernel, pointer chasing and copies."""
    from weft import device as devices

    h2d, d2h = devices.measure_copies(device)
    return of_rates(
        devices.measure_peak(device, precision), devices.measure_bandwidth(device),
        devices.measure_irregular_read(device), h2d, d2h,
    )  # fmt: skip


def write(path: str | Path, constants: Constants, source: str) -> None:
    """Writes constants with their source."""
    write_json(path, {"source": source, "seconds": asdict(constants)})


def read(path: str | Path) -> Constants:
    """Reads constants that `write` wrote. Raises ModelError if the file is not valid."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        given = {k: float(v) for k, v in content["seconds"].items()}
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{path}: not a file of roofline constants as written by --save ({reason(error)})") from None
    known = [f.name for f in fields(Constants)]
    unknown = sorted(set(given) - set(known))
    if unknown or "flop" not in given or "regular" not in given:
        what = f"unknown constant '{unknown[0]}'" if unknown else "constant 'flop' or 'regular' is missing"
        raise ModelError(f"{path}: {what}; known: {', '.join(known)}")
    return Constants(**given)


# --- patterns of weft's own kernels ----------------------------------------------------------------------------------


def surface_dofs(size: formulas.Size) -> int:
    """The degrees of freedom on the surfaces of elements; only these are shared and read through indices."""
    return size.dofs - size.elements * (size.order - 1) ** 3


def poisson_iteration(size: formulas.Size, method: formulas.Method, *, lines: bool) -> Pattern:
    """The counts of a CG iteration of weft's Poisson solver.

    Contiguous accesses are regular; values on element surfaces are read through indices. With `lines`, consecutive
    values share lines of 128 bytes; without, each value takes a line of its own. The actual number is in between.
    """
    surface = surface_dofs(size)
    moved = formulas.weft_iteration_bytes(size, method).value
    reads = surface * size.word / LINE if lines else float(surface)
    return Pattern(formulas.iteration_flops(size).value, moved - surface * size.word, reads)


def run_pattern(record: Record) -> tuple[formulas.Size, formulas.Method]:
    """The size and the variants of a Poisson run, from its record."""
    try:
        case, choices, figures, machine = record["case"], record["choices"], record["figures"], record["machine"]
        if case["workload"] != "poisson":
            raise ModelError(
                f"the counts of workload '{case['workload']}' are not known; give --flops, --regular-bytes and so on"
            )

        def chosen(choice: str) -> str:
            return choice.partition(":")[0]  # without the reason that follows

        word = 4 if case["precision"] == "single" else 8
        size = formulas.Size(int(figures["elements"]), int(figures["order"]), int(figures["dofs"]), word)
        return size, formulas.Method(
            storage=case["storage"], geometry=chosen(choices["geometry"]), kernels=chosen(choices["kernels"]),
            algorithm=chosen(choices["algorithm"]), preconditioner=case["solver"]["preconditioner"],
            stored_elements=int(figures.get("elements_by_shape", {}).get("stored", 0)),
            ranks=int(machine["ranks"]), masked=case["boundary"] == "dirichlet",
            screened=case.get("screening", 0.0) != 0.0,
        )  # fmt: skip
    except (KeyError, TypeError) as error:
        raise ModelError(f"{error} is missing from the record; give the record of a finished run") from None


# --- results -------------------------------------------------------------------------------------------------------


def eq4(order: int, peak_flops: float, bandwidth: float) -> Result:
    """hipBone's Eq. 4: the attainable rate of the operator on a large mesh, in FLOP/s."""
    size = formulas.large_mesh(order)
    flops, moved = formulas.operator_flops(size), formulas.operator_bytes(size)
    value = formulas.roofline(flops.value, moved.value, peak_flops, bandwidth)
    inputs = {"N": order, "C (FLOP/s)": peak_flops, "B (B/s)": bandwidth, "flops": flops.text, "bytes": moved.text}
    return exact(METHOD, f"roofline of the operator, N = {order}", value, "FLOP/s", inputs, "hipBone Eq. 4")


def pattern_results(pattern: Pattern, constants: Constants, upper: Pattern | None = None) -> list[Result]:
    """T_GPU and its terms. With `upper`, a pattern that moves more data, the results have the range up to it."""
    inputs = {f"n_{k}": v for k, v in asdict(pattern).items()}
    inputs |= {f"t_{k} (s)": v for k, v in asdict(constants).items()}
    value = gpu_time(pattern, constants)
    high = gpu_time(upper, constants) if upper is not None else value
    why = RANGE if upper is not None else ""
    results = [Result(METHOD, "T_GPU", value, "s", min(value, high), max(value, high), inputs, "Eq. 8", why)]
    most = terms(upper or pattern, constants)
    for name, least in terms(pattern, constants).items():
        low, high = sorted((least, most[name]))
        results.append(Result(METHOD, f"  {name}", least, "s", low, high, inputs, "term of Eq. 8", why))
    return results


def run_results(record: Record, constants: Constants | None = None) -> list[Result]:
    """A Poisson run compared with its rooflines.

    Without constants, those of the record are used, which do not include the irregular term.
    """
    size, method = run_pattern(record)
    figures = record["figures"]
    peak, bandwidth = figures["peak_flops_per_second"], figures["bandwidth_bytes_per_second"]
    constants = constants or of_rates(peak, bandwidth)
    least = poisson_iteration(size, method, lines=True)
    most = poisson_iteration(size, method, lines=False)
    measured = record["timings"]["seconds_per_iteration"]
    results = [eq4(size.order, peak, bandwidth), *pattern_results(least, constants, most)]
    inputs = {"seconds per iteration": measured}
    results.append(exact(METHOD, "measured time per iteration", measured, "s", inputs, "run record"))
    low, high = (100 * gpu_time(p, constants) / measured for p in (least, most))
    name = "share of the extended roofline reached"
    results.append(Result(METHOD, name, low, "%", min(low, high), max(low, high), inputs, "Eq. 8 / measured", RANGE))
    return results


def constant_results(constants: Constants) -> list[Result]:
    """The constants as rates."""
    rows = [
        ("peak rate C, fused multiply-adds", 1 / constants.flop, "FLOP/s", "1 / t_flop of Eq. 8"),
        ("bandwidth B, 8 reads : 1 write", 1 / constants.regular, "B/s", "1 / t_reg of Eq. 8"),
        (f"time per random read of {LINE} B", constants.irregular, "s", "t_irreg of Eq. 8"),
    ]
    for name in ("h2d", "d2h"):
        if getattr(constants, name):
            rows.append((f"bandwidth of copies, {name}", 1 / getattr(constants, name), "B/s", f"1 / t_{name} of Eq. 8"))
    return [exact(METHOD, what, value, unit, {}, equation) for what, value, unit, equation in rows]
