"""The printed output of a run."""

from __future__ import annotations

import time
from itertools import count

from weft.report.console import WIDTH, Console


def test_progress_is_wrapped_where_other_lines_are(monkeypatch, capsys) -> None:
    now = count(step=10.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    words = "step 3, " + ", ".join(f"quantity {n} {n / 7:.6g}" for n in range(12))
    Console().progress(6, lambda *_: words)(3)
    printed = capsys.readouterr().out
    assert all(len(line) <= WIDTH for line in printed.splitlines())
    assert " ".join(printed.split()) == f"weft: {words}, 10 s left"
