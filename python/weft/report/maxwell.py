"""The tables and the page of a `weft run maxwell`."""

from __future__ import annotations

from weft.format import rate, seconds
from weft.record import Record
from weft.report.rows import Parts, Plot, Rows, choice_rows, exchange_rows, limit_rows, limit_tiles, machine_rows


def title(record: Record) -> str:
    """A line that says what was run."""
    began = record["figures"].get("began_from")  # not in records of version 0.1.0
    start = f"from {began}" if began else record["case"]["initial"]["field"]
    return f"maxwell, {start}, {record['case']['flux']} flux"


def heading(record: Record) -> str:
    """The heading of a page: what was run."""
    return f"maxwell: {record['figures']['mesh']}, N = {record['figures']['order']}"


def header_rows(record: Record, verbose: bool = False) -> Rows:
    """Mesh, materials, boundaries, time step, machine and choices; `verbose`: with the timings of exchanges."""
    case, figures = record["case"], record["figures"]
    table = {"vacuum": {"epsilon": 1.0, "mu": 1.0, "sigma": 0.0}} | case["materials"]
    used = [
        f"{name} (epsilon {table[name]['epsilon']:g}, mu {table[name]['mu']:g}"
        + (f", sigma {table[name]['sigma']:g}" if table[name]["sigma"] else "")
        + f"; {count:,} elements)"
        for name, count in figures["elements_by_material"].items()
    ]
    walls = [f"{name} {condition}" for name, condition in figures["boundaries"].items()]
    rows = [
        (
            "mesh",
            f"{figures['mesh']}: {figures['elements']:,} elements, {'straight' if figures['straight'] else 'curved'}",
        ),
        ("order", f"N = {figures['order']}, {case['precision']} precision; n = {figures['points']:,} points, 6 fields"),
        ("materials", ", ".join(used)),
        ("boundaries", ", ".join(walls) or "none: periodic"),
        (
            "time step",
            f"{figures['time_step']:.6g}, {100 * figures['courant']:.0f} % of the limit; {figures['steps']:,} steps",
        ),
        *machine_rows(record),
    ]
    return [*rows, *choice_rows(record["choices"]), *exchange_rows(record["choices"]["exchange"], verbose)]


def result_rows(record: Record) -> Rows:
    """What was run, the energies of the fields, and the error."""
    if not record["figures"]["stable"]:
        return [("BLOWN UP", record["figures"]["unstable"])]
    figures, timings = record["figures"], record["timings"]
    statistics = record["statistics"]
    per_step = timings["seconds_per_step"] or 0.0
    energy = [a + b for a, b in zip(statistics["electric_energy"], statistics["magnetic_energy"], strict=True)]
    rows = [
        ("steps", f"{figures['steps_done']:,} to time {statistics['time'][-1]:.6g} in "
                  f"{seconds(timings['steps_seconds'])}, {seconds(per_step)} each"),
        ("field energy", f"{energy[0]:.6e} at the start, {energy[-1]:.6e} at the end: "
                         + ("x " + format(energy[-1] / energy[0], ".9f") if energy[0] > 0 else "from zero")),
    ]  # fmt: skip
    if "relative_error" in figures:
        error = f"{figures['relative_error']:.3e} of the exact solution's energy norm   the norm of the difference"
        rows.append(("error", error))
    if "no_error_because" in figures:
        rows.append(("error", f"not available: {figures['no_error_because']}"))
    if figures.get("checkpoint"):
        rows.append(("checkpoint", figures["checkpoint"]))
    return rows


