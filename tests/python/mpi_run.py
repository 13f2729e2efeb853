"""Starts programs, on several ranks too, and waits for them with a time limit."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def mpiexec() -> str:
    """The launcher of the MPI that weft was built with: beside python, else on PATH."""
    beside = Path(sys.executable).with_name("mpiexec")
    launcher = str(beside) if beside.exists() else shutil.which("mpiexec")
    assert launcher is not None, "no mpiexec beside python nor on PATH"
    return launcher


def start(words: Sequence[str], variables: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """A process of its own session; unless ``variables`` says otherwise, with one thread."""
    return subprocess.Popen(
        list(words),
        env={**os.environ, **({"OMP_NUM_THREADS": "1"} if variables is None else variables)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Waits; a hang is a TimeoutExpired, which fails the test, and leaves no process behind."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def interrupt(process: subprocess.Popen[str]) -> None:
    """What a terminal does on Ctrl-C: one SIGINT to every process of the group, which `start` made.

    Not two to the launcher: of a second one it takes for another Ctrl-C, Hydra kills all ranks at once.
    """
    os.killpg(process.pid, signal.SIGINT)


def wait_until(
    condition: Callable[[], bool], process: subprocess.Popen[str] | None = None, seconds: float = 60
) -> None:
    """Returns when ``condition`` holds; fails after ``seconds``, or when ``process`` has ended without it."""
    limit = time.monotonic() + seconds
    while not condition():
        if process is not None and process.poll() is not None and not condition():
            raise AssertionError(f"ended with {process.returncode}: {process.communicate()}")
        assert time.monotonic() < limit, f"not within {seconds} s"
        time.sleep(0.05)


def _stat(pid: int) -> list[str]:
    """State, parent and so on of a process (proc(5), from the third field on); empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def alive(pids: Sequence[int]) -> list[int]:
    """Which of these processes still run; a zombie does not."""
    return [pid for pid in pids if (stat := _stat(pid)) and stat[0] != "Z"]


def descendants(process: subprocess.Popen[str]) -> list[int]:
    """The process and all that it and they have started, ranks in sessions of their own too."""
    stats = {int(entry.name): _stat(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    found = [process.pid]
    for parent in found:
        found += [pid for pid, stat in stats.items() if stat and int(stat[1]) == parent]
    return found


def mpi_run(ranks: int, code: str, *arguments: str, timeout: float = 60.0, **environment: str):
    """Run ``code`` under mpiexec; the result has returncode, stdout, stderr."""
    words = [mpiexec(), "-n", str(ranks), sys.executable, "-c", textwrap.dedent(code), *arguments]
    return finish(start(words, {"OMP_NUM_THREADS": "1", **environment}), timeout)


def weft_command(*arguments: object) -> list[str]:
    """The command line of ``weft``, from this tree."""
    return [sys.executable, "-m", "weft.cli.main", *map(str, arguments)]


def run_weft(ranks: int, *arguments: object, timeout: float = 120.0, **environment: str):
    """``weft`` on 1 rank by itself, on more under mpiexec."""
    launcher = [mpiexec(), "-n", str(ranks)] if ranks > 1 else []
    return finish(start([*launcher, *weft_command(*arguments)], {"OMP_NUM_THREADS": "1", **environment}), timeout)


class Workers:
    """A program on a number of ranks that answers one line of JSON with another: one launch for many cases."""

    def __init__(self, ranks: int, program: str, seconds: float = 60.0):
        self.number, self.seconds = ranks, seconds
        self.process = subprocess.Popen(
            [mpiexec(), "-n", str(ranks), sys.executable, str(Path(__file__).with_name(program))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, case: object) -> list[dict]:
        """The answer; fails if it takes longer than ``seconds``."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], self.seconds)
        assert ready, f"no answer in {self.seconds} s"
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(self.seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
