#!/usr/bin/env python3
"""Runs the commands of documentation pages in a fresh clone, and lists those that fail.

    python benchmarks/page_commands.py [--limit 60] [PAGE ...]

The pages are the README and docs/*.md by default; each gets a clone of the repository and runs its commands in order. A
command that takes longer than the limit gets SIGTERM and must then end as documented. Commands that need a file of the
reader's own are not run, nor are the programs of benchmarks/. The pages of examples/ are run by gallery.py.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What a clone does not have: a GPU; traces of other programs, cases, measurements and machines of the reader.
READERS = {
    "FILE", "FOLDER", "FOLDER|FILE", "METHOD", "base", "before.json.gz", "before.sqlite", "cuda", "ddr.json", "delayed",
    "hbm.json", "intervals.csv", "matrix.mtx", "measured.json", "mine.toml", "my.toml", "operator.json", "other-run",
    "profile.json.gz", "profile.sqlite", "rank-0.json.gz", "ratio.json", "report.sqlite", "run-1", "run1", "runs.csv",
    "schedule.goal", "spectral_Re1600_512.gdiag", "sw4lite_256_2k_data.tgz", "trace-256", "trace.json", "trace.sqlite",
}  # fmt: skip


def commands(page: str) -> list[str]:
    """The command lines of the blocks of a page, without comments."""
    found = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines() if language in ("", "sh") else ():
            if re.match(r"(mpiexec -n \d+ )?(weft [a-z]|python examples/)", line) and "…" not in line:
                found.append(re.split(r"\s#(?:\s|$)", line)[0].strip())
    return found


def files(command: str) -> set[str]:
    """The files that a command may read: its words, also those of lists and behind "key=", and the folders of paths."""
    given = shlex.split(command)
    read = [word for before, word in zip(["", *given], given, strict=False) if before != "--output"]
    words = [part for word in read for part in word.rpartition("=")[2].split(",")]
    return {word for path in words for word in (path, path.partition("/")[0])}


def readers(command: str, folder: Path) -> set[str]:
    """The files of the reader's own that a command names, and that no earlier command has written."""
    return {name for name in files(command) & READERS if not (folder / name).exists()}


def run(command: str, folder: Path, limit: float) -> tuple[str, float]:
    """The failure of a command ("" if it succeeds), and its seconds."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PATH": path}
    begin = time.monotonic()
    pipe = subprocess.PIPE
    with subprocess.Popen(
        shlex.split(command), cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True, errors="replace"
    ) as process:
        stopped = False
        try:
            _, said = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            stopped = True
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate()
    last = "".join(said.replace("\r", "\n").strip().splitlines()[-1:])
    good = process.returncode == 0 or (stopped and last.startswith("weft: terminated"))
    return "" if good else f"exit code {process.returncode}: {last}", time.monotonic() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    parser.add_argument("pages", nargs="*", type=Path, default=pages, metavar="PAGE")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which a command gets SIGTERM")
    options = parser.parse_args()
    failed = 0
    for page in options.pages:
        with tempfile.TemporaryDirectory() as place:
            subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", place], check=True)
            for command in commands(page.read_text()):
                missing = readers(command, Path(place))
                failure, took = ("", 0.0) if missing else run(command, Path(place), options.limit)
                state = f"not run: {', '.join(sorted(missing))}" if missing else failure or f"{took:.0f} s"
                print(f"{page.name}: {command}\n    {state}", flush=True)
                failed += bool(failure)
    if failed:
        raise SystemExit(f"{failed} commands failed")


if __name__ == "__main__":
    main()
