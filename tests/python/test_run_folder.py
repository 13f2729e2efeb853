"""The folder of a run: a new run replaces the files of an earlier one, but never deletes its checkpoints.

It does not share the folder with a run in progress.
"""

from __future__ import annotations

import fcntl
import json
import signal
from pathlib import Path

import pytest
from mpi_run import finish, run_weft, start, wait_until, weft_command

SMALL = {
    "poisson": ["--order", "3", "--set", "mesh.counts=[2,2,2]"],
    "maxwell": ["--case", "cavity", "--order", "3", "--steps", "2"],
    "flow": ["--order", "3", "--set", "mesh.counts=[2,2,2]", "--steps", "2"],
    "turbulence": ["--set", "grid=16", "--steps", "2"],
}
# Everything that a run can write.
DRAWN = ["output.plots=true", "output.trace=true"]
ALL = {
    "poisson": [*DRAWN, "output.fields=true", 'output.slice=["u","u@x=0.25"]'],
    "maxwell": [*DRAWN, "output.fields=true", 'output.slice=["ez","e@x=0.25"]', "output.movie=1",
                "probes.centre=[0.5,0.5,0.5]", "checkpoint.every=1"],
    "flow": [*DRAWN, "output.fields=true", "output.nek=true", "output.every=1", 'output.slice=["speed","u@x=0.25"]',
             "output.movie=1", "output.averages_every=1", 'output.average_over=["x","y"]',
             "probes.centre.at=[1,1,1]", "checkpoint.every=1"],
    "turbulence": [*DRAWN, "output.fields=true", "output.movie=1", "statistics.hdf5=true",
                   "statistics.transfer=true", "checkpoint.every=1"],
}  # fmt: skip


def run(ranks: int, workload: str, folder: Path, settings: list[str], *more: str) -> str:
    words = [part for setting in settings for part in ("--set", setting)]
    done = run_weft(ranks, "run", workload, *SMALL[workload], "--output", folder, *words, *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("workload", SMALL)
def test_a_new_run_leaves_what_it_leaves_in_a_new_folder(tmp_path, workload) -> None:
    exchange = ["exchange=pairwise:direct"]
    old, new = tmp_path / "old", tmp_path / "new"
    run(2, workload, old, ALL[workload] + exchange)
    assert run_weft(1, "report", old).returncode == 0
    mine = old / "notes.txt"
    mine.write_text("mine")
    before = {path.name for path in old.glob("checkpoints/*")}
    assert before == (set() if workload == "poisson" else {"checkpoint-00000001", "checkpoint-00000002"})
    said = run(1, workload, old, [])
    assert "replaced" in said
    run(1, workload, new, [])
    kept = {f"checkpoints/earlier-1/{name}" for name in before}
    left = set(names(old)) - {"notes.txt"}
    if before:
        assert kept <= left
        assert f"moved to {old}/checkpoints/earlier-1" in said
        left -= {name for name in left if name.startswith("checkpoints")}
    assert left == set(names(new))


def test_a_run_that_continues_keeps_files_and_checkpoints(tmp_path) -> None:
    run(1, "flow", tmp_path, ["output.fields=true", "checkpoint.every=1", "checkpoint.keep=3"])
    before = set(names(tmp_path))
    settings = ["checkpoint.at_end=true", "checkpoint.keep=3"]
    said = run(1, "flow", tmp_path, settings, "--restart", str(tmp_path / "checkpoints"))
    assert "replaced" not in said
    assert "moved" not in said
    assert before <= set(names(tmp_path))
    assert {p.name for p in (tmp_path / "checkpoints").iterdir()} == {f"checkpoint-0000000{n}" for n in (1, 2, 4)}


def test_a_third_run_sets_checkpoints_aside_under_a_new_name(tmp_path) -> None:
    for expected in (set(), {"earlier-1"}, {"earlier-1", "earlier-2"}):
        run(1, "turbulence", tmp_path, ["checkpoint.at_end=true"])
        folder = tmp_path / "checkpoints"
        assert {path.name for path in folder.iterdir()} == {"checkpoint-00000002"} | expected


def test_files_in_a_folder_that_holds_no_run_are_not_deleted(tmp_path) -> None:
    (tmp_path / "movie.mp4").write_text("mine")
    (tmp_path / "slice-2.png").write_text("mine")
    run(1, "flow", tmp_path, [])
    assert (tmp_path / "movie.mp4").read_text() == (tmp_path / "slice-2.png").read_text() == "mine"


def test_a_folder_in_use_is_refused_before_anything_is_computed(tmp_path) -> None:
    with (tmp_path / "unfinished.json").open("w") as file:
        file.write('{"case": {"workload": "flow"}}')
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        done = run_weft(2, "run", "flow", *SMALL["flow"], "--output", tmp_path)
        assert done.returncode != 0
        assert done.stderr.count(f"--output {tmp_path}: is in use by a run in progress") == 1
    run(1, "flow", tmp_path, [])
    assert not (tmp_path / "unfinished.json").exists()


def test_a_run_that_was_killed_is_said_to_be_unfinished_and_is_replaced(tmp_path) -> None:
    words = [*SMALL["flow"], "--steps", "100000", "--set", "output.fields=true", "--set", "output.every=1"]
    running = start(weft_command("run", "flow", *words, "--output", tmp_path))
    wait_until(lambda: bool(list(tmp_path.glob("flow-*.vtu"))), running)
    running.send_signal(signal.SIGKILL)
    finish(running)
    assert json.loads((tmp_path / "unfinished.json").read_text())["case"]["workload"] == "flow"
    shown = run_weft(1, "report", tmp_path)
    assert shown.returncode != 0
    assert "the run has not finished" in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1
    run(1, "flow", tmp_path, [])
    assert not list(tmp_path.glob("flow-*"))
    assert not (tmp_path / "unfinished.json").exists()
