"""What a run prints: a header, progress, and the result, by rank 0 only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from weft.report.format import rate, seconds, table

Record = dict[str, Any]


class Console:
    """Prints a run as it goes: a bar on a terminal, plain lines elsewhere, nothing where `quiet`.

    `verbose`: the header has the timings of every way to exchange that was tried.
    """

    def __init__(self, quiet: bool = False, verbose: bool = False) -> None:
        self.quiet = quiet
        self.verbose = verbose
        self.terminal = sys.stdout.isatty() and not quiet
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def write(self, text: str) -> None:
        """Prints lines, after wiping the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if not self.quiet:
            print(text, flush=True)

    def _show(self, text: str, done: int = 0, total: int | None = None) -> None:
        if self._bar is None:
            columns = (TextColumn("weft: {task.description}"), BarColumn(30), TimeElapsedColumn())
            # No thread that redraws: it would run beside the work that is timed.
            self._bar = Progress(*columns, transient=True, auto_refresh=False)
            self._bar.start()
            self._task = self._bar.add_task(text, total=None)
        self._bar.update(self._task, description=text, completed=done, total=total, refresh=True)

    def phase(self, text: str) -> None:
        """Names a step that may take long: shown until the next on a terminal, a line of its own elsewhere."""
        if self.terminal:
            self._show(text)
        else:
            self.write(f"weft: {text}")

    def header(self, record: Record) -> None:
        """What is about to run."""
        self.write(header(record, self.verbose))

    def progress(self, total: int) -> Callable[[int, float], None]:
        """A callback for iteration and residual norm: at most five times a second on a terminal, else every 5 s."""
        shown = time.monotonic()

        def show(iteration: int, residual: float) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown < (0.2 if self.terminal else 5.0):
                return
            shown = now
            if self.terminal:
                self._show(f"iteration {iteration} of at most {total}, |r| = {residual:.3e}", iteration, total)
            else:
                self.write(f"weft: iteration {iteration} of at most {total}, |r| = {residual:.3e}")

        return show

    def result(self, record: Record) -> None:
        """What came out."""
        self.write(result(record))


class Silent(Console):
    """The display of every rank but the first."""

    def __init__(self) -> None:
        super().__init__(quiet=True)


Rows = list[tuple[str, str]]


def header(record: Record, verbose: bool = False) -> str:
    """Mesh, sizes, machine and choices, for a terminal."""
    case = record["case"]
    title = (f"weft {record['versions']['weft']}", f"{case['workload']}, lambda = {case['lambda']:g}")
    return table([title, *header_rows(record, verbose)])


def header_rows(record: Record, verbose: bool = False) -> Rows:
    """Mesh, sizes, machine and choices; `verbose`: with the timings of the exchanges that were tried."""
    case, figures, machine = record["case"], record["figures"], record["machine"]
    device = machine["device"]
    rows = [
        (
            "mesh",
            f"{figures['mesh']}: {figures['elements']:,} elements, {'straight' if figures['straight'] else 'curved'}",
        ),
        ("order", f"N = {figures['order']}, {case['precision']} precision"),
        ("unknowns", f"N_G = {figures['dofs']:,} degrees of freedom, N_L = {figures['points']:,} element-local points"),
        (
            "ranks",
            f"{machine['ranks']}, {machine['threads_per_rank']} thread(s) each, {machine['ranks_per_node']} a node",
        ),
        ("device", f"{device['backend']}: {device['name']} ({device['architecture']})"),
        ("MPI", record["versions"]["mpi"]),
    ]
    # The algorithm is known only once it has run: result_rows tells it.
    for name, choice in record["choices"].items():
        if name == "exchange":
            rows += exchange_rows(choice, verbose)
        elif name != "algorithm":
            rows.append((f"  {name}", choice))
    return rows


