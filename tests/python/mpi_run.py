"""Runs a few lines of Python on several ranks, with a time limit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path


def mpiexec() -> str:
    """The launcher of the MPI that weft was built with: beside python, else on PATH."""
    beside = Path(sys.executable).with_name("mpiexec")
    launcher = str(beside) if beside.exists() else shutil.which("mpiexec")
    assert launcher is not None, "no mpiexec beside python nor on PATH"
    return launcher


def mpi_run(ranks: int, code: str, *arguments: str, timeout: float = 60.0, **environment: str):
    """Run ``code`` under mpiexec; the result has returncode, stdout, stderr. A hang is a TimeoutExpired, and leaves
    no process behind."""
    process = subprocess.Popen(
        [mpiexec(), "-n", str(ranks), sys.executable, "-c", textwrap.dedent(code), *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