def speed_rows(record: Record) -> Rows:
    """Rates with what they count, the energy used, and the time by routine."""
    figures, timings = record["figures"], record["timings"]
    if not figures["stable"]:
        return []
    formulas = figures["formulas"]
    setup = timings["mesh_seconds"] + timings["operator_seconds"] + timings["initial_seconds"]
    rows = [
        ("set-up", f"{seconds(setup)}; {figures['memory_bytes_per_point']:.0f} bytes per point"),
        ("per point", f"{seconds(figures['seconds_per_step_and_point'])} per step   "
                    f"{formulas['seconds_per_step_and_point']}"),
        ("rate", f"{rate(1e9 * figures['gflops'], 'FLOP/s')}   {formulas['gflops']}"),
        ("bandwidth", f"{rate(figures['bandwidth_bytes_per_second'], 'B/s')} on all ranks   "
                      "8 reads : 1 write, in this run"),
        ("FMA peak", f"{rate(figures['peak_flops_per_second'], 'FLOP/s')} on all ranks   in this run"),
        *limit_rows(figures.get("limits", [])),
        ("sent", f"{rate(figures['step_bytes_sent'], 'B')} in {figures['step_messages']:.0f} messages per step, "
                 "all ranks"),
        ("energy used", energy_used(record)),
    ]  # fmt: skip
    share = f"{100 * (figures['communication_share'] or 0.0):.1f} % of the time in MPI and copies, mean over ranks"
    rows.append(("communication", share))
    for path, row in figures.get("paths", {}).items():
        told = f"{seconds(row['seconds_per_step'])} per step, {100 * row['communication_share']:.1f} % communication"
        rows.append((f"  path {path}", told))
    if "paths_note" in figures:
        rows.append(("  paths", figures["paths_note"]))
    return [*rows, *routine_rows(record)]


def energy_used(record: Record) -> str:
    """Energy to solution, or the reason why it is not known."""
    used = record["figures"]["energy_to_solution"]
    why = "; ".join(used["missing"])
    if used["joules"] is None:
        return f"not available: {why}"
    parts = ", ".join(f"{name} {rate(joules, 'J')}" for name, joules in used["parts_joules"].items())
    each = rate(record["figures"]["joules_per_step"] or 0.0, "J")
    rest = f"; not counted: {why}" if why else ""
    return f"{rate(used['joules'], 'J')} to solution, {each} per step ({parts}){rest}"


def routine_rows(record: Record) -> Rows:
    """Time of the profiled steps by routine, as in NekCEM's Table 3, the largest first."""
    timings, figures = record["timings"], record["figures"]
    total = timings["profiled_seconds"]
    head = f"{figures['profiled_steps']} steps with the recorder on: mean over ranks, slowest rank"
    rows = [("routine", head)]
    for name, value in sorted(timings["routines"].items(), key=lambda item: -item[1]["mean_seconds"]):
        share = 100 * value["mean_seconds"] / total if total > 0 else 0.0
        rows.append((f"  {name}", f"{seconds(value['mean_seconds'])} ({share:.1f} %), {seconds(value['max_seconds'])}"))
    return rows


def time_spent(record: Record) -> Parts:
    """Seconds of the recorded steps, and where they went."""
    return record["timings"]["profiled_seconds"], record["timings"]["breakdown"]


def tiles(record: Record) -> Rows:
    """The figures at the top of the page, each with a label."""
    figures, timings = record["figures"], record["timings"]
    if not figures["stable"]:
        return [("blown up", figures["unstable"])]
    tiles = [
        (rate(1e9 * figures["gflops"], "FLOP/s"), "by NekCEM's count (Eq. 16)"),
        (seconds(timings["seconds_per_step"] or 0.0), "per time step"),
        *limit_tiles(figures.get("limits", [])),
    ]
    if "relative_error" in figures:
        tiles.append((f"{figures['relative_error']:.2e}", "relative error, energy norm"))
    return tiles


def figures_of(record: Record) -> list[Plot]:
    """The plots a record has data for: heading, file name, figure."""
    from weft.report import maxwell_plots as plots
    from weft.report.planes import pictures

    found = record["statistics"]
    shown = pictures(found.get("planes", []), record["figures"]["boundaries"])
    if len(found["time"]) > 1:
        shown.append(("Energy of the fields", "energy", plots.energy(found, conserved(record))))
    if "error" in found:
        shown.append(("Error", "error", plots.error(found["error"])))
    return shown


def speed_figures_of(record: Record) -> list[Plot]:
    """The plots of the time of the steps: none."""
    return []


def conserved(record: Record) -> bool:
    """Whether the energy of the fields is conserved: nothing in the case adds or removes energy."""
    case, figures = record["case"], record["figures"]
    conducts = any(case["materials"].get(name, {}).get("sigma") for name in figures["elements_by_material"])
    open_ = "absorbing" in figures["boundaries"].values()
    return not (conducts or open_ or case["sources"] or case["layer"]["thickness"])
