"""The tables and the page of a `weft run poisson`."""

from __future__ import annotations

from weft.format import rate, seconds
from weft.record import Figures, Multigrid, Record
from weft.report.rows import Parts, Plot, Rows, choice_rows, exchange_rows, limit_rows, limit_tiles, machine_rows


def title(record: Record) -> str:
    """A line that says what was run."""
    return f"{record['case']['workload']}, lambda = {record['case']['lambda']:g}"


def heading(record: Record) -> str:
    """The heading of a page: what was run."""
    return f"{record['case']['workload']}: {record['figures']['mesh']}, N = {record['figures']['order']}"


def header_rows(record: Record, verbose: bool = False) -> Rows:
    """Mesh, sizes, machine and choices; `verbose`: with the timings of the exchanges that were tried."""
    case, figures = record["case"], record["figures"]
    rows = [
        (
            "mesh",
            f"{figures['mesh']}: {figures['elements']:,} elements, {'straight' if figures['straight'] else 'curved'}",
        ),
        ("order", f"N = {figures['order']}, {case['precision']} precision"),
        ("unknowns", f"N_G = {figures['dofs']:,} degrees of freedom, N_L = {figures['points']:,} element-local points"),
        *machine_rows(record),
    ]
    # The choices of the solver are known only after it has run: result_rows shows them.
    return [*rows, *choice_rows(record["choices"], verbose), *exchange_rows(record["choices"]["exchange"], verbose)]


def result_rows(record: Record) -> Rows:
    """The error, and whether the solver converged; nothing for a benchmark."""
    figures, case = record["figures"], record["case"]
    rows = []
    if "l2_error" in figures:
        rows.append(("error", f"{figures['l2_error']:.3e}, L2 norm of the difference from the known solution"))
    if figures["converged"] is not None:
        reached = "converged" if figures["converged"] else "NOT CONVERGED"
        true = figures.get("true_residual")
        found = "" if true is None else f", |b - A x| = {true:.3g} |b|"
        rows.append(("solver", f"{reached}: tolerance {case['solver']['tolerance']:g} |b|{found}"))
    return rows


def speed_rows(record: Record) -> Rows:
    """Time, figures of merit with the formulas behind them, and the limits."""
    figures, timings = record["figures"], record["timings"]
    formulas = figures["formulas"]
    residuals = record["residuals"]
    drop = residuals[-1] / residuals[0] if residuals and residuals[0] > 0 else 0.0
    n = figures["iterations"]
    algorithm = record["choices"]["algorithm"]
    if algorithm in ("classic", "merged"):
        algorithm += " conjugate gradients"
    setup = timings["mesh_seconds"] + timings["operator_seconds"] + timings["right_hand_side_seconds"]
    rows = [
        ("set-up", f"{seconds(setup)}; {figures['memory_bytes_per_point']:.0f} bytes per point"),
        ("solve", f"{algorithm}, {n} iterations in {seconds(timings['solve_seconds'])}, "
                  f"{seconds(timings['seconds_per_iteration'])} each; |r| / |r0| = {drop:.3e}"),
    ]  # fmt: skip
    if "multigrid" in record["choices"]:
        rows.append(("cycle", cycle_of(record["choices"]["multigrid"])))
    if "dofs_per_second" in formulas:
        reached = rate(figures["dofs_per_second"] or 0.0, "DOF/s")
        return [*rows, ("to solution", f"{reached}   {formulas['dofs_per_second']}")]
    return rows + benchmark_rows(figures, formulas)


def cycle_of(multigrid: Multigrid) -> str:
    """The levels and the smoother of a multigrid cycle."""
    orders = ", ".join(str(order) for order in multigrid["orders"])
    sizes = ", ".join(f"{size:,}" for size in multigrid["algebraic_level_unknowns"])
    below = f"; below these, algebraic levels of {sizes} unknowns" if sizes else ""
    smoother = f"{multigrid['smoother']} of degree {multigrid['degree']}"
    return f"orders {orders}{below}; {smoother}, {multigrid['precision']} precision"


def benchmark_rows(figures: Figures, formulas: dict[str, str]) -> Rows:
    """Nekbone's figure of merit, hipBone's throughput, the limits and the paper's roofline."""
    return [
        ("FOM", f"{rate(1e9 * figures['fom_gflops'], 'FLOP/s')}   {formulas['fom_gflops']}"),
        ("throughput", f"{rate(figures['throughput_dofs_per_second_per_rank'], 'DOF/s')} per rank   "
                       f"{formulas['throughput_dofs_per_second_per_rank']}"),
        ("bandwidth", f"{rate(figures['bandwidth_bytes_per_second'], 'B/s')} on all ranks   "
                      "8 reads : 1 write, in this run"),
        ("FMA peak", f"{rate(figures['peak_flops_per_second'], 'FLOP/s')} on all ranks   in this run"),
        ("bytes", f"{rate(figures['iteration_bytes'], 'B')} per iteration   {formulas['iteration_bytes']}"),
        ("  paper's", f"{rate(figures['iteration_bytes_paper'], 'B')}   {formulas['iteration_bytes_paper']}"),
        ("flops", f"{rate(figures['iteration_flops'], 'FLOP')} per iteration   {formulas['iteration_flops']}"),
        *limit_rows(figures.get("limits", [])),
        ("roofline", f"{100 * figures['roofline_fraction_paper']:.0f} % of the paper's (its bytes and operations)"),
    ]  # fmt: skip


def time_spent(record: Record) -> Parts:
    """Seconds of the solve, and where they went."""
    return record["timings"]["solve_seconds"], record["timings"]["breakdown"]


def tiles(record: Record) -> Rows:
    """The figures at the top of the page, each with a label."""
    figures, timings = record["figures"], record["timings"]
    solve = (seconds(timings["solve_seconds"]), f"{figures['iterations']} iterations")
    if "fom_gflops" not in figures:
        return [(rate(figures["dofs_per_second"] or 0.0, "DOF/s"), "unknowns per second to solution"), solve]
    return [
        (rate(1e9 * figures["fom_gflops"], "FLOP/s"), "figure of merit, Nekbone's count (Eq. 3)"),
        (rate(figures["throughput_dofs_per_second_per_rank"], "DOF/s"), "throughput per rank (Eq. 6)"),
        *limit_tiles(figures.get("limits", [])),
        solve,
    ]


def figures_of(record: Record) -> list[Plot]:
    """The plots of the solution that a record has data for: heading, file name, figure."""
    from weft.report.planes import pictures

    return pictures(record.get("statistics", {}).get("planes", []), {})


def speed_figures_of(record: Record) -> list[Plot]:
    """The history of the residual."""
    from weft.report import plots

    if len(record["residuals"]) < 2:
        return []
    return [("Residual", "residuals", plots.residuals(record["residuals"]))]
