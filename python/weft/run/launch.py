"""Starts `weft` on several ranks from a program that is not itself a rank, and describes the machine they run on."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from weft.run.memory_hooks import for_other_nodes


def cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_name() -> str:
    """The name of the processor, if the system reports it."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def mpiexec() -> str:
    """The launcher: mpiexec of this Python environment, else the first on PATH."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise RuntimeError("no mpiexec found: add the mpiexec of the MPI library that weft was built with to PATH")
    return found


def launch(ranks: int, arguments: Sequence[str], time_limit: int, threads: int | None = None) -> str:
    """Runs `weft ARGUMENTS` on `ranks` ranks and returns its output. Raises RuntimeError with its message if it fails.

    `threads`: threads per rank; default: OMP_NUM_THREADS, else one.
    """
    environment = {"OMP_NUM_THREADS": "1", **for_other_nodes()}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    # By default Open MPI refuses to run as root, or with more ranks than cores; other libraries ignore these variables.
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment |= {"OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    command = [mpiexec(), "-n", str(ranks), sys.executable, "-m", "weft.cli.main", *arguments]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        running.append(process)
        try:
            out, errors = process.communicate(timeout=time_limit)
        except subprocess.TimeoutExpired:
            end(process, signal.SIGTERM)
            raise RuntimeError(f"a run exceeded its time limit of {time_limit} s: {' '.join(command)}") from None
        finally:
            running.remove(process)
    if asked_to_stop:
        raise SystemExit(128 + asked_to_stop[0])
    if process.returncode != 0:
        lines = (errors.strip() or out.strip() or "nothing").splitlines()
        # Launchers and MPI libraries print lines of their own; weft's begins with its name.
        said = next((line for line in lines if line.startswith("weft")), lines[0])
        raise RuntimeError(f"a run failed (exit code {process.returncode}): {said}")
    return out


running: list[subprocess.Popen[str]] = []
asked_to_stop: list[int] = []  # the signal's number


def stop(number: int) -> bool:
    """Ends what `launch` has started, on behalf of a signal with this number; False if nothing is running.

    For the thread that handles signals. `launch` then raises SystemExit, so that its caller can clean up.
    """
    there = list(running)
    asked_to_stop.append(number)
    for process in there:
        end(process, signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)
    return bool(there)


def end(process: subprocess.Popen[str], number: int) -> None:
    """Asks the launcher to end its ranks; kills it if that takes too long."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.5)  # the terminal has signalled it too, and on a second Ctrl-C it would kill its ranks at once
        return
    process.send_signal(number)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
