"""Describes a machine by measurements on it, for `weft model calibrate` and `weft model project --run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from weft.model import beside_others, efficiency_table, held_out
from weft.model.counted import Counted, counted
from weft.model.evidence import VECTOR_BYTES, Evidence, sourced
from weft.model.machine import NO_NETWORK, Level, Machine, with_constants
from weft.model.project.boxes import box_of, halo
from weft.model.project.elements import MAXWELL_STAGES, step_iterations, step_reductions
from weft.model.project.grids import COLUMN_CALLS, CONTIGUOUS_LINES, ROW_CALLS, STRIDED_LINES
from weft.model.project.projection import WORDS
from weft.model.recorded_run import ELEMENTS, Run, run_of, wrong_in
from weft.model.result import ModelError

Table = dict[str, Any]


def calibrate(evidence: Sequence[Evidence], base: Machine | None = None, title: str | None = None) -> Machine:
    """The machine on which these measurements were made. Numbers not measured are taken from `base`, or assumed.

    The memory bandwidth, the peak performance and the links are used as measured. Runs of poisson, maxwell and flow on
    one rank give the streaming efficiency of each workload, and several sizes of poisson the cost of a launch (least
    squares of the relative errors of t = launches + bytes / (efficiency x bandwidth)). Runs on several ranks give the
    overhead of the split (poisson, flow), the efficiency of the exchange (maxwell), and the rate of all-to-alls
    (turbulence). The phases of turbulence also give the rates of transforms and kernels. If a trace has counted the
    messages of runs on several ranks, `beside_others` calibrates on them instead. `errors` has the range that follows
    from runs that are held out in turn (`held_out`).
    """
    if not evidence:
        raise ModelError("no measurement is named: give run directories, run.json files or results of weft bench")
    machine = _checked(evidence, base, title)
    runs = [run_of(e) for e in evidence if e.kind == "run"]
    errors = held_out.accuracies(evidence, runs, lambda others, of: _checked(others, base, title, of))
    return machine.model_copy(update={"errors": errors})


def _checked(evidence: Sequence[Evidence], base: Machine | None, title: str | None, of: str | None = None) -> Machine:
    """The machine, without the errors of held-out runs. Raises ModelError for invalid measurements.

    With `of`, only the constants of this workload; runs of the others still count for the rates of memory and links.
    """
    try:
        return _calibrated(evidence, base, title, of)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, IndexError) as error:
        if isinstance(error, ModelError):
            raise
        names = ", ".join(str(e.path) for e in evidence)
        raise ModelError(f"{names}: {wrong_in(error)}") from None


def notes(evidence: Sequence[Evidence]) -> list[str]:
    """Reasons why measurements are unfit for predictions."""
    found = []
    of: dict[str, set[str]] = {}
    for run in (run_of(e) for e in evidence if e.kind == "run"):
        of.setdefault(run.workload, set()).add(str(run.options["precision"]))
    for workload, precisions in of.items():
        if len(precisions) > 1:
            found.append(
                f"runs of {workload} have several precisions ({', '.join(sorted(precisions))}), and one rate per byte "
                "counts for all: calibrate each by itself if their errors differ"
            )
    caches = {(e.machine.caches.count, e.machine.caches.bytes) for e in evidence if e.machine.caches.count}
    if len(caches) > 1:
        nodes = ", ".join(f"{count} of {size / 2**20:.4g} MiB" for count, size in sorted(caches))
        found.append(
            f"the measurements were made on nodes with different last-level caches ({nodes}), so on several machines: "
            f"those of {evidence[0].path} count"
        )
    return found + [
        f"{e.path}: {e.machine.ranks_per_node} rank{'s' * (e.machine.ranks_per_node > 1)} of "
        f"{e.machine.threads_per_rank} thread{'s' * (e.machine.threads_per_rank > 1)} shared "
        f"{e.machine.node_processors} processor{'s' * (e.machine.node_processors > 1)}: its times are not those of "
        "ranks with a processor for each thread"
        for e in evidence
        if e.machine.shares_processors
    ]


def _calibrated(evidence: Sequence[Evidence], base: Machine | None, title: str | None, only: str | None) -> Machine:
    runs = [run_of(e) for e in evidence if e.kind == "run"]
    content = _skeleton(evidence, base, title)
    _rates(content, evidence, base)
    _messages(content, evidence, base)
    _transforms(content, evidence)
    if "stream_bytes_per_second" not in content["device"]:
        content["device"]["stream_bytes_per_second"] = _achieved(content, runs)
    _assume_links(content)
    content["shared_fields"] = content.get("shared_fields", False) or any(run.shared_fields for run in runs)
    machine = _valid(content)
    runs = [run for run in runs if only in (None, run.workload)]
    for workload in ELEMENTS:
        of = [run for run in runs if run.workload == workload]
        if of:
            machine = _with_elements(machine, workload, of)
    turbulent = [run for run in runs if run.workload == "turbulence"]
    return _with_turbulence(machine, turbulent) if turbulent else machine


def _valid(content: Table) -> Machine:
    return Machine.model_validate(content)


def _skeleton(evidence: Sequence[Evidence], base: Machine | None, title: str | None) -> Table:
    """The content of the base, or else a description of the nodes and devices in the records."""
    first = evidence[0]
    devices = {e.machine.device.name for e in evidence}
    if len(devices) > 1:
        raise ModelError(
            f"the measurements were made on several devices ({', '.join(sorted(devices))}): give those of one"
        )
    (device,) = devices
    memory = {"value": first.machine.device.memory_bytes, "source": first.where}
    cache = {
        name: {"value": value, "source": first.where}
        for name, value in zip(("cache_bytes", "node_cache_bytes"), first.machine.cache_bytes, strict=True)
        if value
    }
    vectors: Table = {}
    if any(e.content.get("choices", {}).get("kernels", "").startswith("simd") for e in evidence):
        vectors = {"vector_bytes": VECTOR_BYTES.get(first.machine.device.architecture)}
    if base is not None:
        kept = base.model_dump(exclude_none=True)
        kept["device"] |= {"name": device, "memory_bytes": memory, **cache, **vectors}
        return {**kept, "errors": {}, "title": title or f"{base.title}, with measurements"}
    per_node = max(e.machine.ranks_per_node for e in evidence)
    if first.machine.device.backend == "host":  # a rank may run on every core
        per_node = max(per_node, first.machine.processors // first.machine.threads_per_rank)
    nodes = max(-(-e.ranks // e.machine.ranks_per_node) for e in evidence)
    return {
        "title": title or f"{device} (measured)",
        "nodes": {"value": nodes, "source": first.where},
        "ranks_per_node": per_node,
        "device": {
            "name": device,
            "memory_bytes": memory,
            **cache,
            **vectors,
            "kernel_seconds": {"value": 0.0, "source": "part of the times of the kernels"},
        },
        "links": {},
        "constants": {},
        "traffic": {},
    }


def _rates(content: Table, evidence: Sequence[Evidence], base: Machine | None) -> None:
    """The memory bandwidth and the peak performance per rank, from measurements on one rank if there are any."""
    for name, key in (
        ("stream_bytes_per_second", "bandwidth_bytes_per_second"),
        ("flops_per_second", "peak_flops_per_second"),
    ):
        found = []
        for e in evidence:
            place = {"run": "figures", "operator": "rates", "fft": "limits"}.get(e.kind, "")
            value = e.content.get(place, {}).get(key)
            if value is not None:
                found.append((float(value) / e.ranks, e))
        fewest = min((e.ranks for _, e in found), default=0)
        found = [(value, e) for value, e in found if e.ranks == fewest]
        if found:
            content["device"][name] = sourced(found)
        elif base is None and name == "flops_per_second":
            content["device"][name] = {"value": 1e18, "source": "assumed: no limit; no measurement of the peak"}


def _messages(content: Table, evidence: Sequence[Evidence], base: Machine | None) -> None:
    """The links, from all-to-alls and ping-pongs (also of `bench exchange`), by the path that is fastest for 1 MiB."""
    levels = {"within": "node", "between": "network"}

    def set_link(level: str, latency: float, rate: float, source: str, e: Evidence) -> None:
        link = content["links"].setdefault(level, {})
        link["latency_seconds"] = {"value": latency, "source": source}
        link["bytes_per_second"] = {"value": rate, "source": source}
        link.pop("node_bytes_per_second", None)
        if level == "network" and base is None:
            content["nodes"] = {"value": 1_000_000, "source": f"assumed: any number; {e.where}"}

    for e in sorted(evidence, key=lambda e: e.kind == "pingpong"):  # ping-pongs proper have the last word
        if e.kind == "exchange":
            for where, level in levels.items():
                link = e.content["links"].get(where)
                if link is not None:
                    set_link(
                        level, link["alpha_seconds"], link["beta_bytes_per_second"], f"{e.where}: its ping-pong", e
                    )
            rows = [r for r in e.content["rows"] if r["operation"] == "gather-scatter" and r["ranks"] > 1]
            if rows:
                most = max(r["fields"] for r in rows)
                best: dict[int, Table] = {}
                for row in (r for r in rows if r["fields"] == most):
                    best[row["order"]] = min(best.get(row["order"], row), row, key=lambda r: r["seconds"])
                shares = [(r["bound_seconds"] / r["seconds"], e) for r in best.values()]
                content["constants"]["maxwell.exchange_efficiency"] = sourced(shares)
        if e.kind == "pingpong":
            for where, level in levels.items():
                fits = [f for f in e.content["fits"] if f["where"] == where and f["pairs"] == 1]
                fits = [f for f in fits if f["beta_bytes_per_second"] is not None]
                memories = {f["memory"] for f in fits}
                fits = [f for f in fits if f["memory"] == ("device" if "device" in memories else f["memory"])]
                if not fits:
                    continue
                fit = min(fits, key=lambda f: f["alpha_seconds"] + 2**20 / f["beta_bytes_per_second"])
                source = f"{e.where}: path {fit['path']}, fit within {100 * fit['largest_relative_error']:.0f} %"
                set_link(level, fit["alpha_seconds"], fit["beta_bytes_per_second"], source, e)
        if e.kind == "alltoall":
            per_node = e.machine.ranks_per_node
            for level in ("node", "network"):
                rows = [r for r in e.content["rows"] if (r["ranks"] > per_node) == (level == "network")]
                if rows:
                    largest = max(r["message_bytes"] for r in rows)
                    row = min((r for r in rows if r["message_bytes"] == largest), key=lambda r: r["total_seconds"])
                    rate = largest * (row["ranks"] - 1) / row["total_seconds"]
                    source = f"{e.where}: {row['method']}, messages of {largest / 2**20:.3g} MiB"
                    content["links"].setdefault(level, {})["all_to_all_bytes_per_second"] = {
                        "value": rate, "source": source,
                    }  # fmt: skip


def _transforms(content: Table, evidence: Sequence[Evidence]) -> None:
    """The rates of transforms along lines, from `weft bench fft`."""
    for e in evidence:
        lines = {int(r["points"]): r for r in e.content.get("lines", []) if r["precision"] == "double"}
        if e.kind == "fft" and lines:
            rates = {
                n: [r["bytes"] / r["steps"][kind]["seconds"] for kind in ("contiguous", "strided")]
                for n, r in sorted(lines.items())
            }
            content["device"]["transforms"] = _transform_table(rates, e.where)


def _transform_table(rates: Mapping[int, Sequence[float]], source: str) -> Table:
    points = sorted(rates)
    return {
        "points": points,
        "contiguous_bytes_per_second": [rates[n][0] for n in points],
        "strided_bytes_per_second": [rates[n][1] for n in points],
        "source": source,
    }


def _assume_links(content: Table) -> None:
    """Assumes links that were not measured: copies through memory inside a node, and no network."""
    links, stream = content["links"], content["device"]["stream_bytes_per_second"]["value"]
    memory = {
        "latency_seconds": {"value": 1e-6, "source": "assumed: no ping-pong inside a node"},
        "bytes_per_second": {"value": stream / 2, "source": "assumed: a copy reads and writes memory"},
    }
    for level in ("node", "network"):
        if level == "node" or level in links:
            links[level] = {**memory, **links.get(level, {})}
    if "network" not in links:
        links["network"] = {
            key: {"value": number["value"], "source": f"{NO_NETWORK} was measured: as inside a node"}
            for key, number in links["node"].items()
            if key in memory
        }


def _achieved(content: Table, runs: Sequence[Run]) -> Table:
    """If the memory bandwidth was not measured: the one at which the first run has an efficiency of 1."""
    if not runs:
        raise ModelError("the memory bandwidth was not measured: add a run, 'weft bench operator' or --machine")
    run, trial = runs[0], {**content, "device": {**content["device"]}, "links": {**content["links"]}}
    trial["device"]["stream_bytes_per_second"] = {"value": 1e9, "source": "trial"}
    _assume_links(trial)
    machine = _valid(trial)
    if run.workload == "turbulence":
        made = run.on(with_constants(machine, {"turbulence.kernel_efficiency": 1.0}, "trial")).phases
        names = ("pack and unpack", "other")
        share = sum(made[n] for n in names) / sum(run.parts[n] for n in names)
    else:
        share, _ = _efficiency(machine, run.workload, [replace(run, ranks=1)], launches=False)
    return {"value": 1e9 * share, "source": f"reached by the kernels of {run.evidence.where}"}


def _linear(machine: Machine, run: Run) -> tuple[float, float, float]:
    """The coefficients of a run's time a + b / efficiency + c x launch, without the limit by operations."""

    def at(efficiency: float, launch: float) -> float:
        content = machine.model_dump()
        content["device"]["kernel_seconds"] = {"value": launch, "source": "trial"}
        content["device"]["flops_per_second"] = {"value": 1e30, "source": "trial"}
        content["constants"] = {f"{run.workload}.stream_efficiency": {"value": efficiency, "source": "trial"}}
        content["efficiency"] = {}
        return run.on(Machine.model_validate(content)).seconds

    one = at(1.0, 0.0)
    b = at(0.5, 0.0) - one
    return one - b, b, at(1.0, 1.0) - one


