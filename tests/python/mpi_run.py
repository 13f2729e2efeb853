"""Starts programs, on several ranks too, and waits for them with a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

# Seconds after which a program counts as hanging; this is no limit on its speed.
SECONDS = 240.0
# The message of the first run that needs an order or a type (test_first_use.py); which run prints it depends on the
# cache.
COMPILING = "weft: compiling the "


def messages(stderr: str) -> list[str]:
    """weft's own lines in stderr, except the one about compiling."""
    return [line for line in stderr.splitlines() if line.startswith("weft") and not line.startswith(COMPILING)]


def mpiexec() -> str:
    """The launcher of the MPI that weft was built with: next to python, else on PATH."""
    beside = Path(sys.executable).with_name("mpiexec")
    launcher = str(beside) if beside.exists() else shutil.which("mpiexec")
    assert launcher is not None, "no mpiexec beside python nor on PATH"
    return launcher


def waiting(ranks: int | None) -> dict[str, str]:
    """Makes more than two ranks of MPICH sleep while they wait.

    If ranks share processors, yielding does not hand a processor to the rank that others wait for (mpi/crowd.hpp), and
    takes several times the processor time. One and two ranks wait as they do for users.
    """
    return {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"} if ranks is not None and ranks > 2 else {}


class Running(subprocess.Popen[bytes]):
    """A program in its own session, alone or on several ranks, whose output goes to files.

    There is one file per rank and stream. In a pipe that ranks share, their lines would mix, because a line may take
    several writes (as Python's ``print`` with PYTHONUNBUFFERED does). A file also has everything that a rank wrote
    before it was killed, which a launcher may lose.
    """

    # Run by each rank; the launchers of MPICH and of Open MPI tell it which it is.
    APART = 'rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}; exec "$@" >"$0/out.$rank" 2>"$0/err.$rank"'

    def __init__(self, words: Sequence[str], variables: Mapping[str, str], ranks: int | None):
        self.ranks, self.folder = ranks, Path(tempfile.mkdtemp(prefix="weft-run-"))
        if ranks is not None:
            words = [mpiexec(), "-n", str(ranks), "sh", "-c", self.APART, str(self.folder), *words]
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            super().__init__(
                list(words),
                env={**os.environ, **waiting(ranks), **variables},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def said(self, stream: str) -> str:
        """Everything written so far to ``out`` or ``err``: by rank 0, by rank 1 and so on, then by the launcher."""
        files = [self.folder / f"{stream}.{rank}" for rank in range(self.ranks or 0)] + [self.folder / stream]
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def end(self) -> None:
        """Kills the program and all processes that it started, ranks too; does nothing if it has ended."""
        if self.poll() is not None:
            return
        for pid in descendants(self):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.wait()


# The environment of all test programs: one thread, and little time spent on measuring the machine.
VARIABLES = {"OMP_NUM_THREADS": "1", "WEFT_BANDWIDTH_BYTES": str(1 << 24)}


def start(words: Sequence[str], variables: Mapping[str, str] | None = None, ranks: int | None = None) -> Running:
    """A program, under mpiexec if ``ranks`` are given; its environment has ``variables`` added."""
    return Running(words, VARIABLES if variables is None else variables, ranks)


def finish(process: Running, timeout: float = SECONDS) -> subprocess.CompletedProcess[str]:
    """Waits for the end; a hang raises TimeoutExpired, which fails the test, and leaves no process behind."""
    try:
        process.wait(timeout)
    except BaseException as error:
        process.end()
        error.add_note(f"It had said: {process.said('out')}\n{process.said('err')}")
        raise
    done = subprocess.CompletedProcess(process.args, process.returncode, process.said("out"), process.said("err"))
    shutil.rmtree(process.folder, ignore_errors=True)
    return done


def interrupt(process: Running) -> None:
    """Does what a terminal does on Ctrl-C: sends one SIGINT to every process of the group that `start` created.

    The launcher must not get two: Hydra takes the second for another Ctrl-C, and kills all ranks at once.
    """
    os.killpg(process.pid, signal.SIGINT)


def wait_until(condition: Callable[[], bool], process: Running | None = None, seconds: float = SECONDS) -> None:
    """Returns when ``condition`` holds; fails after ``seconds``, or when ``process`` has ended without it."""
    limit = time.monotonic() + seconds
    try:
        while not condition():
            if process is not None and process.poll() is not None and not condition():
                raise AssertionError(f"ended with {process.returncode}: {process.said('out')}\n{process.said('err')}")
            assert time.monotonic() < limit, f"not within {seconds} s"
            time.sleep(0.05)
    except BaseException:
        if process is not None:
            process.end()
        raise


def _stat(pid: int) -> list[str]:
    """State, parent and so on of a process (proc(5), from the third field on); empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def alive(pids: Sequence[int]) -> list[int]:
    """The processes among these that are still running; zombies are not."""
    return [pid for pid in pids if (stat := _stat(pid)) and stat[0] != "Z"]


def descendants(process: subprocess.Popen[bytes]) -> list[int]:
    """The process and all its descendants, including ranks in sessions of their own."""
    stats = {int(entry.name): _stat(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    found = [process.pid]
    for parent in found:
        found += [pid for pid, stat in stats.items() if stat and int(stat[1]) == parent]
    return found


def mpi_run(ranks: int, code: str, *arguments: str, timeout: float = SECONDS, **environment: str):
    """Run ``code`` under mpiexec; the result has returncode, stdout, stderr, each rank's lines together."""
    words = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return finish(start(words, {**VARIABLES, **environment}, ranks), timeout)


def mpi_prints(ranks: int, code: str, *arguments: str, timeout: float = SECONDS, **environment: str) -> str:
    """The output of ``code`` under `mpi_run`, which must succeed."""
    result = mpi_run(ranks, code, *arguments, timeout=timeout, **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def weft_command(*arguments: object) -> list[str]:
    """The command line of ``weft``, from this tree. Runs draw plots, which takes longer than they do, only if told so.

    Without a word about ``output.plots`` a user's run draws them; a test of each workload says PLOTS.
    """
    words = [str(argument) for argument in arguments]
    if words[:1] == ["run"] and len(words) > 2 and not any(word.startswith("output.plots=") for word in words):
        words += ["--set", "output.plots=false"]
    return [sys.executable, "-m", "weft.cli.main", *words]


PLOTS = ("--set", "output.plots=true")


def run_weft(ranks: int, *arguments: object, timeout: float = SECONDS, **environment: str):
    """Runs ``weft``, under mpiexec if there is more than one rank."""
    return finish(start(weft_command(*arguments), {**VARIABLES, **environment}, ranks if ranks > 1 else None), timeout)


class Workers:
    """A program on several ranks that answers each line of JSON with another, so that many cases need one launch."""

    # Rank 0 answers; all other output goes elsewhere, so that it cannot mix with an answer.
    APART = '[ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" = 0 ] || exec >&2; exec "$@"'

    def __init__(self, ranks: int, program: str, seconds: float = SECONDS):
        self.number, self.seconds = ranks, seconds
        worker = [sys.executable, str(Path(__file__).with_name(program))]
        self.process = subprocess.Popen(
            [mpiexec(), "-n", str(ranks), "sh", "-c", self.APART, "sh", *worker],
            env={**os.environ, **waiting(ranks), **VARIABLES},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, case: object) -> list[dict]:
        """The answer; fails if it takes longer than ``seconds``."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(case).encode() + b"\n")
        self.process.stdin.flush()
        answer, limit = b"", time.monotonic() + self.seconds
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, limit - time.monotonic()))
            assert ready, f"no answer in {self.seconds} s"
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            assert part, f"the workers ended: {self.process.wait()}"
            answer += part
        return json.loads(answer)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(self.seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
