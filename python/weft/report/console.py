"""The printed output of a run: a header, progress and the result, on rank 0 only."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.errors import say, tell
from weft.format import seconds, table
from weft.record import Record
from weft.report.rows import breakdown_rows
from weft.report.workloads import report_of

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

WIDTH = 100  # maximum width of lines


class Console:
    """Prints the progress of a run: a bar on a terminal, plain lines elsewhere, nothing if `quiet`.

    `verbose`: the header includes the timings of every exchange method tried.
    """

    def __init__(self, quiet: bool = False, verbose: bool = False) -> None:
        self.quiet = quiet
        self.verbose = verbose
        self.terminal = sys.stdout.isatty() and not quiet
        self._bar: Progress | None = None
        self._task: TaskID

    def write(self, text: str) -> None:
        """Removes the bar, and prints lines."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if not self.quiet:
            say(text)

    def _show(self, text: str, done: int = 0, total: int | None = None) -> None:
        if self._bar is None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("weft: {task.description}"), BarColumn(30), TimeElapsedColumn())
            # No thread for redrawing: it would run concurrently with the timed work.
            self._bar = Progress(*columns, transient=True, auto_refresh=False)
            self._bar.start()
            self._task = self._bar.add_task(text, total=None)
        self._bar.update(self._task, description=text, completed=done, total=total, refresh=True)

    def phase(self, text: str) -> None:
        """Names a step that may take long: on a terminal it is shown until the next one, elsewhere it is a line."""
        if self.terminal:
            self._show(text)
        else:
            self.write(f"weft: {text}")

    def warn(self, text: str) -> None:
        """Prints a message for the user to stderr, even if quiet."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        tell(f"weft: warning: {text}")

    def header(self, record: Record) -> None:
        """Prints what is about to run."""
        self.write(header(record, self.verbose))

    def progress(self, total: int, line: Callable[..., str]) -> Callable[..., None]:
        """A callback `show(step, *values)`, which shows `line(step, total, *values)` and the time left.

        A terminal is refreshed at most five times per second; elsewhere a line is printed at most every 5 s.
        """
        begin = shown = time.monotonic()

        def show(step: int, *values: float) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown < (0.2 if self.terminal else 5.0):
                return
            shown = now
            left = (now - begin) / max(1, step) * (total - step)
            text = f"{line(step, total, *values)}, {seconds(left)} left"
            if self.terminal:
                self._show(text, step, total)
            else:
                self.write(textwrap.fill(f"weft: {text}", line_width(), subsequent_indent=6 * " "))

        return show

    def result(self, record: Record) -> None:
        """Prints the result."""
        self.write(result(record))


class Silent(Console):
    """The display of every rank but the first."""

    def __init__(self) -> None:
        super().__init__(quiet=True)

    def warn(self, text: str) -> None:
        """Does nothing: rank 0 prints the message."""


def header(record: Record, verbose: bool = False) -> str:
    """The text for a terminal before the run: what will run, on which machine, and what was chosen."""
    report = report_of(record)
    rows = [(f"weft {record['versions']['weft']}", report.title(record)), *report.header_rows(record, verbose)]
    return table(rows, line_width())


def result(record: Record) -> str:
    """The text for a terminal after the run: the result, the speed, and where the time went."""
    report = report_of(record)
    rows = [*report.result_rows(record), *report.speed_rows(record), *breakdown_rows(report.time_spent(record))]
    return table(rows, line_width())


def line_width() -> int:
    """Width of printed lines: the terminal's, at most WIDTH; WIDTH without a terminal."""
    return min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns) if sys.stdout.isatty() else WIDTH