def _efficiency(machine: Machine, workload: str, alone: Sequence[Run], launches: bool) -> tuple[float, float]:
    """The streaming efficiency of a workload on one rank, and the cost of a launch, which is fitted only on request."""
    terms = [_linear(machine, run) for run in alone]
    seconds = [run.seconds for run in alone]
    launch = machine.device.kernel_seconds.value
    if launches and len({b for _, b, _ in terms}) > 1:
        design = np.array([[b / t, c / t] for (_, b, c), t in zip(terms, seconds, strict=True)])
        left = np.array([1 - a / t for (a, _, _), t in zip(terms, seconds, strict=True)])
        (inverse, launch), _ = nnls(design, left)
    else:
        inverse = float(np.median([(t - a - c * launch) / b for (a, b, c), t in zip(terms, seconds, strict=True)]))
    if inverse <= 0:
        raise ModelError(f"the times of the {workload} runs are less than their launches: measure longer runs")
    return float(1 / inverse), float(launch)


def _with_elements(machine: Machine, workload: str, runs: Sequence[Run]) -> Machine:
    """The machine with the constants of a workload on spectral elements."""
    alone = [run for run in runs if run.ranks == 1]
    several = [run for run in runs if run.ranks > 1]
    content = machine.model_dump(exclude_none=True)
    content.setdefault("efficiency", {})
    traced = [(run, traffic) for run in several if (traffic := counted(run.evidence, workload)) is not None]
    if traced:
        content["traffic"][workload] = _traffic(*max(traced, key=lambda pair: pair[0].ranks))
    if alone:
        # On a host, a kernel is a call: what small problems take longer for is not a launch.
        launches = workload == "poisson" and alone[0].evidence.machine.device.backend != "host"
        efficiency, launch = _efficiency(machine, workload, alone, launches)
        each = []
        for run in alone:
            a, b, c = _linear(machine, run)
            each.append((b / max(run.seconds - a - c * launch, 1e-3 * run.seconds), run.evidence))
        source = sourced(each)["source"]
        content["constants"][f"{workload}.stream_efficiency"] = {"value": efficiency, "source": source}
        content["efficiency"].pop(workload, None)
        if (table := efficiency_table.efficiency(machine, alone, [1 / value for value, _ in each])) is not None:
            content["efficiency"][workload] = {**table, "source": source}
            del content["constants"][f"{workload}.stream_efficiency"]
        if launch != machine.device.kernel_seconds.value:
            content["device"]["kernel_seconds"] = {"value": launch, "source": source}
        # A peak that a run exceeds, or a part of it, would hide what it measured.
        peak = max(_peak(_valid(content), run) for run in alone)
        if peak > content["device"]["flops_per_second"]["value"]:
            content["device"]["flops_per_second"] = {"value": peak, "source": source}
    elif machine.key("stream_efficiency", workload) is None:
        raise ModelError(
            f"there is no {workload} run on 1 rank among the measurements; add one, with which the others are compared"
        )
    if traced:
        content = _beside_others(content, workload, several)
    elif several:
        name = "exchange_efficiency" if workload == "maxwell" else "split_overhead"
        given = {f"{workload}.{name}": 1.0 if workload == "maxwell" else 0.0}
        kept = {k: v["value"] for k, v in content["constants"].items()}
        known = with_constants(_valid(content), {**kept, **given}, "trial")
        found = []
        for run in several:
            made = run.on(known)
            over = run.seconds - made.seconds
            if workload == "maxwell":
                found.append((made.phases["exchange"] / max(made.phases["exchange"] + over, 1e-3 * run.seconds), run))
            else:
                found.append((max(0.0, over / made.phases["stream"]), run))
        content["constants"][f"{workload}.{name}"] = sourced([(value, run.evidence) for value, run in found])
    return _valid(content)