def exchange_rows(tunings: Record, timings: bool) -> Rows:
    """What was chosen for every exchange and why; `timings`: and what was tried."""
    rows = []
    for use, tuning in tunings.items():
        took = "from the cache" if tuning["cached"] else f"timed in {seconds(tuning['tuning_seconds'])}"
        rows.append(
            (
                "  exchange",
                f"{use.replace('_', '-')} {tuning['chosen']}: {tuning['reason']}"
                + (f" ({took})" if tuning["timings"] else ""),
            )
        )
        if timings:
            rows += [(f"    {row['exchange']}", timing_in_words(row)) for row in tuning["timings"]]
    return rows


def timing_in_words(row: Record) -> str:
    """One line of the table of timings."""
    if row["failure"]:
        return f"not usable: {row['failure']}"
    if row["repetitions"] == 0:
        return "not timed: the others cannot be used"
    stopped = ", stopped early" if row["stopped_early"] else ""
    return f"{seconds(row['median_seconds'])}, median of {row['repetitions']}{stopped}"


def result(record: Record) -> str:
    """The result and the breakdown, for a terminal."""
    return table([*result_rows(record), *breakdown_rows(record)])


def result_rows(record: Record) -> Rows:
    """Time, figures of merit with what they count, and the roofline."""
    figures, timings, case = record["figures"], record["timings"], record["case"]
    formulas = figures["formulas"]
    residuals = record["residuals"]
    drop = residuals[-1] / residuals[0] if residuals and residuals[0] > 0 else 0.0
    n = figures["iterations"]
    algorithm = record["choices"]["algorithm"]
    setup = sum(v for k, v in timings.items() if k in ("mesh_seconds", "operator_seconds", "right_hand_side_seconds"))
    rows = [
        ("set-up", f"{seconds(setup)}; {figures['memory_bytes_per_point']:.0f} bytes a point"),
        ("solve", f"{algorithm} conjugate gradients, {n} iterations in {seconds(timings['solve_seconds'])}, "
                  f"{seconds(timings['seconds_per_iteration'])} each; |r| / |r0| = {drop:.3e}"),
        ("FOM", f"{figures['fom_gflops']:.2f} GFLOP/s   {formulas['fom_gflops']}"),
        ("throughput", f"{rate(figures['throughput_dofs_per_second_per_rank'], 'DOF/s')} a rank   "
                       f"{formulas['throughput_dofs_per_second_per_rank']}"),
        ("bandwidth", f"{rate(figures['bandwidth_bytes_per_second'], 'B/s')} in all   8 reads : 1 write, in this run"),
        ("FMA peak", f"{rate(figures['peak_flops_per_second'], 'FLOP/s')} in all   in this run"),
        ("bytes", f"{rate(figures['iteration_bytes'], 'B')} an iteration   {formulas['iteration_bytes']}"),
        ("  paper's", f"{rate(figures['iteration_bytes_paper'], 'B')}   {formulas['iteration_bytes_paper']}"),
        ("flops", f"{rate(figures['iteration_flops'], 'FLOP')} an iteration   {formulas['iteration_flops']}"),
        ("roofline", f"{100 * figures['roofline_fraction']:.0f} % of it reached with weft's own bytes, "
                     f"{100 * figures['roofline_fraction_paper']:.0f} % with the paper's"),
    ]  # fmt: skip
    if "l2_error" in figures:
        rows.append(("error", f"{figures['l2_error']:.3e}, L2 norm of the difference from the known solution"))
    if figures["converged"] is not None:
        reached = "converged" if figures["converged"] else "NOT CONVERGED"
        rows.append(("solver", f"{reached}: tolerance {case['solver']['tolerance']:g} |b|"))
    return rows


def breakdown_rows(record: Record) -> Rows:
    """Where the solve's time went, by category."""
    timings = record["timings"]
    total = timings["solve_seconds"]
    rows = [("time in", "mean over ranks, slowest rank")]
    for category, value in timings["breakdown"].items():
        share = 100 * value["mean_seconds"] / total if total > 0 else 0.0
        rows.append(
            (f"  {category}", f"{seconds(value['mean_seconds'])} ({share:.1f} %), {seconds(value['max_seconds'])}")
        )
    return rows
