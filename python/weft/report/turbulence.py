"""The tables and the page of a `weft run turbulence`."""

from __future__ import annotations

from weft.format import rate, seconds, size_text
from weft.record import Record
from weft.report.rows import Parts, Plot, Rows, limit_rows, limit_tiles, machine_rows, reference_rows


def title(record: Record) -> str:
    """A line that says what was run."""
    case = record["case"]
    flow = f"from {record['figures']['began_from']}" if record["figures"]["began_from"] else case["initial"]["field"]
    return f"turbulence, {flow}, nu = {case['viscosity']:g}"


def heading(record: Record) -> str:
    """The heading of a page: what was run."""
    return f"turbulence: {box(record)}, {record['case']['initial']['field']}"


def box(record: Record) -> str:
    """The size of the grid as text."""
    sizes = record["figures"]["grid"]
    return f"{sizes[0]}^3" if len(set(sizes)) == 1 else " x ".join(map(str, sizes))


def header_rows(record: Record, verbose: bool = False) -> Rows:
    """Box, method, memory, machine and choices; `verbose`: with the timings of what was tried."""
    case, figures = record["case"], record["figures"]
    step = f"dt = {case['time']['dt']:g}" if case["time"]["dt"] > 0 else f"Courant number {case['time']['courant']:g}"
    messages = figures["message_bytes"]
    rows = [
        ("grid", f"{box(record)}, {figures['grid_points']:,} points, {case['precision']} precision"),
        (
            "method",
            f"{case['time']['scheme'].upper()}, {step}, {case['dealiasing']}, "
            f"kmax = {figures['largest_wavenumber']:.4g}",
        ),
        ("forcing", case["forcing"]["kind"]),
        (
            "process grid",
            f"{figures['process_grid']}, Q = {figures['batch']}; messages of {size_text(messages['row'])} in rows, "
            f"{size_text(messages['column'])} in columns",
        ),
        (
            "memory",
            f"{size_text(figures['memory_bytes_per_rank'])} per rank; Eq. 9 of the paper: "
            f"{size_text(figures['equation_9_bytes_per_rank'])}",
        ),
        *machine_rows(record),
    ]
    choices = record["choices"]
    exchanges = {"row": choices["row_exchange"], "column": choices["column_exchange"]}
    rows += [(f"  {name} exchange", exchanges[name]) for name, size in messages.items() if size > 0]
    if "reason" in choices:
        rows.append(("  chosen", f"{choices['reason']} (timed in {seconds(choices['tuning_seconds'])})"))
    if verbose:
        rows += [
            (
                f"    {t['process_grid']}, Q = {t['batch']}" + (f", {t['library']}" if "library" in t else ""),
                f"{seconds(t['median_seconds'])}, rows {t['row_exchange'] or '-'}, "
                f"columns {t['column_exchange'] or '-'}",
            )
            for t in choices.get("timings", [])
        ]
    return rows