def _traffic(run: Run, found: Counted) -> Table:
    """The counted traffic per iteration or stage, relative to the formulas for a halo exchange of the same mesh."""
    order, elements = run.options["order"], run.options["elements_per_rank"]
    maxwell = run.workload == "maxwell"
    sent = halo(run.ranks, box_of(elements), order, 1, corners=not maxwell, periodic=maxwell)
    times, reductions, words = 1.0, 1.0, 1
    if maxwell:
        times, reductions, words = MAXWELL_STAGES, MAXWELL_STAGES, 6
    if run.workload == "flow":
        iterations = run.options["pressure_iterations"], run.options["velocity_iterations"]
        times, reductions = step_iterations(*iterations), step_reductions(*iterations)
    data = words * WORDS[run.options["precision"]] * sent.network_points
    return {
        "exchanges": found.messages / sent.network_messages / times,
        "volume": found.bytes / data / times,
        "reductions": found.reductions / reductions,
        "overlap": min(found.overlap, 0.99),
        "source": f"trace of {run.evidence.where}",
    }


def rms(errors: Sequence[float]) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))


def _beside_others(content: Table, workload: str, runs: Sequence[Run]) -> Table:
    """Adds the extra time of runs on several ranks: beyond computation on one rank and the counted messages.

    A limit to what comes from memory counts only where it brings the fit closer to the runs.
    """
    machine = _valid(content)
    reached = [_efficiency(machine, workload, [replace(run, ranks=1)], launches=False)[0] for run in runs]
    rate = beside_others.rate_from_memory(machine, workload, runs, reached)
    found, errors = beside_others.constants(machine, workload, runs)
    if rate is not None:
        limited = deepcopy(content)
        limited["efficiency"][workload]["beside_others"] = rate
        other, other_errors = beside_others.constants(_valid(limited), workload, runs)
        if rms(other_errors) < rms(errors):
            content, found, errors = limited, other, other_errors
    worst = max(abs(error) for error in errors)
    source = f"least squares of {len(runs)} run{'s' * (len(runs) > 1)}, errors within {100 * worst:.1f} %: "
    source += runs[0].evidence.where + " and others" * (len(runs) > 1)
    content["constants"] |= {f"{workload}.{name}": {"value": v, "source": source} for name, v in found.items()}
    return content


