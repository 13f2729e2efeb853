"""The tables and the page of a `weft run flow`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from weft.format import rate, seconds, size_text
from weft.record import Figures, Iterations, Record, Row, Tuning
from weft.report.rows import Parts, Plot, Rows, choice_rows, exchange_rows, limit_rows, machine_rows, reference_rows


def title(record: Record) -> str:
    """A line that says what was run."""
    figures = record["figures"]
    begin = f"from {figures['began_from']}, " if figures["began_from"] else ""
    return f"flow, {begin}{figures['mesh']}, nu = {figures['viscosity']:.6g}"


def heading(record: Record) -> str:
    """The heading of a page: what was run."""
    return f"flow: {record['figures']['mesh']}, N = {record['figures']['order']}"


def header_rows(record: Record, verbose: bool = False) -> Rows:
    """Mesh, boundaries, method, memory, machine and choices; `verbose`: with the timings of exchanges."""
    case, figures = record["case"], record["figures"]
    time, solver = case["time"], case["solver"]
    step = f"dt = {time['dt']:g}" if time["dt"] > 0 else f"Courant number {time['courant']:g}"
    if time["dt"] == 0 and "longest_time_step" in figures:  # not in older records
        step += f", dt at most {figures['longest_time_step']:.3g}"
    walls = [f"{name} {condition}" for name, condition in figures["boundaries"].items()]
    rows = [
        (
            "mesh",
            f"{figures['mesh']}: {figures['elements']:,} elements, {'straight' if figures['straight'] else 'curved'}",
        ),
        (
            "order",
            f"N = {figures['order']}, {case['precision']} precision; n = {figures['points']:,} points, "
            f"{figures['fields']} fields",
        ),
        ("boundaries", ", ".join(walls) or "none: periodic"),
        ("method", f"BDF{time['order']}/EXT{time['order']}, {step}, {case['convection']} convection"),
        (
            "tolerances",
            f"pressure {solver['pressure_tolerance']:g}, velocity {solver['velocity_tolerance']:g}; pressure starts "
            f"from {solver['projection']} earlier solutions",
        ),
        (
            "memory",
            f"{figures['memory_words_per_point']:.1f} numbers per point   {size_text(figures['memory'])} in total",
        ),
        *machine_rows(record),
    ]
    choices = record["choices"]
    pressure = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in choices["pressure"].items())
    exchanges = exchange_rows(choices["exchange"], True) if verbose else grouped_exchanges(choices["exchange"])
    return [*rows, *choice_rows(choices), ("  pressure", pressure), *exchanges]


def iterations(figures: Figures) -> dict[str, Iterations]:
    """The iterations of each of a flow's solves."""
    return cast("dict[str, Iterations]", figures["iterations"])


def grouped_exchanges(tunings: Mapping[str, Tuning]) -> Rows:
    """What was chosen for the exchanges: each multigrid level has its own, and equal choices share a line."""
    groups: dict[str, list[str]] = {}
    for use, tuning in tunings.items():
        groups.setdefault(tuning["chosen"], []).append(use)
    rows = []
    for chosen, uses in groups.items():
        reasons = {tunings[use]["reason"] for use in uses}
        why = reasons.pop() if len(reasons) == 1 else "fastest, as timed"
        rows.append(("  exchange", f"{chosen} for {', '.join(uses) if len(groups) > 1 else 'all'}: {why}"))
    return rows


def result_rows(record: Record) -> Rows:
    """What was run, the flow at the end, and errors."""
    figures, timings, found = record["figures"], record["timings"], record["statistics"]
    rows = [
        (
            "run",
            f"{figures['steps_done']:,} steps to t = {figures['final_time']:.6g} in {seconds(timings['run_seconds'])}"
            f" (statistics {seconds(timings['statistics_seconds'])}, files {seconds(timings['output_seconds'])})",
        )
    ]
    rows += watched_rows(found["history"])
    rows += load_rows(figures)
    if "reference" in found:
        rows += reference_rows(found["reference"])
    for name, error in figures.get("errors", {}).items():
        rows.append(("error", f"{name}: {error:.3e} of the exact solution's norm   L2 norm of the difference"))
    if figures["checkpoint"]:
        rows.append(("checkpoint", figures["checkpoint"]))
    return rows


def speed_rows(record: Record) -> Rows:
    """Time of a step, iterations, shares, and the time by phase."""
    figures, timings = record["figures"], record["timings"]
    rows = []
    median, best, speed = timings["seconds_per_step"], timings["best_step_seconds"], figures["points_per_second"]
    if median and best and speed:
        rows += [
            ("step", f"{seconds(median)} median, {seconds(best)} best; slowest rank"),
            ("speed", f"{rate(speed, 'points/s')}   n over the median step"),
        ]
    for name, solve in iterations(figures).items():
        rows.append((f"  {name}", f"{solve['mean']:.1f} iterations per step, {solve['largest']} at most"))
    if timings["profiled_seconds"] > 0:
        share = (
            f"{100 * (figures['exchange_share'] or 0.0):.1f} % of the time   {figures['formulas']['exchange_share']}"
        )
        rows.append(("exchange", share))
    return rows + path_rows(figures) + phase_rows(record)