def result_rows(record: Record) -> Rows:
    """What was run, and the flow at the end."""
    figures, timings, found = record["figures"], record["timings"], record["statistics"]
    rows = [
        (
            "run",
            f"{figures['steps']} steps to t = {figures['final_time']:.6g} in {seconds(timings['run_seconds'])}"
            f" (statistics {seconds(timings['statistics_seconds'])}, "
            f"checkpoints {seconds(timings['checkpoint_seconds'])})",
        ),
    ]
    history = found.get("history") or []
    if history:
        last = {k: float("nan") if v is None else v for k, v in history[-1].items()}
        rows += [
            (
                "energy",
                f"{last['energy']:.6g}, dissipation {last['dissipation']:.6g}, enstrophy {last['enstrophy']:.6g}",
            ),
            (
                "scales",
                f"L = {last['integral_scale']:.4g}, lambda = {last['taylor_scale']:.4g}, "
                f"eta = {last['kolmogorov_scale']:.4g}, kmax eta = {last['kmax_eta']:.3g}",
            ),
            ("Re_lambda", f"{last['reynolds_taylor']:.4g}"),
            ("divergence", f"{last['divergence']:.1e}, largest of a mode over the root of the mean enstrophy"),
        ]
    parts = found.get("distributions", {})
    gradients = [parts[n] for n in ("du/dx", "dv/dy", "dw/dz") if n in parts]
    if gradients and all(g["skewness"] is not None for g in gradients):
        words = [", ".join(f"{g[what]:.3f}" for g in gradients) for what in ("skewness", "flatness")]
        rows.append(("gradients", f"skewness {words[0]}; flatness {words[1]}   of du/dx, dv/dy, dw/dz"))
    for name in ("dissipation", "enstrophy"):
        if name in parts:
            rows.append((f"  {name}", f"largest {parts[name]['largest']:.3g} times the mean"))
    if "reference" in found:
        rows += reference_rows(found["reference"])
    if figures["checkpoint"]:
        rows.append(("checkpoint", figures["checkpoint"]))
    return rows


def speed_rows(record: Record) -> Rows:
    """Time of a step, its rate, and its limits."""
    figures, timings = record["figures"], record["timings"]
    median, best, speed = timings["seconds_per_step"], timings["best_step_seconds"], figures["grid_points_per_second"]
    if median and best and speed:
        return [
            ("step", f"{seconds(median)} median, {seconds(best)} best"),
            ("speed", f"{rate(speed, 'points/s')}   grid points over the median step"),
            *limit_rows(figures.get("limits", [])),
        ]
    return []


def time_spent(record: Record) -> Parts:
    """Seconds of the recorded steps, and their parts as in GESTS's Table 3."""
    return record["timings"]["profiled_seconds"], record["timings"]["parts"]


def tiles(record: Record) -> Rows:
    """The figures at the top of the page, each with a label."""
    figures, timings = record["figures"], record["timings"]
    history = record["statistics"].get("history") or [{}]
    found = [(f"t = {figures['final_time']:.4g}", f"after {figures['steps']} steps")]
    if timings["seconds_per_step"]:
        found.append((seconds(timings["seconds_per_step"]), "per step (median)"))
        found.append((rate(figures["grid_points_per_second"] or 0.0, "points/s"), "grid points per second"))
    found += limit_tiles(figures.get("limits", []))
    reynolds = history[-1].get("reynolds_taylor")
    if reynolds is not None:
        found.append((f"{reynolds:.3g}", "Taylor-scale Reynolds number at the end"))
    return found


def figures_of(record: Record) -> list[Plot]:
    """The plots a record has data for: heading, file name, figure."""
    from weft.report import turbulence_plots as plots
    from weft.report.planes import figure_of

    found = record["statistics"]
    history = found.get("history") or []
    shown: list[Plot] = [("Enstrophy", "enstrophy", figure_of(plane, {})) for plane in found.get("planes", [])]
    if len(history) > 1:
        times, dissipation, energy = ([row[k] for row in history] for k in ("time", "dissipation", "energy"))
        shown.append(("History", "history", plots.history(times, dissipation, energy, found.get("reference"))))
    if "spectrum" in found:
        s = found["spectrum"]
        last = history[-1] if history else {}
        eta, rate_ = last.get("kolmogorov_scale"), last.get("dissipation") or 0.0
        shown.append(("Spectrum", "spectrum", plots.spectrum(s["wavenumbers"], s["energy"], rate_, eta)))
        if s["transfer"] is not None:
            moved = plots.transfer(s["wavenumbers"], s["transfer"], s["dissipation"])
            shown.append(("Transfer", "transfer", moved))
    if found.get("distributions"):
        shown.append(("Distributions", "distributions", plots.distributions(found["distributions"])))
    return shown


def speed_figures_of(record: Record) -> list[Plot]:
    """The plots of the time of the steps: none."""
    return []
