"""The folder of a run: whether the run may use it, how it is locked, and what happens to the files of an earlier run.

A run that starts anew replaces the files of an earlier run of its workload, so that a folder describes one run. It
never deletes earlier checkpoints, but moves them aside. A run that continues from a checkpoint keeps everything.

While a run lasts, its folder holds `unfinished.json` with the case. Rank 0 keeps this file locked, so that other runs
refuse the folder; a run that ends before its last step leaves the file behind, but not the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mpi4py import MPI

from weft import mpi
from weft.cases.schema import workload_name
from weft.cases.shared import SharedCase
from weft.files import named, writable
from weft.record import SCHEMA, UNFINISHED
from weft.run.record import Display

# The output of runs and of `weft report`, by workload: files, and folders with the files of several ranks.
RESULTS = {
    "poisson": ["solution", "solution.*vtu", "residuals.png"],
    "maxwell": ["fields", "fields.*vtu", "probes.csv", "energy.png", "error.png"],
    "flow": [
        *("flow-[0-9]*", "flow.pvd", "flow0.f[0-9]*", "flow.nek5000", "averages", "averages.*vtu", "profiles.csv"),
        *("statistics.csv", "probe-*.csv", "history.png", "profile.png", "steps.png", "phases.png"),
    ],
    "turbulence": [
        *("statistics.csv", "spectra.csv", "moments.csv", "pdf.csv", "statistics.h5", "enstrophy_slice.npy"),
        *("fields.vtkhdf", "fields.xdmf", "enstrophy.png", "history.png", "spectrum.png", "transfer.png"),
        "distributions.png",
    ],
}
SHARED = [
    *("run.json", "run.html", "planes.npz", "trace.json", "view.png", "slice.png", "slice-[0-9]*.png", "movie.*"),
    "frames",
]

_locked: IO[str] | None = None  # unfinished.json of the run in progress, on rank 0


def require_folder(case: SharedCase, comm: MPI.Intracomm) -> None:
    """Checks, without leaving a trace, that a run can write into its folders.

    Raises CollectiveError, which names the option, if it cannot, or if the folders have files of another workload or of
    a run in progress. (collective)
    """
    folder = Path(case.output.directory)
    require_writable(folder, "--output", comm)
    if checkpoints := folder_of_checkpoints(case):
        require_writable(checkpoints, "checkpoint.directory", comm)
    require_own(folder, workload_name(type(case)), comm)


def folder_of_checkpoints(case: SharedCase) -> Path | None:
    """The folder of a case's checkpoints; None if its workload has none."""
    section = getattr(case, "checkpoint", None)
    return Path(section.directory or Path(case.output.directory) / "checkpoints") if section else None


def require_writable(folder: Path, given_by: str, comm: MPI.Intracomm) -> None:
    """Checks, without leaving a trace, that a file can be created in the folder.

    Raises CollectiveError, which names the option, if it cannot. (collective)
    """
    problem = ""
    if comm.rank == 0:
        try:
            writable(folder)
        except OSError as error:
            problem = f"{given_by} {folder}: cannot be written: {error.strerror}"
    problem = comm.bcast(problem)
    if problem:
        raise mpi.CollectiveError(problem)


def require_own(folder: Path, workload: str, comm: MPI.Intracomm) -> None:
    """Checks that a run may write to a folder.

    Raises CollectiveError if the folder holds a run in progress, or a run of another workload, whose files would mix
    with those of this one. (collective)
    """

    def other() -> str:
        if comm.rank != 0:
            return ""
        if _in_progress(folder / UNFINISHED):
            return "is in use by a run in progress; choose another folder, or wait"
        for path in (folder / "run.json", folder / UNFINISHED):
            with contextlib.suppress(FileNotFoundError):
                found = _workload(path)
                if found != workload:
                    what = f"a run of {found!r}" if found else f"a {path.name} that is not weft's"
                    return f"holds {what}; choose another folder, or delete it"
        return ""

    if problem := comm.bcast(mpi.together(comm, other)):
        raise mpi.CollectiveError(f"--output {folder}: {problem}")