def watched_rows(history: list[Row]) -> Rows:
    """The monitored quantities at the end: means, and forces on boundaries."""
    if not history:
        return []
    last = {k: float("nan") if v is None else v for k, v in history[-1].items()}
    rows = [
        (
            "energy",
            f"{last['energy']:.9g}, dissipation {last['dissipation']:.6g}, enstrophy {last['enstrophy']:.6g}",
        ),
        (
            "divergence",
            f"{last['divergence']:.1e} root mean square, {last['largest_divergence']:.1e} at most; Courant number "
            f"{last['courant']:.3g}",
        ),
    ]
    for name in (k.removesuffix("_mean") for k in last if k.endswith("_mean")):
        rows.append((f"  {name}", f"{last[f'{name}_mean']:.6g}, from {last[f'{name}_smallest']:.6g} to "
                                  f"{last[f'{name}_largest']:.6g}"))  # fmt: skip
    forces = [k for k in last if k.startswith("force_") and k.endswith("_pressure_x")]
    for name in (k.removeprefix("force_").removesuffix("_pressure_x") for k in forces):
        force = ", ".join(f"{last[f'force_{name}_{axis}']:.6g}" for axis in "xyz")
        rows.append((f"  {name}", f"force {force}   over density"))
    return rows


def load_rows(figures: Figures) -> Rows:
    """Means over time of the forces on boundaries, with coefficients and Strouhal number."""
    rows: Rows = []
    for name, of in figures.get("loads", {}).items():
        if not of:
            continue
        mean, rms = (", ".join(f"{of[f'force_{axis}_{kind}']:.6g}" for axis in "xyz") for kind in ("mean", "rms"))
        span = f"{of['samples']:.0f} samples from t = {of['since']:.4g} to {of['until']:.4g}"
        rows += [
            (f"  {name}", f"mean force {mean}   {span}"),
            ("", f"root mean square about the mean {rms}"),
            ("", f"wall shear {of['shear_mean']:.4g}; y+ {of['y_plus_mean']:.3g}, at most {of['y_plus_largest']:.3g}"),
        ]
        if "drag_coefficient_mean" in of:
            rows += [
                ("", f"{kind} coefficient {of[f'{kind}_coefficient_mean']:.5g}, root mean square about it "
                     f"{of[f'{kind}_coefficient_rms']:.3g}")
                for kind in ("drag", "lift")
            ]  # fmt: skip
        if "strouhal" in of:
            rows.append(("", f"Strouhal number {of['strouhal']:.5g}   from the lift's upward crossings of its mean"))
    return rows


def path_rows(figures: Figures) -> Rows:
    """Time of a step with every path of the exchange, and the speed-up of the direct path over the staged one."""
    rows = [
        (
            f"  path {path}",
            f"{seconds(row['seconds_per_step'])} per step, {100 * row['exchange_share']:.1f} % exchange"
            + (f", {row['speed_up']:.2f} times as fast as staged" if row["speed_up"] else ""),
        )
        for path, row in figures.get("paths", {}).items()
    ]
    return rows + ([("  paths", figures["paths_note"])] if "paths_note" in figures else [])


def phase_rows(record: Record) -> Rows:
    """Time of the recorded steps by phase: in total, and in MPI and copies; the limits of phases."""
    timings, figures = record["timings"], record["figures"]
    total = timings["profiled_seconds"]
    if not timings["phases"] or total <= 0:
        return []
    rows = [("phase", f"{figures['profiled_steps']} steps with the recorder on: mean over ranks; MPI and copies of it")]
    for name, spent in timings["phases"].items():
        whole = sum(spent.values())
        told = spent.get("mpi", 0.0) + spent.get("copy", 0.0)
        rows.append((f"  {name}", f"{seconds(whole)} ({100 * whole / total:.1f} %), {seconds(told)}"))
    for name, limits in figures.get("limits_by_phase", {}).items():
        rows += limit_rows(limits, f"{name}: ")
    return rows


def time_spent(record: Record) -> Parts:
    """Seconds of the recorded steps, and where they went."""
    return record["timings"]["profiled_seconds"], record["timings"]["breakdown"]


def tiles(record: Record) -> Rows:
    """The figures at the top of the page, each with a label."""
    figures, timings = record["figures"], record["timings"]
    found = [(f"t = {figures['final_time']:.4g}", f"after {figures['steps_done']} steps")]
    if timings["seconds_per_step"]:
        found.append((seconds(timings["seconds_per_step"]), "per step (median)"))
        found.append((rate(figures["points_per_second"] or 0.0, "points/s"), "points per second"))
    if "pressure" in iterations(figures):
        found.append((f"{iterations(figures)['pressure']['mean']:.1f}", "pressure iterations per step"))
    return found


def figures_of(record: Record) -> list[Plot]:
    """The plots of the flow that a record has data for: heading, file name, figure."""
    from weft.report import flow_plots as plots
    from weft.report.planes import pictures

    found = record["statistics"]
    history = found["history"]
    shown = pictures(found.get("planes", []), record["figures"]["boundaries"])
    if len(history) > 1:
        panels = {"kinetic energy": ["energy"], "dissipation": ["dissipation"]}
        forces = [k for k in history[0] if k.startswith("force_") and "_pressure_" not in k]
        panels |= {"force": forces} if forces else {}
        shown.append(("History", "history", plots.histories(history, panels, found.get("reference"))))
    if "profile" in found:
        shown.append(("Profile", "profile", plots.profile(found["profile"])))
    return shown


def speed_figures_of(record: Record) -> list[Plot]:
    """The plots of the time that the steps took."""
    from weft.report import flow_plots as plots

    steps, timings = record["statistics"]["steps"], record["timings"]
    shown: list[Plot] = []
    if len(steps) > 1:
        shown.append(("Steps", "steps", plots.solves(steps)))
    if timings.get("phases"):
        shown.append(("Phases", "phases", plots.phases(timings["phases"], record["figures"]["profiled_steps"])))
    return shown
