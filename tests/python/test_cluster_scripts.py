"""The job scripts of examples/cluster: with a stand-in for srun everywhere, and under Slurm if it is running."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mpi_run import SECONDS, VARIABLES, descendants, finish, mpiexec, start, wait_until
from test_docs import parsed

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "cluster"
SCRIPTS = sorted([*FOLDER.glob("*.sh"), *FOLDER.glob("*.sbatch")])
POISSON = ["run", "poisson", "--set", "mesh.counts=[2,2,2]", "--exchange", "pairwise:direct", "--quiet"]
TURBULENCE = ["run", "turbulence", "--grid", "12", "--set", "time.dt=1e-4", "--exchange", "pairwise:direct", "--quiet"]

# Starts the command after srun's options on this machine.
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
exec {mpiexec} -n "$SLURM_NTASKS" "$@"
"""


def weft_words(script: str) -> list[list[str]]:
    """The command lines of weft that a script types or shows."""
    lines = re.findall(r"^(?:# +sbatch [\w.]+sbatch(?: OUTPUT)?| *srun .*weft) ((?:run|info|bench)\b.*)$", script, re.M)
    return [shlex.split(line.partition(" --output")[0]) for line in lines]


@pytest.fixture
def job(tmp_path, monkeypatch):
    """The environment that Slurm sets for a job on 2 ranks, with recording stand-ins for srun and scontrol on PATH."""
    place = tmp_path / "bin"
    place.mkdir()
    for name, text in {
        "srun": SRUN.format(mpiexec=mpiexec()),
        "scontrol": f'#!/bin/sh\necho "$@" >> {tmp_path}/scontrol\n',
    }.items():
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    activate = tmp_path / "venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f'PATH={place}:{Path(sys.executable).parent}:"$PATH"\n')
    monkeypatch.chdir(tmp_path)
    return {
        **VARIABLES,
        "WEFT_VENV": str(tmp_path / "venv"),
        "WEFT_SCRIPTS": str(FOLDER),
        "SLURM_NTASKS": "2",
        "SLURM_JOB_ID": "17",
        "SLURM_ARRAY_TASK_ID": "2",
    }


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_every_script_is_bash_and_types_commands_that_exist(script: Path) -> None:
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, timeout=SECONDS)
    assert done.stderr == ""
    for words in weft_words(script.read_text()):
        parsed(words)


def test_the_commands_of_the_scripts_are_found() -> None:
    found = [words[:2] for script in SCRIPTS for words in weft_words(script.read_text())]
    assert ["run", "flow"] in found
    assert ["bench", "pingpong"] in found
    assert ["info"] in found
    for line in (FOLDER / "runs.txt").read_text().splitlines():
        parsed(shlex.split(line))


@pytest.mark.parametrize("script", ["run.sbatch", "gpu.sbatch"])
def test_a_job_runs_one_command_on_all_ranks(job, tmp_path, script: str) -> None:
    done = finish(start(["bash", str(FOLDER / script), *POISSON, "--output", "out"], job))
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "run.json").read_text())["machine"]["ranks"] == 2


def test_a_job_of_an_array_runs_its_line(job, tmp_path) -> None:
    (tmp_path / "runs.txt").write_text(f"{shlex.join(POISSON)}\n{shlex.join(POISSON)} --tolerance 1e-3\n")
    done = finish(start(["bash", str(FOLDER / "array.sbatch"), "runs.txt", "study"], job))
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "study" / "2" / "run.json").read_text())["case"]["solver"]["tolerance"] == 1e-3
    done = finish(
        start(["bash", str(FOLDER / "array.sbatch"), "runs.txt", "study"], {**job, "SLURM_ARRAY_TASK_ID": "3"})
    )
    assert done.returncode == 2
    assert "no line 3" in done.stderr


def test_a_chain_queues_itself_again_after_the_signal_and_ends_as_one_run_would(job, tmp_path) -> None:
    words = ["bash", str(FOLDER / "chain.sbatch"), "out", *TURBULENCE]
    process = start([*words, "--end", "100"], job)
    wait_until((tmp_path / "out" / "statistics.csv").exists, process)
    ranks = [pid for pid in descendants(process) if b"weft\0run" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    for pid in [pid for pid in ranks if b"python" in Path(f"/proc/{pid}/cmdline").read_bytes()][-2:]:
        os.kill(pid, signal.SIGTERM)
    done = finish(process)
    assert done.returncode == 143, done.stderr
    assert (tmp_path / "scontrol").read_text() == "requeue 17\n"
    (checkpoint,) = (tmp_path / "out" / "checkpoints").iterdir()
    step = int(checkpoint.name.rpartition("-")[2])
    assert step > 0
    end = (step + 10) * 1e-4
    done = finish(start([*words, "--end", f"{end:.4f}"], job))
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "out" / "run.json").read_text())["figures"]
    assert figures["began_from"].endswith(checkpoint.name)
    assert figures["steps"] == 10
    assert (tmp_path / "scontrol").read_text() == "requeue 17\n"


def slurm_runs() -> bool:
    """Whether a Slurm with two idle nodes is running here."""
    if shutil.which("sbatch") is None:
        return False
    done = subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], capture_output=True, text=True, timeout=SECONDS)
    return done.returncode == 0 and sum(map(int, done.stdout.split())) >= 2


@pytest.mark.skipif(not slurm_runs(), reason="no Slurm with two idle nodes is running")
@pytest.mark.parametrize("number", ["TERM", "USR1"])
def test_under_slurm_a_signal_leaves_a_checkpoint_and_the_job_is_queued_again(tmp_path, number: str) -> None:
    environment = {**os.environ, "WEFT_VENV": str(Path(sys.executable).parents[1]), "WEFT_SCRIPTS": str(FOLDER)}

    def slurm(*words: object) -> str:
        done = subprocess.run(
            [*map(str, words)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    job = slurm("sbatch", "--parsable", FOLDER / "chain.sbatch", "out", *TURBULENCE, "--end", 100)
    try:
        wait_until((tmp_path / "out" / "statistics.csv").exists)
        slurm("scancel", f"--signal={number}", job)
        wait_until(lambda: slurm("squeue", "--noheader", "--format=%t", f"--jobs={job}") == "PD")
        assert len(list((tmp_path / "out" / "checkpoints").iterdir())) == 1
        (log,) = tmp_path.glob("*.log")
        assert "continue with --restart out/checkpoints/checkpoint-" in log.read_text()
    finally:
        slurm("scancel", job)