def _workload(path: Path) -> str:
    """The workload of a record, finished or not; "" for any other file."""
    try:
        return str(json.loads(path.read_text())["case"]["workload"])
    except (ValueError, KeyError, TypeError):
        return ""


def _in_progress(path: Path) -> bool:
    """Whether the run that wrote an unfinished record is still running; False where files cannot be locked."""
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def open_folder(case: SharedCase, display: Display, comm: MPI.Intracomm, began: str = "") -> None:
    """Creates the folder of a run that is about to write its files. (collective)

    `began`: the checkpoint that the run continues from. Without one, the files of an earlier run are deleted. Earlier
    checkpoints are moved aside, unless the run continues from one of them. Deletes run.json in any case: it describes
    the other files, which are about to change. Raises CollectiveError if the folder cannot be written.
    """
    said: list[str] = []

    def make() -> None:
        if comm.rank != 0:
            return
        folder = Path(case.output.directory)
        folder.mkdir(parents=True, exist_ok=True)
        ours = (folder / "run.json").exists() or (folder / UNFINISHED).exists()
        _lock(folder / UNFINISHED, case)
        if ours and not began and (count := _delete_results(folder, workload_name(type(case)))):
            said.append(f"replaced    {count} files of an earlier run in {folder}")
        (folder / "run.json").unlink(missing_ok=True)
        checkpoints = folder_of_checkpoints(case)
        ours_too = Path(began).resolve().parent if began else None  # the folder that holds the checkpoints of this run
        if checkpoints and checkpoints.resolve() != ours_too and (aside := _set_aside(checkpoints)):
            said.append(f"kept        checkpoints of an earlier run, moved to {aside}")

    mpi.together(comm, make)
    for text in said:
        display.write(text)


def _lock(path: Path, case: SharedCase) -> None:
    """Writes the unfinished record and locks it. Raises BlockingIOError if another run has done so."""
    global _locked
    if _locked is not None:
        _locked.close()
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise mpi.CollectiveError(
            f"--output {path.parent}: is in use by a run in progress; choose another folder, or wait"
        ) from None
    except OSError:
        pass  # a file system without locks
    _locked = file
    try:
        with named(path):
            file.truncate(0)
            file.write(json.dumps({"schema": SCHEMA, "case": case.model_dump(by_alias=True)}, indent=1) + "\n")
            file.flush()
    except OSError:
        path.unlink()
        with contextlib.suppress(OSError):  # closing writes the rest once more
            file.close()
        _locked = None
        raise


def _delete_results(folder: Path, workload: str) -> int:
    """Deletes the files that a run of this workload may have left in its folder; returns how many files and folders."""
    patterns = [*SHARED, *RESULTS[workload]]
    found = [
        path
        for path in folder.iterdir()
        # `files.whole` writes a file under such a name first.
        if any(fnmatch.fnmatchcase(path.name.replace(".tmp.", "."), pattern) for pattern in patterns)
    ]
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return len(found)


def _set_aside(checkpoints: Path) -> Path | None:
    """Moves all checkpoints of a folder to a new folder inside it, and returns that.

    None if there are no checkpoints.
    """
    found = sorted(checkpoints.glob("checkpoint-[0-9]*")) if checkpoints.is_dir() else []
    if not found:
        return None
    numbers = (int(path.name[8:]) for path in checkpoints.glob("earlier-*") if path.name[8:].isdigit())
    aside = checkpoints / f"earlier-{max(numbers, default=0) + 1}"
    aside.mkdir()
    for path in found:
        path.rename(aside / path.name)
    return aside


@contextlib.contextmanager
def holds_folder(case: SharedCase) -> Iterator[None]:
    """Inside this context a run may open its folder; at the end the unfinished record is removed if run.json exists."""
    global _locked
    try:
        yield
        if _locked is not None:
            (Path(case.output.directory) / UNFINISHED).unlink(missing_ok=True)
    finally:
        if _locked is not None:
            _locked.close()
            _locked = None