def _peak(machine: Machine, run: Run) -> float:
    """The least peak performance with which operations limit neither a run nor a part of its projection."""

    def phases(flops_per_second: float) -> dict[str, float]:
        content = machine.model_dump()
        content["device"]["flops_per_second"] = {"value": flops_per_second, "source": "trial"}
        content["device"]["kernel_seconds"] = {"value": 0.0, "source": "trial"}
        return run.on(Machine.model_validate(content)).phases

    operations, free = phases(1.0), phases(1e30)
    return max(sum(operations.values()) / run.seconds, *(operations[n] / t for n, t in free.items() if t > 0))


def _with_turbulence(machine: Machine, runs: Sequence[Run]) -> Machine:
    """The machine with rates of transforms by length, of kernels, and of all-to-alls, from the phases of steps."""
    content = machine.model_dump(exclude_none=True)
    rates: dict[int, list[tuple[float, Evidence]]] = {}
    kernels: list[tuple[float, Evidence]] = []
    moved: dict[Level, list[tuple[float, Evidence]]] = {"node": [], "network": []}
    neutral = with_constants(machine, {"turbulence.kernel_efficiency": 1.0, "turbulence.brick_overhead": 0.0}, "trial")
    for run in runs:
        made, grid = run.on(neutral).phases, run.options["grid"]
        volume = WORDS[run.options["precision"]] * grid**3 / run.ranks
        lines = CONTIGUOUS_LINES + STRIDED_LINES
        rates.setdefault(grid, []).append((2 * volume * lines / run.parts["FFT"], run.evidence))
        names = ("pack and unpack", "other")
        measured = sum(run.parts[n] for n in names)
        # The copy of a column to itself, which weft does not make, is in the model.
        in_place = machine.in_place(run.ranks, run.options["rows"])
        if run.ranks == run.options["rows"] and not in_place:
            measured = max(measured + run.parts["column MPI"] - made["column MPI"], 0.1 * measured)
        kernels.append((sum(made[n] for n in names) / measured, run.evidence))
        level: Level = "node" if run.ranks <= run.evidence.machine.ranks_per_node else "network"
        rows = run.options["rows"]
        for name, members, calls in (
            ("row MPI", rows, ROW_CALLS), ("column MPI", run.ranks // rows, COLUMN_CALLS)
        ):  # fmt: skip
            if members > 1 and run.parts[name] > 0 and not in_place:
                where: Level = "node" if name == "row MPI" and rows <= machine.ranks_per_node else level
                waits = calls / run.options["batch"] * machine.link(where).latency_seconds.value
                travel = max(run.parts[name] - waits, 0.1 * run.parts[name])
                rate = calls * volume * (members - 1) / members / travel
                moved[where].append((rate, run.evidence))
    known = machine.device.transforms
    table: dict[int, tuple[float, float]] = {} if known is None else {
        n: (a, b) for n, a, b in zip(known.points, known.contiguous_bytes_per_second, known.strided_bytes_per_second,
                                     strict=True)
    }  # fmt: skip
    by_length = {n: sourced(found) for n, found in rates.items()}
    table |= {n: (float(rate["value"]), float(rate["value"])) for n, rate in by_length.items()}
    source = "; ".join([str(r["source"]) for r in by_length.values()] + ([] if known is None else [known.source]))
    content["device"]["transforms"] = _transform_table(table, source)
    content["constants"]["turbulence.kernel_efficiency"] = sourced(kernels)
    content["constants"]["turbulence.brick_overhead"] = {"value": 0.0, "source": "assumed: part of the kernels' rate"}
    for level, found in moved.items():
        if found:
            content["links"][level]["all_to_all_bytes_per_second"] = sourced(found)
    return _valid(content)
