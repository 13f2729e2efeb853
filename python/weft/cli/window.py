"""Options that cut a window out of a trace; they are the same for every command that reads traces."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from weft.cli.options import integers

_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "µs": 10**3, "ns": 1, "min": 60 * 10**9, "": 10**9}


class Time(click.ParamType[int]):
    """A time such as 1.5s, 200ms or 30us, in seconds if it has no unit; the value is in nanoseconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip()
        found = re.fullmatch(r"(\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})\s*([a-zµ]*)", text)
        if found is None or found[2] not in _UNITS:
            self.fail(f"'{text}' is not a time such as 1.5s, 200ms or 30us", param, ctx)
        return round(float(found[1]) * _UNITS[found[2]])


TIME = Time()
_OPTIONS = (
    click.option("--from", "window_start", type=TIME, metavar="TIME",
                 help="Cut what happens before TIME since the first event, such as 1.5s, 200ms or 30us."),
    click.option("--to", "window_end", type=TIME, metavar="TIME", help="Cut what happens after TIME."),
    click.option("--range", "window_range", metavar="NAME",
                 help="Keep the time of a named range (NVTX, roctx, record_function): NAME, NAME#K for its K-th "
                      "occurrence from 0, a pattern with *, or a step's number or numbers, such as 5 or 5-7."),
    click.option("--rank", "window_ranks", metavar="LIST", help="Keep these ranks or processes, such as 0-3,7."),
    click.option("--thread", "window_threads", multiple=True, metavar="NAME",
                 help="Keep this host thread and the device work it launched; repeatable."),
    click.option("--stream", "window_streams", multiple=True, metavar="NAME",
                 help="Keep this stream of the device's streams; repeatable."),
)  # fmt: skip


def takes_window(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a command with these options, which it receives as one argument `window`."""

    @wraps(command)
    def wrapped(*arguments: Any, window_ranks: str | None, **options: Any) -> Any:
        from weft.traces.window import Window  # not at the top: it loads NumPy, which --help does not need

        given = {name: options.pop(f"window_{name}") for name in ("start", "end", "range", "threads", "streams")}
        ranks = () if window_ranks is None else tuple(integers(window_ranks, "rank", 0))
        return command(*arguments, window=Window(ranks=ranks, **given), **options)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped
